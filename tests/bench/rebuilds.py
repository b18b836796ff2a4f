"""Rows of a rebuild: the delay of pings while every file is new."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import corpus
from commits import Checkout
from daemons import Caller, Daemon, running_over
from judging import Goal
from processes import Broken
from row import Row, Side, fixed
from sampling import Probe, p99, timed

_FILES = 10_000
_PAUSE_S = 0.001
_IDLE_S = 1.0


def _while_rebuilding(*, vectors: bool, read: Callable[[list[float]], float] = p99) -> Side:
    """Ping every millisecond while all of 10,000 files change at once, as in a checkout."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, _FILES, stub=vectors) as (daemon, caller):
            corpus.write(daemon.repo, _FILES, edition=1, folder=".forge/other")
            editions = itertools.cycle((1, 0))

            def round_() -> float:
                _swap(daemon)
                work = threading.Thread(target=_rebuild, args=(daemon,))
                work.start()
                taken = _pings(daemon, caller, work.is_alive)
                work.join()
                _check(caller, daemon, next(editions))
                return read(taken)

            yield round_

    return side


def _p999(seconds: list[float]) -> float:
    """Return the 99.9th percentile."""
    return sorted(seconds)[int(0.999 * len(seconds))]


def _while_idle(*, vectors: bool) -> Side:
    """Ping for a second while the daemon is idle."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, _FILES, stub=vectors) as (daemon, caller):

            def round_() -> float:
                ends = time.monotonic() + _IDLE_S
                return p99(_pings(daemon, caller, lambda: time.monotonic() < ends))

            yield round_

    return side


def _pings(daemon: Daemon, caller: Caller, wanted: Callable[[], bool]) -> list[float]:
    taken, ping = list[float](), daemon.ping
    while wanted():
        taken.append(timed(lambda: caller.ask(ping)))
        time.sleep(_PAUSE_S)
    return taken


def _swap(daemon: Daemon) -> None:
    folder = daemon.repo / ".forge"
    (folder / "memory").rename(folder / "aside")
    (folder / "other").rename(folder / "memory")
    (folder / "aside").rename(folder / "other")


def _rebuild(daemon: Daemon) -> None:
    with contextlib.closing(daemon.connect()) as caller:
        caller.rebuild(daemon, full=True)


def _check(caller: Caller, daemon: Daemon, edition: int) -> None:
    ids = (corpus.name(0), corpus.name(_FILES - 1))
    found = daemon.frames.texts(caller.call(daemon.frames.some_memories(daemon.workspace, ids)))
    if [f"edition{edition} " in text for text in found] != [True, True]:
        raise Broken("the rebuild did not show the new files")


ROWS = (
    *(
        Row(
            name,
            f"ping p99 while 10,000 files are rebuilt {how} / idle",
            Goal(2.0, "P11: a rebuild is not felt; a prototype was 3.9 in slices, 0.8 in another process"),
            _while_rebuilding(vectors=vectors),
            _while_idle(vectors=vectors),
            slow=not vectors,
        )
        for name, how, vectors in (
            ("rebuild-words", "by words", False),
            ("rebuild-vectors", "by words and vectors", True),
        )
    ),
    Row(
        "rebuild-ping",
        "ping p99.9 while 10,000 files are rebuilt by words and vectors / 30 ms",
        Goal(1.0, "no single step of a rebuild is felt"),
        _while_rebuilding(vectors=True, read=_p999),
        fixed(0.030),
        slow=True,
    ),
)
