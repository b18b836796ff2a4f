"""Counts, ages and columns as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def span(seconds: float) -> str:
    """A duration in its largest unit, rounded down: `45 s`, `3 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0))} s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 memory`, `2,000 memories`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with aligned cells; the last cell is never padded. Cells hold no escape sequences."""
    table = [tuple(row) for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)) + "  " + row[-1]
        if len(row) > 1
        else row[0]
        for row in table
    ]
