"""A row of the bench: two sides, the goal of their ratio, and how a row becomes an outcome.

A side is opened for a checkout and yields a probe, which takes one round. Against its goal a row compares
`ours` with `theirs` (a peer, a floor, or another state of forged itself); against a commit, `ours` of both.
Other modules hold the rows, a file for each group; `table.py` lists them all.
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
    """`ours` through `theirs`, in the order in which `what` names them; `unit`: s, MiB, /s or a share.

    Rows that are `slow` run only when they are named, or with all. A side that starts anew in every round
    needs no `warm_up`.
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
    """A bound that no machine moves: seconds or MiB that somebody promised."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        yield lambda: figure

    return side


def earlier(side: Side, revision: str, extras: str = "") -> Side:
    """The same side of an earlier commit, in an environment of its own, with what these extras bring."""

    @contextlib.contextmanager
    def of(_: Checkout) -> Iterator[Probe]:
        with checked_out(revision, extras) as other, side(other) as probe:
            yield probe

    return of


def inside(*words: str | int, driver: str = "inside.py") -> Side:
    """A case of the checkout's own driver."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with checkout.inside(*words, driver=driver) as running:
            yield running.figure

    return side


def beside(*words: str | int, package: str = "numpy", distribution: str = "numpy") -> Side:
    """A case of peers.py, for which the package has to be here."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        need_package(package, distribution)
        with peer(*words) as running:
            yield running.figure

    return side


def measured(row: Row, checkout: Checkout, other: Checkout | None = None) -> Outcome:
    """The row's outcome against its goal, or with `other` against that commit. Raises nothing."""
    try:
        if other is None:
            return judging.against_goal(row.name, row.goal, _rounds(row, checkout, row.theirs, checkout))
        return judging.against_commit(row.name, row.goal, _rounds(row, checkout, row.ours, other))
    except Missing as missing:
        return Outcome(row.name, Verdict.GAP, reason=str(missing))
    except Exception as broken:  # noqa: BLE001 - one row's failure is not the next one's
        told = str(broken) if isinstance(broken, (Broken, OSError)) else repr(broken)
        return Outcome(row.name, Verdict.BROKEN, reason=told or type(broken).__name__)


def _rounds(row: Row, checkout: Checkout, their_side: Side, their_checkout: Checkout) -> Rounds:
    """Their side is opened first: a peer that is missing is known before anything is built for it."""
    with their_side(their_checkout) as theirs, row.ours(checkout) as ours:
        return interleaved(ours, theirs, row.rounds, warm_up=row.warm_up)
