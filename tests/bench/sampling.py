"""Sampling of figures: two probes in turn, and the times of calls.

A probe measures one round of one side and returns its figure: seconds, MiB, requests a second. It returns
when its side is idle again, so that its remaining work does not slow the other side. Sides are sampled A B A
B in one run, because absolute times vary by a factor of two on a shared machine and ratios hardly do.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

from judging import Rounds

Probe = Callable[[], float]
NOT_DRIVEN = 64  # exit code of a driver whose commit lacks the case


def interleaved(ours: Probe, theirs: Probe, rounds: int, *, warm_up: bool = True) -> Rounds:
    """Return rounds of both in turn, ours first; with `warm_up` one more before them does not count."""
    if warm_up:
        ours()
        theirs()
    taken = [(ours(), theirs()) for _ in range(rounds)]
    return Rounds(tuple(mine for mine, _ in taken), tuple(other for _, other in taken))


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median_of(call: Callable[[], object], calls: int) -> float:
    """Return the median of the seconds of so many calls."""
    return statistics.median(timed(call) for _ in range(calls))


def p99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile; of fewer than a hundred the largest."""
    return sorted(seconds)[min(len(seconds) - 1, int(0.99 * len(seconds)))]


def answer(cases: Sequence[Callable[..., Probe]]) -> None:
    """Serve as the asked process: run the case of the command line, round by round."""
    named = {case.__name__.replace("_", "-"): case for case in cases}
    if sys.argv[1] not in named:
        print(f"no case {sys.argv[1]}", file=sys.stderr)
        sys.exit(NOT_DRIVEN)
    measured = named[sys.argv[1]](*sys.argv[2:])
    print("ready", flush=True)
    for _ in sys.stdin:
        print(measured(), flush=True)
