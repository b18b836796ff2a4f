"""Output of `forgectl doctor`: a line for each finding, and one for many similar ones.

Findings about files are similar if reason (numbers aside), folder and fix are equal. More than three are one
line with their number and the first names. Of more than five kinds the rarest share one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from forged.cli.doctor.checks import FAIL, OK, WARN, Check
from forged.cli.terminal import Painter, escape_line, listed

_COLOURS = {OK: "good", WARN: "warn", FAIL: "bad"}
_NAMED = 3
_KINDS = 5
_NUMBER = re.compile("[0-9]+")
_OTHER = "other reasons"


def lines(found: Sequence[Check], paint: Painter, *, each: bool) -> Iterator[str]:
    """Format findings of doctor as lines, more than three similar ones as one; with `each` one by one."""
    for alike in [[check] for check in found] if each else _group_similar(found):
        if len(alike) <= _NAMED:
            for check in alike:
                yield from _finding_lines(check, paint)
        else:
            yield from _group_lines(alike, paint)


def _group_similar(found: Sequence[Check]) -> list[list[Check]]:
    """Group findings on files by folder and reason, rarest reasons as one; others stay alone."""
    kinds: dict[tuple[str, ...], list[Check]] = {}
    for number, check in enumerate(found):
        # A finding without a file is its own kind.
        kind = (*_group_key(check), _NUMBER.sub("0", _reason_text(check))) if check.about else (str(number),)
        kinds.setdefault(kind, []).append(check)
    together: list[list[Check]] = []
    for place in dict.fromkeys(_group_key(alike[0]) for alike in kinds.values()):
        here = [alike for alike in kinds.values() if _group_key(alike[0]) == place]
        here.sort(key=len, reverse=True)
        rest = [check for alike in here[_KINDS:] for check in alike] if place[-1] else []
        together += [*here[:_KINDS], rest] if len(rest) > _NAMED else here
    order = {id(check): at for at, check in enumerate(found)}
    return sorted(together, key=lambda alike: order[id(alike[0])])


def _group_key(check: Check) -> tuple[str, str, str, str]:
    """Return what similar findings have in common: level, name, fix, and folder of the file."""
    return check.level, check.name, check.fix, os.path.dirname(check.about) if check.about else ""


def _reason_text(check: Check) -> str:
    """Return the detail of a finding of doctor without the file's path at its beginning."""
    return check.detail.removeprefix(f"{check.about}: ")


def _finding_lines(check: Check, paint: Painter) -> Iterator[str]:
    """Yield one finding of doctor as a line, and its fix, if any, on a second one."""
    yield f"{_level_text(check, paint)}  {escape_line(check.name)}: {escape_line(check.detail)}"
    if check.fix:
        yield f"      fix: {escape_line(check.fix)}"


def _group_lines(alike: Sequence[Check], paint: Painter) -> Iterator[str]:
    """Yield similar findings of doctor as one: their number, reason, first names, and fix."""
    first, folder = alike[0], os.path.dirname(alike[0].about)
    reasons = {_NUMBER.sub("0", _reason_text(check)) for check in alike}
    why = _reason_text(first) if len(reasons) == 1 else _OTHER
    where = f" in {escape_line(folder)}" if folder else ""
    yield f"{_level_text(first, paint)}  {escape_line(first.name)}: {len(alike):,}{where}: {escape_line(why)}"
    names = listed(os.path.basename(check.about) for check in alike[:_NAMED])
    yield f"      {names} and {len(alike) - _NAMED:,} more (`forgectl doctor --all` lists each)"
    if first.fix:
        yield f"      fix: {escape_line(first.fix)}"


def _level_text(check: Check, paint: Painter) -> str:
    """Return the level of a finding of doctor (ok, warn, FAIL), padded and coloured."""
    return paint(_COLOURS[check.level], f"{check.level:<4}")
