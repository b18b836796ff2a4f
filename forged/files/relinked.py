"""A memory file with another predecessor, all else of it as it was.

Only the line of `supersedes` is changed, in whatever form somebody has written the rest; a header in which it
is not a line of its own is written anew, its unknown keys last. Raises MemoryFormatError.
"""

from __future__ import annotations

import re

import msgspec

from forged.errors import MemoryFormatError
from forged.files.frontmatter import parse, render, scalar

_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*\n(.*?)^(?:---|\.\.\.)[ \t\r]*$\n?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(rb"^supersedes[ \t]*:[^\n]*\n", re.MULTILINE)


def relinked(data: bytes, scope: str, name: str, older: str | None) -> bytes:
    """The bytes of a file that supersedes `older` now, or nothing; `scope` and `name` as for `parse`."""
    wanted = msgspec.structs.replace(parse(data, scope, name), supersedes=older)
    header = _HEADER.match(data)
    if header is None:
        raise MemoryFormatError("it has no front matter")
    for changed in (_with_line(data, header, older), render(wanted) + data[header.end() :]):
        fresh = changed if changed is not None else b""
        if fresh and parse(fresh, scope, name) == wanted:
            return fresh
    raise MemoryFormatError("its front matter cannot be written anew")


def _with_line(data: bytes, header: re.Match[bytes], older: str | None) -> bytes | None:
    """With another line of `supersedes`, or without one; None where it is not exactly one line."""
    lines = _LINK.findall(header[1])
    if len(lines) != 1:
        return None
    end = b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
    line = b"" if older is None else b"supersedes: " + scalar(older).encode() + end
    return data[: header.start(1)] + _LINK.sub(lambda _: line, header[1]) + data[header.end(1) :]
