"""A markdown text cut into statements, each of which says something by itself.

A bullet with all that is indented below it is one statement, and so is a paragraph, a numbered list (its
steps belong together) and a table. A block of code stays with what stands before it. The headings above are
given along, since "use tabs" under "Makefiles" says less without them; so is a line that ends in a colon
above a list. Comments, blocks that other tools keep in the file, titles and headings with nothing below them
are no statements: they are named, with their line. No line with text in it is lost: a test holds all of them
to one of the two.

Pure functions; nothing is raised, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from forged.importing.values import MOST_CHARS

TITLE = "the title of the file"
EMPTY_HEADING = "a heading with nothing below it"
COMMENT = "a comment"
TOOL_BLOCK = "written and rewritten there by a tool"
TOO_LONG = f"longer than {MOST_CHARS:,} characters; make several of it"

_MOST_LEAD_CHARS = 200
_MOST_BLOCK_LINES = (
    500  # of a comment; what goes on for longer has no end, and is not looked for again and again
)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_RULER = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_BULLET = re.compile(r"([ \t]*)([-*+•])[ \t]+(.*)")
_NUMBERED = re.compile(r"([ \t]*)\d{1,9}[.)][ \t]+(.*)")
_OF_LINES = re.compile(r"\d{1,9}[.)][ \t]|\||`{3}|~{3}")  # what begins like this needs a line of its own
_TOOL = re.compile(r"[ \t]*<(claude-mem-context|forged-memory|memory-context)\b[^>]*>")


class Statement(msgspec.Struct, frozen=True):
    """Its text without what is around it, the headings above it, and the first and last line, from 1.

    `lead` is the line with a colon at its end above the list that it is in.
    """

    text: str
    first: int
    last: int
    headings: tuple[str, ...] = ()
    lead: str = ""

    @property
    def said(self) -> str:
        """All of it as one text."""
        context = " > ".join(self.headings)
        before = [f"{context}:"] if context else []
        before += [self.lead] if self.lead else []
        joint = "\n" if _OF_LINES.match(self.text) else " "
        return joint.join((" ".join(before), self.text)) if before else self.text


class Cut(msgspec.Struct, frozen=True):
    """The statements of a text, and first and last line of what is none, with the reason."""

    statements: tuple[Statement, ...]
    left: tuple[tuple[int, int, str], ...]


class _Block(msgspec.Struct, frozen=True):
    kind: str
    lines: tuple[str, ...]
    first: int
    level: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")


def cut(text: str) -> Cut:
    """Cut one text."""
    one = _Cutting()
    for block in _blocks(lines_of(text)):
        one.take(block)
    return one.ended()


def lines_of(text: str) -> list[str]:
    """Its lines, whatever ends them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


# --- from lines to blocks ------------------------------------------------------------------------------


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        block = _block(lines, at)
        yield block
        at += len(block.lines)


def _block(lines: Sequence[str], at: int) -> _Block:
    line = lines[at]
    if (heading := _HEADING.fullmatch(line)) is not None:
        return _Block("heading", (line,), at + 1, len(heading[1]))
    if at + 1 < len(lines) and _is_underlined(line, lines[at + 1]):
        return _Block("heading", tuple(lines[at : at + 2]), at + 1, 1 if "=" in lines[at + 1] else 2)
    if (end := _comment_end(lines, at)) > at:
        return _Block("comment", tuple(lines[at:end]), at + 1)
    if (end := _tool_end(lines, at)) > at:
        return _Block("tool", tuple(lines[at:end]), at + 1)
    if _FENCE.fullmatch(line):
        return _Block("code", tuple(lines[at : _fence_end(lines, at)]), at + 1)
    if _RULER.fullmatch(line):
        return _Block("ruler", (line,), at + 1)
    if bullet := _BULLET.fullmatch(line):
        return _Block("bullet", _item(lines, at, len(bullet[1])), at + 1)
    if _NUMBERED.fullmatch(line):
        return _Block("steps", _steps(lines, at), at + 1)
    kind = "table" if line.lstrip().startswith("|") else "text"
    return _Block(kind, tuple(lines[at : _text_end(lines, at, kind)]), at + 1)


def _is_underlined(line: str, below: str) -> bool:
    starts_other = _starts_block(line) or line.lstrip().startswith(("|", "<"))
    return not starts_other and _UNDERLINE.fullmatch(below) is not None


def _starts_block(line: str) -> bool:
    return any(form.fullmatch(line) for form in (_HEADING, _FENCE, _RULER, _BULLET, _NUMBERED))


def _comment_end(lines: Sequence[str], at: int) -> int:
    """Where a comment that fills its lines ends; `at` if there is none."""
    if not lines[at].lstrip().startswith("<!--"):
        return at
    for end in range(at, min(at + _MOST_BLOCK_LINES, len(lines))):
        if "-->" in lines[end]:
            alone = lines[end].rstrip().endswith("-->") and lines[end].count("-->") == 1
            return end + 1 if alone else at
    return at


def _tool_end(lines: Sequence[str], at: int) -> int:
    """Where the block of another tool ends; `at` if there is none or it has no end."""
    tag = _TOOL.match(lines[at])
    if tag is None:
        return at
    for end in range(at, min(at + _MOST_BLOCK_LINES, len(lines))):
        if lines[end].rstrip().endswith(f"</{tag[1]}>"):
            return end + 1
    return at


def _fence_end(lines: Sequence[str], at: int) -> int:
    """Where a block of code ends; the end of the text if nothing closes it."""
    opening = _FENCE.fullmatch(lines[at])
    assert opening is not None
    for end in range(at + 1, len(lines)):
        mark = lines[end].strip()
        if mark.startswith(opening[1]) and not mark.strip(opening[1][0]):
            return end + 1
    return len(lines)


def _text_end(lines: Sequence[str], at: int, kind: str) -> int:
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _starts_block(lines[end]):
        if (kind == "table") != lines[end].lstrip().startswith("|"):
            break
        end += 1
    return end


def _item(lines: Sequence[str], at: int, indent: int) -> tuple[str, ...]:
    """A bullet with what is indented deeper, and lines that go on with it."""
    end = at + 1
    while end < len(lines):
        line = lines[end]
        if not line.strip():
            after = _after_blanks(lines, end)
            if after == len(lines) or _depth(lines[after]) <= indent + 1:
                break
            end = after - 1
        elif _depth(line) > indent:
            if _FENCE.fullmatch(line):
                end = _fence_end(lines, end) - 1
        elif lines[end - 1].strip() == "" or _starts_block(line) or line.lstrip().startswith("|"):
            break
        end += 1
    return tuple(lines[at:end])


def _steps(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """A whole numbered list."""
    first = _NUMBERED.fullmatch(lines[at])
    assert first is not None
    indent = len(first[1])
    end = at
    while end < len(lines) and (step := _NUMBERED.fullmatch(lines[end])) and len(step[1]) == indent:
        end += len(_item(lines, end, indent))
        after = _after_blanks(lines, end)
        follows = _NUMBERED.fullmatch(lines[after]) if after < len(lines) else None
        end = after if follows and len(follows[1]) == indent else end
    return tuple(lines[at:end])


def _after_blanks(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


# --- from blocks to statements -------------------------------------------------------------------------


class _Cutting:
    """Takes blocks in their order."""

    def __init__(self) -> None:
        self._statements: list[Statement] = []
        self._left: list[tuple[int, int, str]] = []
        self._headings: list[tuple[int, str, _Block]] = []
        self._used: set[int] = set()  # lines of headings that something stands below
        self._title = 0
        self._lead: _Block | None = None  # waits for what it leads to
        self._is_led = False
        self._is_first = True
        self._may_take_code = False

    def take(self, block: _Block) -> None:
        if block.kind == "heading":
            self._heading(block)
        elif block.kind in {"comment", "tool"}:
            why = COMMENT if block.kind == "comment" else TOOL_BLOCK
            self._left.append((block.first, block.last, why))
        elif block.kind == "ruler":
            self._let_lead_go()
        elif block.kind == "text" and block.text.rstrip().endswith((":", "：")):
            self._let_lead_go()
            self._lead, self._is_led = block, False
        elif block.kind == "code" and self._lead is None and self._may_take_code:
            self._append(block)
        else:
            self._statement(block)
        self._is_first = self._is_first and block.kind in {"comment", "tool"}

    def ended(self) -> Cut:
        self._let_lead_go()
        self._close(0)
        return Cut(tuple(self._statements), tuple(sorted(self._left)))

    def _heading(self, block: _Block) -> None:
        self._let_lead_go()
        self._may_take_code = False
        if self._is_first and block.level == 1:
            self._title = block.first
            self._left.append((block.first, block.last, TITLE))
            return
        self._close(block.level)
        match = _HEADING.fullmatch(block.lines[0])
        told = (match[2] or "") if match else block.lines[0]
        self._headings.append((block.level, told.strip().strip("*_ ").rstrip(":"), block))

    def _close(self, level: int) -> None:
        """Headings of this level and deeper are over; one that nothing stood below is named."""
        while self._headings and self._headings[-1][0] >= level:
            _, _, block = self._headings.pop()
            if block.first not in self._used:
                self._left.append((block.first, block.last, EMPTY_HEADING))

    def _statement(self, block: _Block) -> None:
        lead = self._lead
        if lead is not None and (block.kind != "bullet" or len(lead.text) > _MOST_LEAD_CHARS):
            joined = block.kind in {"steps", "table", "code"}
            self._lead = None
            if joined:
                text = f"{_flowing(lead.text)}\n{_said(block)}"
                self._add(Statement(text, lead.first, block.last))
                return
            if not self._is_led:
                self._add(Statement(_flowing(lead.text), lead.first, lead.last))
            lead = None
        self._is_led = lead is not None
        first = block.first
        said = _flowing(lead.text) if lead else ""
        self._add(Statement(_said(block), first, block.last, (), said))

    def _append(self, block: _Block) -> None:
        before = self._statements[-1]
        longer = f"{before.text}\n{block.text}"
        if len(longer) + len(before.said) - len(before.text) > MOST_CHARS:
            self._statement(block)
            return
        self._statements[-1] = msgspec.structs.replace(before, text=longer, last=block.last)

    def _add(self, statement: Statement) -> None:
        if not any(map(str.isalnum, statement.text)):
            return  # marks alone
        headings = tuple(filter(None, (told for _, told, _ in self._headings)))
        whole = msgspec.structs.replace(statement, headings=headings)
        self._used.update(block.first for _, _, block in self._headings)
        self._may_take_code = len(whole.said) <= MOST_CHARS
        if self._may_take_code:
            self._statements.append(whole)
        else:
            self._left.append((statement.first, statement.last, TOO_LONG))

    def _let_lead_go(self) -> None:
        """A line that leads to nothing says what it says."""
        lead, self._lead = self._lead, None
        if lead is not None and not self._is_led:
            self._add(Statement(_flowing(lead.text), lead.first, lead.last))
        self._is_led = False


def _said(block: _Block) -> str:
    if block.kind == "bullet":
        bullet = _BULLET.fullmatch(block.lines[0])
        assert bullet is not None
        return "\n".join((bullet[3].strip(), *_dedented(block.lines[1:]))).strip()
    if block.kind == "text":
        return _flowing(block.text)
    return "\n".join(_dedented(block.lines)).strip("\n")


def _flowing(text: str) -> str:
    """A paragraph with its lines as they are, without what stands around them."""
    return "\n".join(line.strip() for line in text.split("\n"))


def _dedented(lines: Sequence[str]) -> list[str]:
    indents = [_depth(line) for line in lines if line.strip()]
    least = min(indents, default=0)
    return [line[least:].rstrip() if line.strip() else "" for line in lines]
