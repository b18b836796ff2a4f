"""What a file of the spool holds, and how it is found: a line that says what it is, then one JSON value.

JSON, because a file that lost its end, or has a block of zeros since a power cut, is no JSON any more: what
is torn is never taken for an event, without a checksum of our own. The first line ends in the version of the
format. A newer one than ours belongs to a forged that was downgraded; such a file is left alone, for what it
holds was acknowledged. Names are made from ids that match a strict pattern, and are opened relative to a
directory that is no link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Generic, Literal, TypeVar

import msgspec

from forged.capture.values import Document, Event
from forged.errors import StoreError
from forged.files import atomic
from forged.files.scan import open_folder

VERSION = 1
MOST_BYTES = 8 << 20

Suffix = Literal[".event", ".documents", ".dead"]

# Ids also come from file names and, to retry and drop, from the wire.
_ID = re.compile(r"ev_[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(rf"({_ID.pattern})(\.[a-z]+)")
_HEADER = re.compile(rb"forged-([a-z]{1,20}) ([0-9]{1,9})\n")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = frozenset((errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO, errno.ENOTDIR))

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True):
    """An event that was given up: why, when (UTC), and what its journal held, if it had one."""

    event: Event
    reason: str
    died_at: str
    documents: tuple[Document, ...] | None = None


class Unreadable(msgspec.Struct, frozen=True):
    """Why a file is of no use. One that `stays` is not ours to judge, or may be readable another day."""

    reason: str
    stays: bool = False


class Form(Generic[T]):
    """One kind of file: `word` in its first line, and the type of its value."""

    def __init__(self, word: str, type_: type[T], most_bytes: int = MOST_BYTES) -> None:
        self._word = word.encode()
        self._most_bytes = most_bytes
        self._decoder = msgspec.json.Decoder(type_)

    def encode(self, value: T) -> bytes:
        """Content of a file. Raises StoreError for a value that could not be read back."""
        try:
            data = b"forged-%b %d\n" % (self._word, VERSION) + msgspec.json.encode(value)
        except UnicodeEncodeError as error:
            raise StoreError("it holds text that is not Unicode") from error
        if len(data) > self._most_bytes:
            raise StoreError(f"it has {len(data)} bytes; {self._most_bytes} are allowed")
        return data

    def decode(self, data: bytes) -> T | Unreadable:
        header = _HEADER.match(data)
        if header is None or header[1] != self._word:
            return Unreadable("unreadable")
        if int(header[2]) > VERSION:
            return Unreadable(f"written by a newer forged (format {int(header[2])})", stays=True)
        try:
            return self._decoder.decode(memoryview(data)[header.end() :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Unreadable("unreadable")

    def read(self, directory: int, name: str) -> T | Unreadable | None:
        """Value of a regular file of ours in a directory, None if there is none of this name."""
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
            try:
                data = _content(descriptor, self._most_bytes + 1)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = "not a regular file" if error.errno in _NO_FILE else atomic.why(error)
            return Unreadable(reason, stays=True)
        if data is None:
            return Unreadable("not a regular file of this user", stays=True)
        return self.decode(data) if len(data) <= self._most_bytes else Unreadable("unreadable")


def _content(descriptor: int, most_bytes: int) -> bytes | None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return None
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(most_bytes)


EVENT = Form("event", Event)
DOCUMENTS: Form[tuple[Document, ...]] = Form("documents", tuple[Document, ...])
# As large as an event and a journal together: whatever could wait can be given up.
RECORD = Form("dead", Record, 2 * MOST_BYTES + (64 << 10))


def is_event_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def named(event_id: str, suffix: Suffix) -> str:
    """File name of an event. Raises StoreError for an id that is none."""
    if not is_event_id(event_id):
        raise StoreError(f"{event_id[:80]!r} is no id of an event")
    return event_id + suffix


def listed(directory: int, suffixes: tuple[Suffix, ...]) -> tuple[dict[str, set[Suffix]], list[str]]:
    """Suffixes of every event id in a directory, in order of ids, and names that are nothing of ours."""
    found: dict[str, set[Suffix]] = {}
    foreign = []
    for name in sorted(os.listdir(directory)):
        match = _NAME.fullmatch(name)
        suffix = next((known for known in suffixes if match is not None and match[2] == known), None)
        if match is not None and suffix is not None:
            found.setdefault(match[1], set()).add(suffix)
        elif not name.startswith("."):  # writers at work
            foreign.append(name)
    return dict(sorted(found.items())), foreign


@contextlib.contextmanager
def opened(path: str) -> Iterator[int | None]:
    """Descriptor of a directory, None if there is no such directory. Raises OSError, StoreError."""
    try:
        directory = open_folder(*os.path.split(path))
    except FileNotFoundError:
        directory = None
    try:
        yield directory
    finally:
        if directory is not None:
            os.close(directory)


@contextlib.contextmanager
def made(path: str) -> Iterator[int]:
    """Descriptor of a directory, which is made private if it is missing. Raises OSError, StoreError."""
    top, name = os.path.split(path)
    os.makedirs(top, 0o700, exist_ok=True)
    directory = open_folder(top, name, atomic.open_or_make)
    try:
        yield directory
    finally:
        os.close(directory)


def unlink(directory: int, name: str) -> bool:
    """Remove a file; whether it was there."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True
