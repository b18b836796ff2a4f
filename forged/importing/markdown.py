"""Cut Markdown into statements, each of which is meaningful alone. Pure; raises nothing.

A bullet with its indented lines is one statement, and so is a paragraph, a numbered list and a table. A code
block belongs to the text before it. Headings and a line with a colon above a list are attached. Comments,
other tools' blocks, titles and empty headings are named with their lines. A test checks that no line with
text is lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from forged.importing.blocks import BULLET, HEADING, MarkdownBlock, blocks, indent_of, lines_of
from forged.importing.values import MOST_CHARS

TITLE = "the title of the file"
EMPTY_HEADING = "a heading with nothing below it"
COMMENT = "a comment"
TOOL_BLOCK = "written by a tool"
TAGS = "tags of HTML alone"
TOO_LONG = f"longer than {MOST_CHARS:,} characters; make several of it"

_MOST_LEAD_CHARS = 200
_JOINED = frozenset(("steps", "table", "code"))  # one statement with the line above that introduces it
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_QUOTE = re.compile(r"^(?:>[ \t]?)+")
_OF_LINES = re.compile(r"\d{1,9}[.)][ \t]|\||`{3}|~{3}")  # needs a line of its own


class MarkdownStatement(msgspec.Struct, frozen=True):
    """One statement of a Markdown text, with the headings above it.

    `lead` is the line with a colon above its list; `first` and `last` count lines from 1.
    """

    text: str
    first: int
    last: int
    headings: tuple[str, ...] = ()
    lead: str = ""

    @property
    def said(self) -> str:
        """Return headings, lead and statement as one text."""
        context = " > ".join(self.headings)
        before = [f"{context}:"] if context else []
        before += [self.lead] if self.lead else []
        joint = "\n" if _OF_LINES.match(self.text) else " "
        return joint.join((" ".join(before), self.text)) if before else self.text


class MarkdownStatements(msgspec.Struct, frozen=True):
    """Statements of a text, and the parts left out: first line, last line and reason."""

    statements: tuple[MarkdownStatement, ...]
    left: tuple[tuple[int, int, str], ...]


def cut(text: str) -> MarkdownStatements:
    """Cut a Markdown text into statements with their headings and leads, and list the parts left out."""
    one = _StatementCollector()
    for block in blocks(lines_of(text)):
        one.add(block)
    return one.finish()


class _StatementCollector:
    """Collects statements, and parts left out, from Markdown blocks in order."""

    def __init__(self) -> None:
        self._statements: list[MarkdownStatement] = []
        self._left: list[tuple[int, int, str]] = []
        self._headings: list[tuple[int, str, MarkdownBlock]] = []
        self._used: set[int] = set()  # lines of headings with text below
        self._lead: MarkdownBlock | None = None  # waits for the list that it introduces
        self._is_led = False
        self._is_first = True
        self._may_take_code = False

    def add(self, block: MarkdownBlock) -> None:
        """Add the next block: to the headings, the statements, or the parts left out."""
        if block.kind == "heading":
            self._open_heading(block)
        elif block.kind in {"comment", "tool"}:
            why = COMMENT if block.kind == "comment" else TOOL_BLOCK
            self._left.append((block.first, block.last, why))
        elif block.kind == "ruler":
            self._flush_lead()
        elif block.kind == "text" and block.text.rstrip(" \t*_").endswith((":", "：")):
            self._flush_lead()
            self._lead, self._is_led = block, False
        elif block.kind == "code" and self._may_take_code and (self._lead is None or self._is_led):
            self._append_code(block)
        else:
            self._add_block(block)
        self._is_first = self._is_first and block.kind in {"comment", "tool"}

    def finish(self) -> MarkdownStatements:
        """End the text, and return its statements."""
        self._flush_lead()
        self._close_headings(0)
        return MarkdownStatements(tuple(self._statements), tuple(sorted(self._left)))

    def _open_heading(self, block: MarkdownBlock) -> None:
        """Open a heading and close those that it ends; leave out the title of the file."""
        self._flush_lead()
        self._may_take_code = False
        if self._is_first and block.level == 1:
            self._left.append((block.first, block.last, TITLE))
            return
        self._close_headings(block.level)
        match = HEADING.fullmatch(block.lines[0])
        heading = (match[2] or "").rstrip(" \t#") if match else block.lines[0]
        self._headings.append((block.level, heading.strip().strip("*_ ").rstrip(":"), block))

    def _close_headings(self, level: int) -> None:
        """Close headings of this level and deeper; leave out those without text."""
        while self._headings and self._headings[-1][0] >= level:
            _, _, block = self._headings.pop()
            if block.first not in self._used:
                self._left.append((block.first, block.last, EMPTY_HEADING))

    def _add_block(self, block: MarkdownBlock) -> None:
        """Add a block as a statement, with the waiting lead line as its beginning or `lead`."""
        lead, said = self._lead, _block_text(block)
        if lead is not None and block.kind in _JOINED:
            self._lead, self._is_led = None, False
            self._add_statement(
                MarkdownStatement(f"{_paragraph_text(lead.text)}\n{said}", lead.first, block.last)
            )
        elif lead is not None and block.kind == "bullet" and len(lead.text) <= _MOST_LEAD_CHARS:
            led = MarkdownStatement(said, block.first, block.last, (), _paragraph_text(lead.text))
            self._is_led = self._add_statement(led) or self._is_led
        else:
            self._flush_lead()
            self._add_statement(MarkdownStatement(said, block.first, block.last))

    def _append_code(self, block: MarkdownBlock) -> None:
        """Append code to the last statement, or add it alone if the whole would be too long."""
        before = self._statements[-1]
        longer = f"{before.text}\n{block.text}"
        if len(longer) + len(before.said) - len(before.text) > MOST_CHARS:
            self._add_block(block)
            return
        self._statements[-1] = msgspec.structs.replace(before, text=longer, last=block.last)

    def _add_statement(self, statement: MarkdownStatement) -> bool:
        """Add a statement with its headings; return False if it has no words or is too long."""
        if not any(map(str.isalnum, _TAG.sub("", statement.text))):
            if any(map(str.isalnum, statement.text)):
                self._left.append((statement.first, statement.last, TAGS))
            return False
        headings = tuple(filter(None, (heading for _, heading, _ in self._headings)))
        whole = msgspec.structs.replace(statement, headings=headings)
        self._used.update(block.first for _, _, block in self._headings)
        self._may_take_code = len(whole.said) <= MOST_CHARS
        if self._may_take_code:
            self._statements.append(whole)
        else:
            self._left.append((statement.first, statement.last, TOO_LONG))
        return self._may_take_code

    def _flush_lead(self) -> None:
        """Add a waiting lead as a statement, if no list has followed it."""
        lead, self._lead = self._lead, None
        if lead is not None and not self._is_led:
            self._add_statement(MarkdownStatement(_paragraph_text(lead.text), lead.first, lead.last))
        self._is_led = False


def _block_text(block: MarkdownBlock) -> str:
    """Return a block's text without bullet, quotation marks and common indentation."""
    if block.kind == "bullet":
        bullet = BULLET.fullmatch(block.lines[0])
        assert bullet is not None
        return "\n".join((bullet[3].strip(), *_without_indentation(block.lines[1:]))).strip()
    if block.kind == "text":
        return _paragraph_text(block.text)
    return "\n".join(_without_indentation(block.lines)).strip("\n")


def _paragraph_text(text: str) -> str:
    """Return a paragraph without quotation marks, and without blanks around its lines."""
    return "\n".join(_QUOTE.sub("", line.strip(), count=1).strip() for line in text.split("\n"))


def _without_indentation(lines: Sequence[str]) -> list[str]:
    """Return lines without their common indentation."""
    indents = [indent_of(line) for line in lines if line.strip()]
    least = min(indents, default=0)
    return [line[least:].rstrip() if line.strip() else "" for line in lines]
