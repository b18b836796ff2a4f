"""A row of the bench: two sides, the goal of their ratio, and the measurement of an outcome.

A side is opened for a checkout and yields a probe, which measures one round. Against its goal a row compares
`ours` with `theirs` (a peer, a lower bound, or another state of forged itself); against a commit, `ours` of
both. Other modules hold the rows, a file for each group; `table.py` lists them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import judging
import msgspec
from commits import Checkout, checked_out
from judging import LEAST_ROUNDS, Goal, Outcome, Rounds, Verdict
from processes import Broken, Missing, need_package, peer
from sampling import Probe, interleaved

Side = Callable[[Checkout], AbstractContextManager[Probe]]


class Row(msgspec.Struct, frozen=True):
    """`ours` divided by `theirs`, in the order of `what`; `unit`: s, MiB, /s or a share.

    Rows that are `slow` run only when they are named, or with all. A side that restarts in every round needs
    no `warm_up`.
    """

    name: str
    what: str
    goal: Goal
    ours: Side
    theirs: Side
    unit: str = "s"
    rounds: int = LEAST_ROUNDS
    warm_up: bool = True
    slow: bool = False


def fixed(figure: float) -> Side:
    """Return a side with a promised bound, in seconds or MiB, on any machine."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        yield lambda: figure

    return side


def earlier(side: Side, revision: str, extras: str = "") -> Side:
    """Return the same side of an earlier commit, in an environment of its own with these extras."""

    @contextlib.contextmanager
    def of(_: Checkout) -> Iterator[Probe]:
        with checked_out(revision, extras) as other, side(other) as probe:
            yield probe

    return of


def inside(*words: str | int, driver: str = "inside.py") -> Side:
    """Return a case of the checkout's own driver as a side."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with checkout.inside(*words, driver=driver) as running:
            yield running.figure

    return side


def peer_case(*words: str | int, package: str = "numpy", distribution: str = "numpy") -> Side:
    """Return a case of peers.py as a side; the package has to be installed."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        need_package(package, distribution)
        with peer(*words) as running:
            yield running.figure

    return side


def measured(row: Row, checkout: Checkout, other: Checkout | None = None) -> Outcome:
    """Return the row's outcome against its goal, or with `other` against that commit. Raises nothing."""
    try:
        if other is None:
            return judging.against_goal(row.name, row.goal, _rounds(row, checkout, row.theirs, checkout))
        return judging.against_commit(row.name, row.goal, _rounds(row, checkout, row.ours, other))
    except Missing as missing:
        return Outcome(row.name, Verdict.GAP, reason=str(missing))
    except Exception as broken:  # noqa: BLE001 - one row's failure is not the next one's
        reason = str(broken) if isinstance(broken, (Broken, OSError)) else repr(broken)
        return Outcome(row.name, Verdict.BROKEN, reason=reason or type(broken).__name__)


def _rounds(row: Row, checkout: Checkout, their_side: Side, their_checkout: Checkout) -> Rounds:
    """Return the rounds; their side is opened first, so that a missing peer is found early."""
    with their_side(their_checkout) as theirs, row.ours(checkout) as ours:
        return interleaved(ours, theirs, row.rounds, warm_up=row.warm_up)
