"""Find the days that a message names, and the memories that were made on them.

A month needs a capital letter, since "march" and "may" are verbs. A bare "May" or "March" at a sentence's
start does not count. A bare year says too little; a month without a year means any year.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.int64]
"""Seconds since the epoch, 0 if unknown."""

_DAY_S = 86_400
_YEAR_S = 31_556_952  # average year
# Memories are made after the event: one of "May 7" may be dated the 9th.
_LATE_DAYS = 7

_MONTHS = {name: number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name: number for number, name in enumerate(calendar.month_abbr) if name} | {"Sept": 9}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
# A word also ends at a Chinese character; "2025-05-03T12:00" names its day.
_ISO = re.compile(rf"\b({_YEAR})-(0[1-9]|1[0-2])(?:-([0-3]\d)(?:T\d\d)?)?\b", re.ASCII)
_ENGLISH = re.compile(
    rf"(?:\b(?P<before>[0-3]?\d)(?:st|nd|rd|th)? (?:of )?)?\b(?P<month>{_NAMES})\b\.?"
    rf"(?: (?P<after>[0-3]?\d)(?:st|nd|rd|th)?\b)?(?:,? (?:of )?(?P<year>{_YEAR})\b)?"
)
_CHINESE = re.compile(rf"(?:({_YEAR}) ?年 ?)?(?<!\d)(1[0-2]|0?[1-9]) ?月(?: ?([0-3]?\d) ?[日号])?")
# Every text that names a time matches this; most texts do not, and need no further search.
A_TIME = re.compile(rf"{_YEAR}-|月|{_NAMES}")
_VERBS = {"May", "March"}
_LOOKED_BACK = 40  # characters before a date that are searched for a sentence's end, in quadratic time
_OPENS_SENTENCE = re.compile(r"(?:^|[.!?:;\n])\W*$")


def named_time_mask(text: str, created: Seconds) -> NDArray[np.bool_] | None:
    """Return a mask of times on days that `text` names or up to 7 days later; None for no day."""
    named = set(_named_dates(text))  # a pasted log repeats the same day often
    known = created[created > 0] if named else created[:0]
    if not len(known):
        return None
    days = created // _DAY_S
    # An extra year finds nothing; early in January the memory may be of December.
    years = np.flatnonzero(np.bincount(np.concatenate([known // _YEAR_S + more for more in (0, 1, 2)])))
    hit = np.zeros(len(created), np.bool_)
    for year, month, day in named:
        for each in (year,) if year else (1969 + years).tolist():
            start, end = _days_of_date(each, month, day)
            hit |= (days >= start) & (days <= end + _LATE_DAYS)
    hit &= created > 0
    return hit


def _named_dates(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield year, month and day of each date in a text; 0 for a missing year or day."""
    for match in _ISO.finditer(text):
        yield int(match[1]), int(match[2]), int(match[3] or 0)
    for match in _CHINESE.finditer(text):
        yield int(match[1] or 0), int(match[2]), int(match[3] or 0)
    for match in _ENGLISH.finditer(text):
        day, year = int(match["before"] or match["after"] or 0), int(match["year"] or 0)
        bare = match["month"] in _VERBS and not day and not year
        start = match.start("month")
        if not (bare and _OPENS_SENTENCE.search(text[max(0, start - _LOOKED_BACK) : start])):
            yield year, _MONTHS[match["month"]], day


def _days_of_date(year: int, month: int, day: int) -> tuple[int, int]:
    """Return first and last day of a date, in days since the epoch; for an invalid day, its month."""
    length = calendar.monthrange(year, month)[1]
    start, end = (day, day) if 1 <= day <= length else (1, length)
    first = int(np.datetime64((year - 1970) * 12 + month - 1, "M").astype("datetime64[D]").astype(np.int64))
    return first + start - 1, first + end - 1
