"""Open transcripts safely: files by others, of any size, perhaps not what they seem.

Only a regular file of this user within the harness's folder is read, and no link out of it is followed. A
line that is too long is skipped, and so is the first one of a tail, which is incomplete. Raises OSError, and
TranscriptError for a file that must not be read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from forged.errors import ForgedError

MOST_LINE = 8 << 20


class TranscriptError(ForgedError):
    """Raised for a file that must not be read as a transcript; the message gives the reason."""


@contextmanager
def opened(path: str, home: str) -> Iterator[BinaryIO]:
    """Open a regular file of this user below `home`, for this context. Raises TranscriptError, OSError."""
    require_below(path, home)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise TranscriptError("it is no regular file of this user")
        yield file


def require_below(path: str, home: str) -> None:
    """Raise TranscriptError unless a path is below `home`, with its links followed."""
    folder = os.path.realpath(home)
    if os.path.commonpath([os.path.realpath(path), folder]) != folder:
        raise TranscriptError("it lies outside of the agent's folder")


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield every line of a file, an undecodable one in place of one that is too long."""
    while line := file.readline(MOST_LINE):
        if line.endswith(b"\n") or len(line) < MOST_LINE:
            yield line
            continue
        while (rest := file.readline(MOST_LINE)) and not rest.endswith(b"\n"):
            pass
        yield b"?"


def tail_of(file: BinaryIO, most_bytes: int) -> tuple[Iterable[bytes], bool]:
    """Return a file's first and last lines, or all if it is small; and True if these are all."""
    size = os.fstat(file.fileno()).st_size
    if size <= most_bytes:
        return lines_of(file), True
    first = file.readline(MOST_LINE)
    file.seek(size - most_bytes)
    file.readline(MOST_LINE)
    return (line for lines in ((first,), lines_of(file)) for line in lines), False
