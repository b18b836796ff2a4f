"""Evidence of memories: hashes of repository files, and checks if these files have changed.

A path is resolved below the top of the repository, through folders and without links, to a regular file.
At most 4 MiB of a file are read. So a foreign repository cannot probe other files. `with_hash` raises
EvidenceError.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator

import msgspec

from forged.errors import ForgedError
from forged.files.scan import Pace
from forged.memory import Evidence, Memory

MOST_EVIDENCE = 8
"""Limit of checked files of one memory."""

_MOST_BYTES = 4 << 20
_MOST_PATH = 400
_HASH_DIGITS = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LINES = re.compile(r"([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?", re.ASCII)

_Key = tuple[int, int, int, int]
"""Inode, size, mtime and ctime of a file: equal means unchanged."""


class EvidenceError(ForgedError):
    """Raised if an evidence file, or its lines, cannot be read; the message says why."""


def with_hash(top: str, evidence: Evidence) -> Evidence:
    """Return evidence with the hash of the current content of its lines or file. Raises EvidenceError."""
    with _open_below(top, evidence.path) as descriptor:
        return msgspec.structs.replace(evidence, hash=_hash_of(descriptor, evidence))


class EvidenceChecker:
    """Finds memories of a root whose evidence has changed; caches hashes. For one thread at a time."""

    def __init__(self, top: str) -> None:
        """Take the directory to which the paths of evidence are relative."""
        self._top = top
        self._hashes: dict[Evidence, tuple[_Key, str]] = {}
        self._shown: dict[str, tuple[Memory, Memory]] = {}

    def with_stale(
        self, memories: tuple[Memory, ...], *, afresh: bool, pause: Callable[[], None]
    ) -> tuple[Memory, ...]:
        """Return the memories, each with `stale` set to the paths of its evidence that has changed.

        Without `afresh`, earlier results are used again. Equal results are the same objects.
        """
        standing = [memory for memory in memories if memory.evidence]
        if not standing:
            self._hashes, self._shown = {}, {}
            return memories
        pace = Pace(pause)
        before, self._shown = self._shown, {}
        for memory in standing:
            self._shown[memory.id] = self._check(memory, before.get(memory.id), afresh=afresh)
            pace.yield_if_due()
        self._drop_unused(standing)
        return tuple(self._shown[each.id][1] if each.evidence else each for each in memories)

    @property
    def stale(self) -> tuple[str, ...]:
        """Return ids of the memories with changed evidence, as of the last check."""
        return tuple(shown.id for _, shown in self._shown.values() if shown.stale)

    def _check(
        self, memory: Memory, before: tuple[Memory, Memory] | None, *, afresh: bool
    ) -> tuple[Memory, Memory]:
        """Return a memory as it is and with `stale` set, or the last result if it still holds."""
        if before is not None and before[0] is memory and not afresh:
            return before
        named = memory.evidence[:MOST_EVIDENCE]
        stale = tuple(dict.fromkeys(each.path for each in named if not self._is_unchanged(each)))
        if before is not None and before[0] is memory and before[1].stale == stale:
            return before
        return memory, msgspec.structs.replace(memory, stale=stale) if stale else memory

    def _is_unchanged(self, evidence: Evidence) -> bool:
        """Return True if the file of evidence exists and has its hash, if there is one."""
        try:
            with _open_below(self._top, evidence.path) as descriptor:
                return not evidence.hash or self._known_hash(descriptor, evidence) == evidence.hash
        except EvidenceError:
            return False

    def _known_hash(self, descriptor: int, evidence: Evidence) -> str:
        """Return the hash of a file or its lines, computed again only if the file changed."""
        found = os.fstat(descriptor)
        key = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._hashes.get(evidence)
        if known is None or known[0] != key:
            known = self._hashes[evidence] = key, _hash_of(descriptor, evidence)
        return known[1]

    def _drop_unused(self, standing: Iterable[Memory]) -> None:
        """Drop cached hashes of evidence that no memory has any more."""
        named = {each for memory in standing for each in memory.evidence}
        self._hashes = {each: known for each, known in self._hashes.items() if each in named}


@contextlib.contextmanager
def _open_below(top: str, path: str) -> Iterator[int]:
    """Open a regular file below the top without following links, for the block; yield its descriptor."""
    *folders, name = _path_parts(path)
    held = []
    try:
        held.append(os.open(top, _FOLDER))
        for folder in folders:
            held.append(os.open(folder, _FOLDER, dir_fd=held[-1]))
        held.append(os.open(name, _FILE, dir_fd=held[-1]))
        if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
            raise EvidenceError(f"{path!r} is not a regular file")
        yield held[-1]
    except OSError as error:
        raise EvidenceError(f"{path!r} cannot be read in this repository: {error.strerror}") from error
    finally:
        for descriptor in held:
            os.close(descriptor)


def _path_parts(path: str) -> list[str]:
    """Return the parts of the path of evidence. Raises EvidenceError if it may leave the repository."""
    parts = path.split("/")
    if len(path) > _MOST_PATH or "\0" in path or not {"", ".", ".."}.isdisjoint(parts):
        raise EvidenceError(f"{path[:80]!r} is not a path in the repository")
    return parts


def _hash_of(descriptor: int, evidence: Evidence) -> str:
    """Return the hash of the lines that the evidence names, or of the file. Raises EvidenceError."""
    data = os.pread(descriptor, _MOST_BYTES + 1, 0)
    if len(data) > _MOST_BYTES:
        raise EvidenceError(f"{evidence.path!r} is larger than {_MOST_BYTES >> 20} MiB")
    data = data.replace(b"\r\n", b"\n")
    if evidence.lines:
        data = _named_lines(data.split(b"\n"), evidence)
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def _named_lines(lines: list[bytes], evidence: Evidence) -> bytes:
    """Return the lines of a file that the evidence names, joined. Raises EvidenceError if there are none."""
    match = _LINES.fullmatch(evidence.lines)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last <= len(lines):
        raise EvidenceError(f"{evidence.path!r} has no lines {evidence.lines[:20]!r}")
    return b"\n".join(lines[first - 1 : last])
