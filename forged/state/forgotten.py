"""Texts that were forgotten or undone, so that the next turn's window does not bring them back.

Only digests are kept: what somebody asked to be forgotten must not lie in a list of forgotten things. They
hold for 7 days, as long as a file lies in the trash: by then no conversation still has the old sentence in
its window, and somebody who says it again means it. The daemon adds, the worker process reads; a line is
appended whole, and one that a crash has torn is no digest and costs nobody else's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable

from forged.files import atomic
from forged.text.same_text import normalised

logger = logging.getLogger(__name__)

KEPT = 10_000
HELD_S = 7 * 24 * 3600.0
_DIGITS = 32
_LINE = re.compile(rb"^([0-9a-f]{%d}) (\d{10})$" % _DIGITS, re.MULTILINE)
_LINE_BYTES = _DIGITS + 13  # with its time and two line ends
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Key = tuple[int, int, int, int]


def digest(top: str, text: str) -> str:
    """Return the digest of a text of the root at `top`, the same for all that differ in typography only.

    What one repository forgets, another may still be told; what the user's root forgets, none.
    """
    said = f"{top}\0{normalised(text)}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


class Forgotten:
    """The file of digests: one a line, oldest first. For several threads; one process adds."""

    def __init__(self, path: str, kept: int = KEPT, clock: Callable[[], float] = time.time) -> None:
        """`path` is absolute; of more than `kept` digests the newest count. `clock` gives Unix seconds."""
        self._path = path
        self._kept = kept
        self._clock = clock
        self._adding = threading.Lock()
        self._loaded: tuple[_Key, dict[str, int]] | None = None

    def add(self, top: str, texts: Iterable[str]) -> None:
        """Remember texts of a root, durably on return. Blocks for an fsync. Raises StoreError."""
        digests = list(dict.fromkeys(digest(top, text) for text in texts))
        if not digests:
            return
        with self._adding, atomic.explained(f"cannot write {self._path}"):
            # Begins a line of its own, whatever a crash has left behind.
            lines = (f"{digest} {int(self._clock()):010d}" for digest in digests)
            if self._append("\n".join(("", *lines, "")).encode()) > self._room:
                self._shorten()

    def load(self) -> frozenset[str]:
        """Digests of the last 7 days; what cannot be read is left out. Blocks. Raises nothing."""
        try:
            key = _key(os.stat(self._path, follow_symlinks=False))
            if self._loaded is None or self._loaded[0] != key:
                self._loaded = (key, self._digests())
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            logger.warning("list of forgotten texts not read path=%s reason=%s", self._path, error.strerror)
            return frozenset()
        since = self._clock() - HELD_S
        return frozenset(digest for digest, at in self._loaded[1].items() if at > since)

    @property
    def _room(self) -> int:
        """Bytes that twice the digests take when each was added alone."""
        return 2 * self._kept * _LINE_BYTES

    def _append(self, data: bytes) -> int:
        """Write at the end and sync; return the size of the file."""
        directory = os.path.dirname(self._path)
        os.makedirs(directory, 0o700, exist_ok=True)
        fd = os.open(self._path, _APPEND, 0o600)
        try:
            _write(fd, data)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size == len(data):
            _sync(directory)
        return size

    def _shorten(self) -> None:
        """Put a file with the newest digests alone in place of this one; if that fails, it is tried again."""
        try:
            lines = (f"{digest} {at:010d}\n" for digest, at in self._digests().items())
            atomic.replace(self._path, "".join(lines).encode())
        except OSError as error:
            logger.warning(
                "list of forgotten texts not shortened path=%s reason=%s", self._path, error.strerror
            )

    def _digests(self) -> dict[str, int]:
        """Return the newest digests and when each was last added, oldest first. Raises OSError."""
        with open(self._path, "rb", opener=lambda path, _: os.open(path, _READ)) as file:
            # A damaged file may have any size.
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * self._room))
            found = _LINE.findall(file.read(4 * self._room))
        newest: dict[str, int] = {}
        for line, at in reversed(found):
            newest.setdefault(line.decode(), int(at))
        return dict(reversed(list(newest.items())[: self._kept]))


def _key(status: os.stat_result) -> _Key:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _sync(directory: str) -> None:
    fd = os.open(directory, atomic.DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
