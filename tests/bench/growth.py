"""Rows of load and growth: many agents at once, and stores from 100 to 50,000 memories.

The other side is forged itself with one client, or with the next smaller store. Throughput must not fall,
and no cost may grow faster than the store.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

import corpus
from commits import Checkout
from daemons import Daemon, prepared, running_over, serving
from edits import found
from footprint import held
from judging import Goal
from loads import Call, load
from processes import rss_mib
from row import Row, Side
from sampling import Probe
from searches import retrieve, turn

_MEMORIES = 10_000
_CALLS = 192
_STEPS = ((100, 1_000), (1_000, 10_000), (10_000, 50_000))


def _asked_by(clients: int) -> Side:
    """Measure retrieves of a message a second, every client in a closed loop."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, _MEMORIES, stub=True) as (daemon, _):
            rounds = itertools.count()
            yield lambda: load(_retrieving(daemon, next(rounds)), clients, _CALLS // clients).per_second

    return side


def _retrieving(daemon: Daemon, round_: int) -> Callable[[int], Call]:
    """Return a call that uses a new turn each time, so that no answer comes from the cache."""

    def connected(client: int) -> Call:
        caller = daemon.connect()
        numbers = itertools.count((round_ * 64 + client) * 1_000)
        return lambda: caller.call(turn(daemon, _MEMORIES, 1, next(numbers)))

    return connected


def built(memories: int, weigh: Callable[[int], float] | None = None) -> Side:
    """Measure seconds from a daemon's start until both indexes are ready, or `weigh` of its pid then."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with prepared(checkout) as daemon:
            corpus.write(daemon.repo, memories)

            def round_() -> float:
                began = time.perf_counter()
                with serving(daemon, stub=True) as caller:
                    caller.rebuild(daemon)
                    return time.perf_counter() - began if weigh is None else weigh(daemon.pid)

            yield round_

    return side


def _held(memories: int) -> Side:
    return held(memories, rss_mib, everything=True)


def _grown(
    name: str, what: str, side: Callable[[int], Side], *, unit: str = "s", always: int = _MEMORIES
) -> tuple[Row, ...]:
    """Return a row for each step from one size of store to the next, slow except the step to `always`."""
    return tuple(
        Row(
            f"growth-{name}-{large}",
            f"{what}, {large:,} memories with vectors / {small:,}",
            Goal(large / small, "no faster than the store"),
            side(large),
            side(small),
            unit=unit,
            warm_up=False,
            slow=large != always,
        )
        for small, large in _STEPS
    )


ROWS = (
    *(
        Row(
            f"clients-{clients}",
            f"{clients} clients, retrieves a second, 10,000 with vectors / 1 client",
            Goal(bound, source, at_least=True),
            _asked_by(clients),
            _asked_by(1),
            unit="/s",
        )
        for clients, bound, source in (
            (4, 1.0, "more agents get no less done"),
            (16, 1.15, "P8: one read of the matrix serves many; a prototype was 1.22"),
            (64, 1.15, "P8"),
        )
    ),
    *_grown("start", "daemon start to both indexes", built),
    *_grown("retrieve", "retrieve of a message p50", lambda memories: retrieve(memories, 1)),
    *_grown("edit", "file renamed to found, slowest of 30", found, always=0),
    *_grown("memory", "RSS of all processes after a captured turn", _held, unit="MiB"),
)
