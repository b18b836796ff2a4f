"""How figures are taken: two probes in turn, and the times of calls.

A probe takes one round of one side and returns its figure: seconds, MiB, requests a second. Sides are sampled
A B A B in one run, because absolute times move by a factor of two on a shared machine and ratios hardly do.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from judging import Rounds

Probe = Callable[[], float]


def interleaved(ours: Probe, theirs: Probe, rounds: int, *, warm_up: bool = True) -> Rounds:
    """Rounds of both in turn, ours first; with `warm_up` one more before them that does not count."""
    if warm_up:
        ours()
        theirs()
    taken = [(ours(), theirs()) for _ in range(rounds)]
    return Rounds(tuple(mine for mine, _ in taken), tuple(other for _, other in taken))


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median_of(call: Callable[[], object], calls: int) -> float:
    """The median of the seconds of so many calls."""
    return statistics.median(timed(call) for _ in range(calls))


def p99(seconds: Sequence[float]) -> float:
    """The 99th percentile; of fewer than a hundred the largest."""
    return sorted(seconds)[min(len(seconds) - 1, int(0.99 * len(seconds)))]
