"""Rows of memory use: the daemon with all its processes, against a vector store and the bare matrix."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import corpus
from commits import Checkout
from daemons import Caller, Daemon, prepared, serving
from judging import Goal
from processes import Broken, family, pss_mib, rss_mib
from row import Row, Side, peer_case
from sampling import Probe

_MEMORIES = 10_000
_PATIENCE_S = 60.0


def held(memories: int, weigh: Callable[..., float], *, everything: bool, vectors: bool = True) -> Side:
    """Measure MiB of a new daemon after twenty searches, with both indexes or without `vectors`.

    With `everything` also those of its worker and tracker, which run after a captured turn.
    """
    indexes = ("lexical", "dense") if vectors else ("lexical",)

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with prepared(checkout) as daemon:
            corpus.write(daemon.repo, memories)

            def round_() -> float:
                with serving(daemon, stub=vectors) as caller:
                    caller.rebuild(daemon)
                    searched(caller, daemon, indexes)
                    if everything:
                        _capture(caller, daemon)
                    return weigh(*(family(daemon.pid) if everything else (daemon.pid,)))

            yield round_

    return side


def searched(caller: Caller, daemon: Daemon, indexes: tuple[str, ...]) -> None:
    """Send twenty searches, answered by these indexes."""
    frames = daemon.frames
    for number in range(20):
        texts = corpus.hypotheses(number)
        answer = frames.answer(caller.call(frames.retrieve(daemon.workspace, hypotheses=texts)))
        if answer.indexes != indexes:
            raise Broken(f"only {answer.indexes} answered")


def _capture(caller: Caller, daemon: Daemon) -> None:
    """Capture one turn of a new session, until the worker has classified it."""
    messages = [("user", "We always deploy on Tuesdays, never on Fridays."), ("assistant", "Understood.")]
    frames, session = daemon.frames, f"bench {time.time_ns()}"
    caller.call(frames.capture(daemon.workspace, session, messages))
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        status = frames.state(caller.call(frames.status()))
        if status.judged and status.worker_pid in family(daemon.pid):
            return
        time.sleep(0.05)
    raise Broken(f"the captured turn was not judged within {_PATIENCE_S} s")


def _chroma(measure: str) -> Side:
    """Measure chromadb in one process for all rounds: it takes 20 s of CPU to fill and then idles."""
    return peer_case("chromadb", _MEMORIES, measure, package="chromadb", distribution="chromadb")


ROWS = (
    Row(
        "memory-chroma",
        "RSS of daemon, worker and tracker, 10,000 with vectors, after a captured turn / chromadb",
        Goal(0.6, "P16: two processes in less than one vector store; a prototype was 0.48"),
        held(_MEMORIES, rss_mib, everything=True),
        _chroma("rss"),
        unit="MiB",
        warm_up=False,
    ),
    Row(
        "memory-chroma-words",
        "RSS of daemon, worker and tracker, 10,000 by words, after a captured turn / chromadb",
        Goal(0.9, "the worker asks the daemon for what it needs to know, and keeps no store of its own"),
        held(_MEMORIES, rss_mib, everything=True, vectors=False),
        _chroma("rss"),
        unit="MiB",
        warm_up=False,
    ),
    Row(
        "memory-chroma-pss",
        "PSS (a shared page counts once) of daemon, worker and tracker, as above / chromadb",
        Goal(0.6, "P16"),
        held(_MEMORIES, pss_mib, everything=True),
        _chroma("pss"),
        unit="MiB",
        warm_up=False,
        slow=True,
    ),
    Row(
        "memory-matrix",
        "RSS of the daemon alone, 10,000 with vectors / numpy and the matrix",
        Goal(1.3, "P16; a prototype was 1.1"),
        held(_MEMORIES, rss_mib, everything=False),
        peer_case("matrix", _MEMORIES, "rss"),
        unit="MiB",
        warm_up=False,
    ),
)
