"""Which of the candidates are let in: each by what speaks for it, and strength sets the amount.

In go a `Reading`, its candidates in their order, and what makes a request strong; out comes a `Verdict` for
each of them, in the same order: why it is let in, or why it stays out. Where there is nothing to compare
with, everything is let in. Nothing is raised.

A message alone is given what has evidence of its own, and of that what is not far below the best: a part of
the best's evidence, a smaller one where the best is beyond doubt. In a session less is wanted of a memory,
for two reasons: a message within a conversation is likelier to be about the project than one that comes
alone, and what a session has heard once stands in it for all turns that follow, so it pays to hear most at
the beginning. The first turn may bring as many as are ever asked for, and later ones fewer and fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from forged.map.relevance import UNGATED, Reading
from forged.map.search import Candidate


class Bar(msgspec.Struct, frozen=True):
    """What is let in of a request, in deviations below what makes one strong.

    A request may be `weak` by so many, and a memory of it by `short`. A memory needs `part` of the evidence
    of the best as well, or `least_part` where that is beyond doubt; 0 for none. At most `most` come.
    """

    weak: float
    short: float
    part: float = 0.0
    least_part: float = 0.0
    most: int = 100

    def weak_at(self, turn: int) -> float:
        """How weak a request may be; people begin a session with what it is about, so it may be weaker."""
        return self.short if turn == 1 else self.weak

    def lowest(self, least: float, best: float) -> float:
        """The evidence that a memory needs beside the best one."""
        part = self.least_part if best >= _DOUBTLESS * least else self.part
        return max(least - self.short, min(best, part * best)) if part else least - self.short


# Beyond doubt: so many times what makes a request strong.
_DOUBTLESS = 1.5
# By vectors, on the development halves. Of a message alone 1.25 to 1.4 trade recall for memories per
# unrelated message, and parts of 0.3 to 0.6 trade it for the share that answers. In a session 2.1 to 2.6 lie
# on one line of recall in context over tokens and share, and a message needs what an everyday one reaches.
_ALONE, _SESSION = Bar(1.25, 1.25, 0.6, 0.3, 5), Bar(1.65, 2.5)
# By words alone one word in common is chance: a message alone gets nothing for it. A request that has more is
# given what shares its words, as those that share fewer come last.
_ALONE_WORDS, _SESSION_WORDS = Bar(0.0, 9.0), Bar(1.0, 9.0)
# What any turn of a session may bring, however many came before it.
_FEWEST = 3

FAINT, FAR, FULL = "faint", "far", "full"


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of a candidate, for which so much speaks.

    `came` is strong, near or weak, and "" where nothing was decided; `stayed` is faint (too little speaks
    for it), far (too little beside the best) or full (others came before it), and "" if it was let in.
    """

    candidate: Candidate
    evidence: float
    came: str = ""
    stayed: str = ""


def is_hopeless(reading: Reading, least: float, *, turn: int = 0) -> bool:
    """Whether nothing can be let in, so that nobody needs to look for candidates."""
    return reading.evidence < least - _bar(reading, turn).weak_at(turn)


def verdicts(
    reading: Reading, candidates: Sequence[Candidate], least: float, *, turn: int = 0, most: int
) -> list[Verdict]:
    """What becomes of the candidates, of which `most` may come.

    `least` is the evidence that makes a request strong; `turn` is which of a session's turns it is, from 1
    on, and 0 for a message that is no part of a session.
    """
    if reading.evidence == UNGATED:
        return [Verdict(each, UNGATED, stayed="" if n < most else FULL) for n, each in enumerate(candidates)]
    bar = _bar(reading, turn)
    judged = list(_judged(reading, candidates, least, turn))
    few = _few(bar, turn, most)
    enough = sorted((each for each in judged if not each.stayed), key=lambda each: -each.evidence)
    full = {each.candidate for each in enough[few:]}
    return [
        Verdict(each.candidate, each.evidence, stayed=FULL) if each.candidate in full else each
        for each in judged
    ]


def room(*, turn: int, most: int, by_vectors: bool) -> int:
    """How many of `most` may come of a request, whatever speaks for them and wherever they lie."""
    if turn:
        return _few(_SESSION if by_vectors else _SESSION_WORDS, turn, most)
    return _few(_ALONE if by_vectors else _ALONE_WORDS, turn, most)


def _few(bar: Bar, turn: int, most: int) -> int:
    return min(most, bar.most, max(_FEWEST, 2 * most // (turn + 1)) if turn else bar.most)


def _judged(reading: Reading, candidates: Sequence[Candidate], least: float, turn: int) -> Iterator[Verdict]:
    """Each candidate by itself, however many may come."""
    bar = _bar(reading, turn)
    evidence = reading.evidences([(each.map_index, each.row) for each in candidates])
    best = max(evidence, default=0.0)
    lowest, hopeless = bar.lowest(least, best), is_hopeless(reading, least, turn=turn)
    for each, own in zip(candidates, evidence, strict=True):
        if hopeless or own < least - bar.short:
            yield Verdict(each, own, stayed=FAINT)
        elif own < lowest:
            yield Verdict(each, own, stayed=FAR)
        elif own >= least:
            yield Verdict(each, own, "strong")
        else:
            yield Verdict(each, own, "near" if reading.evidence >= least else "weak")


def is_near(evidence: float, least: float) -> bool:
    """Whether so much speaks for a memory as a weak request that stands alone may be given."""
    return evidence >= least - _ALONE.short


def leads(reading: Reading, source: tuple[int, int], target: tuple[int, int], least: float) -> bool:
    """Whether a link leads from one memory to another: weak evidence of its own, or a source beyond doubt."""
    if reading.evidence == UNGATED:
        return True
    has_some = is_near(reading.evidence_of(*target), least)
    return has_some or reading.evidence_of(*source) >= _DOUBTLESS * least


def _bar(reading: Reading, turn: int) -> Bar:
    if reading.cosines is None:
        return _SESSION_WORDS if turn else _ALONE_WORDS
    return _SESSION if turn else _ALONE
