"""Which of the candidates are let in: each by what speaks for it, and strength sets the amount.

In go a `Reading`, its candidates in their order, and what a request needs; out come those that are let in,
in the same order, each with why. Whatever alone would let a request pass is let in; beside it come the next
best, up to a few, if some evidence of their own speaks for them and they are near the best. A request for
which next to nothing speaks is given nothing. Where there is nothing to compare with, everything is let in.
Nothing is raised.

One bar for the whole request gave ten memories to the weakest requests, of which one mattered, and fewer than
two to the strongest; so every memory is asked for itself. A message within a conversation is likelier to be
about the project than one that comes alone, so less is wanted of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from forged.map.relevance import UNGATED, Reading
from forged.map.search import Candidate


class Bar(msgspec.Struct, frozen=True):
    """What is let in of a request, in deviations.

    A request may fall `short` of what is needed by so much, and a memory of it by `own`. A memory lies at
    most `within` below the best one. Those that do not reach what is needed are let in up to `few` in all.
    """

    short: float
    own: float
    within: float
    few: int


# By vectors, on the development halves. Of a message alone 0.85 to 1.8 trade recall of the own set, 0.58 to
# 0.67, for memories per unrelated message, 0.25 to 0.85. Within a conversation 1.65 to 2.4 and two or three
# memories lie on one line of recall in context over tokens.
_ALONE, _GOES_ON = Bar(1.25, 1.25, 1.5, 3), Bar(2.4, 2.4, 2.5, 2)
# By words alone weak evidence is none: one word in common is chance.
_ALONE_WORDS, _GOES_ON_WORDS = Bar(0.0, 9.0, 5.0, 10), Bar(1.0, 2.2, 4.0, 3)


class Admitted(msgspec.Struct, frozen=True):
    """A candidate that is let in. `came` is strong, near, word or weak, and "" where nothing was decided."""

    candidate: Candidate
    came: str
    evidence: float


def is_hopeless(reading: Reading, least: float, *, goes_on: bool = False) -> bool:
    """Whether nothing can be let in, so that nobody needs to look for candidates."""
    return reading.evidence < least - _bar(reading, goes_on).short


def admitted(
    reading: Reading, candidates: Sequence[Candidate], least: float, *, goes_on: bool = False
) -> list[Admitted]:
    """Those of the candidates that may be injected.

    `least` is the evidence that makes a request strong; `goes_on` says that it is part of a conversation.
    """
    if reading.evidence == UNGATED:
        return [Admitted(each, "", UNGATED) for each in candidates]
    if is_hopeless(reading, least, goes_on=goes_on):
        return []
    bar = _bar(reading, goes_on)
    kept = list(_above(reading, candidates, least, bar))
    best = sorted(kept, key=lambda each: -each.evidence)[: bar.few]
    return [each for each in kept if each.came == "strong" or each in best]


def _above(reading: Reading, candidates: Sequence[Candidate], least: float, bar: Bar) -> Iterator[Admitted]:
    """Candidates for which enough speaks, however many."""
    near = reading.near_best(candidates)
    evidence = [reading.evidence_of(each.map_index, each.row) for each in near]
    lowest = max(least - bar.own, max(evidence, default=0.0) - bar.within)
    is_strong = reading.evidence >= least
    for each, own in zip(near, evidence, strict=True):
        if own >= max(least, lowest):
            yield Admitted(each, "strong", own)
        elif own >= lowest:
            yield Admitted(each, "near" if is_strong else "weak", own)
        elif is_strong and reading.is_named(each):
            yield Admitted(each, "word", own)


def _bar(reading: Reading, goes_on: bool) -> Bar:
    if reading.cosines is None:
        return _GOES_ON_WORDS if goes_on else _ALONE_WORDS
    return _GOES_ON if goes_on else _ALONE
