"""Fit lines and columns into a terminal, measured in cells: an ideograph takes two, an accent none.

Texts are escaped already. A `width` of 0 is no limit. A table that is too wide gets shorter ids first, which
stay distinct. Then the last cell is cut or goes below its line; other cells are folded and never cut. Where
terminals differ, the larger width of Python's tables counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_GAP = "  "
_INDENT = "    "
_CUT = "..."
# Cells that the last cell of a row has at least, or it goes below.
_LEAST = 30
_SHORTEST_ID = 12
_ID = re.compile(r"mem_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UNSEEN = {"Mn", "Me", "Cf"}
_EMOJI = "\ufe0f"  # makes the sign before it a picture, two cells wide
_JAMO = range(0x1160, 0x1200)  # the later parts of a Korean syllable share the cells of the first


def cells(text: str) -> int:
    """Return the width of a line in cells of a terminal."""
    return len(text) if text.isascii() else sum(size for _, size in _characters(text))


def cut(text: str, room: int) -> str:
    """Cut a line to `room` cells of a terminal, with dots at the end; a shorter one stays."""
    if cells(text) <= room:
        return text
    return _prefix_within(text, max(0, room - len(_CUT))).rstrip() + _CUT[: max(0, room)]


def folded(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Fold a line, at spaces if possible, to at most `width` cells a line; indent later lines."""
    if not width or cells(text) <= width:
        yield text
        return
    line, start = "", ""
    for word in re.findall(r"\s*\S+", text):
        if line.strip() and cells(start + line + word) > width:
            yield start + line
            line, start = "", indent
            word = word.lstrip()  # noqa: PLW2901 - the space at a fold belongs to neither line
        line += word
        while cells(start + line) > width:
            head = _prefix_within(line, max(1, width - cells(start))) or line[0]
            yield start + head
            line, start = line[len(head) :], indent
    if line.strip():
        yield start + line


def columns(
    rows: Iterable[Sequence[str]], numbers_from: int | None = None, width: int = 0, *, cuts: bool = False
) -> list[str]:
    """Align rows as a table that fits `width`: ids shortened, last cell cut (`cuts`) or put below.

    With `cuts` the last cell may be cut. A table with numbers needs a head as its first row.
    """
    table = [tuple(row) for row in rows]
    if not (width and table and _table_width(table, numbers_from) > width):
        return _aligned_lines(table, numbers_from)
    if numbers_from is not None:
        return _number_table(table, numbers_from, width)
    table = _with_short_ids(table)
    room = width - _table_width([row[:-1] for row in table], None) - len(_GAP)
    longest = max(cells(row[-1]) for row in table)
    if room >= (min(_LEAST, longest) if cuts else longest):
        return _aligned_lines([(*row[:-1], cut(row[-1], room)) for row in table], None)
    return [line for row in _stacked(table, width) for line in row]


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Map each memory id to a unique prefix of 12 or more characters; other texts stay whole."""
    known = sorted(set(ids))
    found: dict[str, str] = {}
    for place, each in enumerate(known):
        neighbours = known[max(0, place - 1) : place] + known[place + 1 : place + 2]
        common = max((_common_length(each, other) for other in neighbours), default=0)
        found[each] = each[: max(_SHORTEST_ID, common + 1)] if _ID.fullmatch(each) else each
    return found


def _characters(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character of a text with its combining marks, and its width in terminal cells."""
    letter, size = "", 0
    for each in text:
        own = _cells_of(each)
        if own or not letter:
            if letter:
                yield letter, size
            letter, size = each, own
        else:
            letter, size = letter + each, 2 if each == _EMOJI else size
    if letter:
        yield letter, size


def _cells_of(letter: str) -> int:
    """Return the width of one character in cells of a terminal: 0, 1 or 2."""
    if unicodedata.category(letter) in _UNSEEN or ord(letter) in _JAMO:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in {"W", "F"} else 1


def _prefix_within(text: str, room: int) -> str:
    """Return the longest prefix of a text that fits into `room` cells of a terminal."""
    kept = ""
    for letter, size in _characters(text):
        room -= size
        if room < 0:
            break
        kept += letter
    return kept


def _common_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _table_width(table: Sequence[Sequence[str]], numbers_from: int | None) -> int:
    """Return the width in cells of the widest line of a table, once its columns are aligned."""
    return max(map(cells, _aligned_lines(table, numbers_from)), default=0)


def _aligned_lines(table: Sequence[Sequence[str]], numbers_from: int | None) -> list[str]:
    """Pad each column's cells to one width, numbers at the right; return a line for each row."""
    if not table:
        return []
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    words = len(widths) if numbers_from is None else numbers_from
    if words == len(widths):
        widths[-1:] = [0]
    return [
        _GAP.join(
            _padded(cell, width, to_the_right=place >= words)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]


def _padded(cell: str, width: int, *, to_the_right: bool) -> str:
    """Fill a table's cell with spaces up to a width, on its left or right."""
    space = " " * (width - cells(cell))
    return space + cell if to_the_right else cell + space


def _with_short_ids(table: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Shorten the memory ids in a table to prefixes that stay distinct."""
    short = short_ids(cell for row in table for cell in row if _ID.fullmatch(cell))
    return [tuple(short.get(cell, cell) for cell in row) for row in table]


def _stacked(table: Sequence[Sequence[str]], width: int) -> Iterator[list[str]]:
    """Yield each row of a table that is too wide as lines: its last cell is folded below the others."""
    heads = _aligned_lines([(*row[:-1], "") for row in table], None)
    for head, row in zip(heads, table, strict=True):
        lines = list(folded(head.rstrip(), width, _INDENT))
        yield [*lines, *folded(_INDENT + row[-1], width, _INDENT)] if row[-1] else lines


def _number_table(table: Sequence[Sequence[str]], numbers_from: int, width: int) -> list[str]:
    """Format a wide table of numbers: words of its head stacked or, if too wide still, as `name value`."""
    names = [name.split(" ") if place >= numbers_from else [name] for place, name in enumerate(table[0])]
    height = max(map(len, names))
    head = list(zip(*([""] * (height - len(name)) + name for name in names), strict=True))
    lines = _aligned_lines([*head, *table[1:]], numbers_from)
    if max(map(cells, lines)) <= width:
        return lines
    found: list[str] = []
    for row in table[1:]:
        found += folded(_GAP.join(row[:numbers_from]), width, _INDENT)
        named = zip(table[0][numbers_from:], row[numbers_from:], strict=True)
        found += folded(_INDENT + ", ".join(f"{name} {value}" for name, value in named), width, _INDENT)
    return found
