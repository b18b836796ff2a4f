"""A memory file with another predecessor, all else of it as it was.

Only the line of `supersedes` is changed, in whatever form somebody has written the rest; a header in which it
is not a line of its own is written anew, its unknown keys last. Raises MemoryFormatError.
"""

from __future__ import annotations

import contextlib
import re

import msgspec

from forged.errors import MemoryFormatError
from forged.files.frontmatter import parse, render
from forged.files.scalars import scalar

_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*\n(.*?)^(?:---|\.\.\.)[ \t\r]*$\n?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(rb"^(supersedes[ \t]*:[^\n]*\n)", re.MULTILINE)
_BEFORE = re.compile(rb"^category[ \t]*:[^\n]*\n()", re.MULTILINE)


def relinked(data: bytes, scope: str, name: str, older: str | None) -> bytes:
    """The bytes of a file that supersedes `older` now, or nothing; `scope` and `name` as for `parse`."""
    wanted = msgspec.structs.replace(parse(data, scope, name), supersedes=older)
    header = _HEADER.match(data)
    if header is None:
        raise MemoryFormatError("it has no front matter")
    head = render(msgspec.structs.replace(wanted, content=""))
    for fresh in (_with_line(data, header, older), head + data[header.end() :]):
        with contextlib.suppress(MemoryFormatError):
            if parse(fresh, scope, name) == wanted:
                return fresh
    raise MemoryFormatError("its front matter cannot be written anew")


def _with_line(data: bytes, header: re.Match[bytes], older: str | None) -> bytes:
    """With another line of `supersedes`, or without one, or with a new one where the written form has it."""
    end = b"\r\n" if header[1].endswith(b"\r\n") else b"\n"
    line = b"" if older is None else b"supersedes: " + scalar(older).encode() + end
    there = _LINK.search(header[1]) or _BEFORE.search(header[1])
    first, last = there.span(1) if there else (len(header[1]),) * 2
    return data[: header.start(1) + first] + line + data[header.start(1) + last :]
