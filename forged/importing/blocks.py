"""Split Markdown lines into blocks: headings, bullets, lists, code, tables, text.

It knows only as much of Markdown as separates statements. Code without an end runs to the end of the text, as
in renderers; a comment or tag without an end is text. Each non-blank line is in one block. Pure functions;
nothing is raised, and time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

# Most lines of a comment; a longer one is not searched for its end, line by line.
_MOST_BLOCK_LINES = 500
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(\S.*))?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_RULER = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
BULLET = re.compile(r"([ \t]*)([-*+•])[ \t]+(.*)")
_NUMBERED = re.compile(r"([ \t]*)\d{1,9}[.)][ \t]+(.*)")
_TOOL = re.compile(r"[ \t]*<(claude-mem-context|forged-memory|memory-context)\b[^>]*>")


class MarkdownBlock(msgspec.Struct, frozen=True):
    """Block of lines; `kind` is heading, comment, tool, code, ruler, bullet, steps, table or text.

    `first` counts lines from 1, `level` is that of a heading.
    """

    kind: str
    lines: tuple[str, ...]
    first: int
    level: int = 0

    @property
    def last(self) -> int:
        """Return the number of the block's last line."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """Return the block's lines as one text."""
        return "\n".join(self.lines).strip("\n")


def lines_of(text: str) -> list[str]:
    """Split a text into lines at LF, CRLF or CR, without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def blocks(lines: Sequence[str]) -> Iterator[MarkdownBlock]:
    """Yield the blocks of Markdown lines in order."""
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        block = _block_at(lines, at)
        yield block
        at += len(block.lines)


def _block_at(lines: Sequence[str], at: int) -> MarkdownBlock:
    """Return the block that begins at a non-blank line."""
    line = lines[at]
    if (heading := HEADING.fullmatch(line)) is not None:
        return MarkdownBlock("heading", (line,), at + 1, len(heading[1]))
    if at + 1 < len(lines) and _is_underlined(line, lines[at + 1]):
        return MarkdownBlock("heading", tuple(lines[at : at + 2]), at + 1, 1 if "=" in lines[at + 1] else 2)
    if (end := _comment_end(lines, at)) > at:
        return MarkdownBlock("comment", tuple(lines[at:end]), at + 1)
    if (end := _tool_end(lines, at)) > at:
        return MarkdownBlock("tool", tuple(lines[at:end]), at + 1)
    if _FENCE.fullmatch(line):
        return MarkdownBlock("code", tuple(lines[at : _fence_end(lines, at)]), at + 1)
    if _RULER.fullmatch(line):
        return MarkdownBlock("ruler", (line,), at + 1)
    if bullet := BULLET.fullmatch(line):
        return MarkdownBlock("bullet", _bullet_lines(lines, at, len(bullet[1])), at + 1)
    if _NUMBERED.fullmatch(line):
        return MarkdownBlock("steps", _numbered_lines(lines, at), at + 1)
    kind = "table" if line.lstrip().startswith("|") else "text"
    return MarkdownBlock(kind, tuple(lines[at : _paragraph_end(lines, at, kind)]), at + 1)


def _is_underlined(line: str, below: str) -> bool:
    """Return True if a line is a heading by the marks in the line below."""
    starts_other = _starts_block(line) or line.lstrip().startswith(("|", "<"))
    return not starts_other and _UNDERLINE.fullmatch(below) is not None


def _starts_block(line: str) -> bool:
    """Return True for a line that begins another block."""
    return any(form.fullmatch(line) for form in (HEADING, _FENCE, _RULER, BULLET, _NUMBERED))


def _comment_end(lines: Sequence[str], at: int) -> int:
    """Return the index after an HTML comment that begins here and fills its lines, else `at`."""
    if not lines[at].lstrip().startswith("<!--"):
        return at
    for end in range(at, min(at + _MOST_BLOCK_LINES, len(lines))):
        if "-->" in lines[end]:
            alone = lines[end].rstrip().endswith("-->") and lines[end].count("-->") == 1
            return end + 1 if alone else at
    return at


def _tool_end(lines: Sequence[str], at: int) -> int:
    """Return the index after a block that a memory tool inserted in tags here, else `at`."""
    tag = _TOOL.match(lines[at])
    if tag is None:
        return at
    for end in range(at, min(at + _MOST_BLOCK_LINES, len(lines))):
        if lines[end].rstrip().endswith(f"</{tag[1]}>"):
            return end + 1
    return at


def _fence_end(lines: Sequence[str], at: int) -> int:
    """Return the index after a code block that begins here; without an end, the end of the text."""
    opening = _FENCE.fullmatch(lines[at])
    assert opening is not None
    for end in range(at + 1, len(lines)):
        mark = lines[end].strip()
        if mark.startswith(opening[1]) and not mark.strip(opening[1][0]):
            return end + 1
    return len(lines)


def _paragraph_end(lines: Sequence[str], at: int, kind: str) -> int:
    """Return the index after a paragraph or table that begins here."""
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _starts_block(lines[end]):
        if (kind == "table") != lines[end].lstrip().startswith("|"):
            break
        end += 1
    return end


def _bullet_lines(lines: Sequence[str], at: int, indent: int) -> tuple[str, ...]:
    """Return the lines of a bullet that begins here, with deeper and continuation lines."""
    end = at + 1
    while end < len(lines):
        line = lines[end]
        if not line.strip():
            after = _after_blanks(lines, end)
            if after == len(lines) or indent_of(lines[after]) <= indent + 1:
                break
            end = after - 1
        elif indent_of(line) > indent:
            if _FENCE.fullmatch(line):
                end = _fence_end(lines, end) - 1
        elif lines[end - 1].strip() == "" or _starts_block(line) or line.lstrip().startswith("|"):
            break
        end += 1
    return tuple(lines[at:end])


def _numbered_lines(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """Return the lines of a numbered list that begins here."""
    first = _NUMBERED.fullmatch(lines[at])
    assert first is not None
    indent = len(first[1])
    end = at
    while end < len(lines) and (step := _NUMBERED.fullmatch(lines[end])) and len(step[1]) == indent:
        end += len(_bullet_lines(lines, end, indent))
        after = _after_blanks(lines, end)
        follows = _NUMBERED.fullmatch(lines[after]) if after < len(lines) else None
        end = after if follows and len(follows[1]) == indent else end
    return tuple(lines[at:end])


def _after_blanks(lines: Sequence[str], at: int) -> int:
    """Return the index of the first non-blank line from `at` on."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def indent_of(line: str) -> int:
    """Return the number of blanks and tabs at a line's start."""
    return len(line) - len(line.lstrip(" \t"))
