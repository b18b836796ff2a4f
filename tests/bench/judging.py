"""Verdict of a row: the ratio of every round, its median, and the result.

Takes the figures of at least seven rounds, both sides of a round measured right after one another, and
returns an `Outcome`. A ratio is ours divided by theirs. Against a goal the median of the ratios decides;
there is no best value and no softened limit. Against another commit a row is worse only if its median grew
by more than a tenth and by more than the spread of the other commit's own rounds. If these differ by more
than half, a row that looks worse is noisy, which is no pass. An unmeasured row is a gap, and fails as a
wrong answer does, because a silent row goes unnoticed. Raises ValueError for fewer than seven rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import StrEnum

import msgspec

LEAST_ROUNDS = 7
_TOLERANCE = 0.10
_NOISE = 0.50


class Verdict(StrEnum):
    MET = "met"
    MISSED = "missed"
    NO_WORSE = "no worse"
    WORSE = "worse"
    BROKEN = "broken"  # a wrong answer: a fast wrong answer is no figure
    NOISY = "noisy"
    GAP = "gap"


_BAD = {Verdict.MISSED, Verdict.WORSE, Verdict.BROKEN, Verdict.GAP}


class Goal(msgspec.Struct, frozen=True):
    """Goal of the ratio with its source: at most `bound`, or at least, where more is better."""

    bound: float
    source: str = ""
    at_least: bool = False

    def is_met_by(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


class Rounds(msgspec.Struct, frozen=True):
    """One figure of each side for every round, in the measured order."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(mine / other for mine, other in zip(self.ours, self.theirs, strict=True))


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one row.

    `low` and `high` are the smallest and the largest ratio of a round. `ours` and `theirs` are medians in
    the row's unit. `reason` is why there are none, or the measurement behind the verdict.
    """

    row: str
    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    theirs: float | None = None
    reason: str = ""


def against_goal(row: str, goal: Goal, rounds: Rounds) -> Outcome:
    """Return met or missed, by the median of the rounds' ratios."""
    ratio = statistics.median(_enough(rounds).ratios)
    verdict = Verdict.MET if goal.is_met_by(ratio) else Verdict.MISSED
    return _outcome(row, verdict, ratio, rounds, f"goal {goal}")


def against_commit(row: str, goal: Goal, rounds: Rounds) -> Outcome:
    """Return no worse or worse than the other commit, by the ratio of the medians."""
    ratio = statistics.median(_enough(rounds).ours) / statistics.median(rounds.theirs)
    allowed = max(_TOLERANCE, own_spread(rounds.theirs))
    lost = 1 / ratio - 1 if goal.at_least else ratio - 1
    verdict = Verdict.WORSE if lost > allowed else Verdict.NO_WORSE
    if _TOLERANCE < lost <= allowed and allowed > _NOISE:
        verdict = Verdict.NOISY
    return _outcome(row, verdict, ratio, rounds, f"allowed {allowed:.0%}")


def own_spread(figures: Sequence[float]) -> float:
    """Return the spread of rounds: the width of their middle half, as a share of the median."""
    lower, middle, upper = statistics.quantiles(figures, n=4, method="inclusive")
    return (upper - lower) / middle


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 1 if a row is missed, worse or not measured; else 2 if one is too noisy; else 0."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if verdicts & _BAD:
        return 1
    return 2 if Verdict.NOISY in verdicts else 0


def summary(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return a line for every verdict with its rows; for gaps each with its reason."""
    lines = []
    for verdict in Verdict:
        rows = [outcome.row for outcome in outcomes if outcome.verdict is verdict]
        if rows:
            lines.append(f"{verdict} {len(rows)}: {', '.join(rows)}")
    gaps = [outcome for outcome in outcomes if outcome.verdict is Verdict.GAP]
    return (*lines, *(f"gap in {outcome.row}: {outcome.reason}" for outcome in gaps))


def _enough(rounds: Rounds) -> Rounds:
    if min(len(rounds.ours), len(rounds.theirs)) < LEAST_ROUNDS:
        raise ValueError(f"a verdict takes at least {LEAST_ROUNDS} rounds, these are {len(rounds.ours)}")
    return rounds


def _outcome(row: str, verdict: Verdict, ratio: float, rounds: Rounds, reason: str) -> Outcome:
    ours, theirs = statistics.median(rounds.ours), statistics.median(rounds.theirs)
    return Outcome(row, verdict, ratio, min(rounds.ratios), max(rounds.ratios), ours, theirs, reason)
