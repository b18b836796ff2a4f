"""Rows of searching: by vectors against faiss and a bare read, a retrieve against its search."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import corpus
from commits import Checkout
from daemons import Daemon, running_over
from judging import Goal
from processes import Broken
from row import Row, Side, inside, peer_case
from sampling import Probe, median_of, p99, timed

_ASKED = 16
_SLOWEST_OF = 128
_MEMORIES = 10_000


def retrieve(memories: int, queries: int, *, mode: str = "plain", slowest: bool = False) -> Side:
    """Measure whole retrieves over the socket, a new turn each: of a message or of hypotheses.

    In a `mode` of sessions sixteen turns are one session. The figure is the median, of the `slowest` p99 of
    128.
    """

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, memories, stub=True) as (daemon, caller):
            turns = itertools.count()

            def ask() -> object:
                return caller.call(turn(daemon, memories, queries, next(turns), mode=mode))

            for number in range(_ASKED):
                _check(daemon, ask(), number * 50 % memories)
            if slowest:
                yield lambda: p99([timed(ask) for _ in range(_SLOWEST_OF)])
            else:
                yield lambda: median_of(ask, _ASKED)

    return side


def by_words(memories: int, **settings: str) -> Side:
    """Measure whole retrieves of messages, answered by words, from a daemon's third turn on."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, memories, settings=settings) as (daemon, caller):
            turns = itertools.count()

            def ask() -> object:
                return caller.call(turn(daemon, memories, 1, next(turns)))

            for _ in range(_ASKED):
                answer = daemon.frames.answer(ask())
                if answer.indexes != ("lexical",) or not answer.hits:
                    raise Broken(f"status {answer.status} ({answer.reason}), indexes {answer.indexes}")
            yield lambda: median_of(ask, _ASKED)

    return side


def turn(
    daemon: Daemon, memories: int, queries: int, number: int, *, mode: str = "plain", named: str = ""
) -> object:
    """Return one of sixteen questions, under a new turn id.

    Each is answered by itself, as by a commit without modes; or the sixteen are a session.
    """
    texts = corpus.hypotheses(number % _ASKED * 50 % memories, queries)
    return daemon.frames.retrieve(
        daemon.workspace,
        number=number + 3,
        session="bench" if mode == "plain" else f"bench{number // _ASKED}",
        mode=mode,
        turn=named or f"turn{number}",
        hypotheses=texts if queries > 1 else (),
        said=() if queries > 1 else [("user", texts[0])],
    )


def _check(daemon: Daemon, reply: object, number: int) -> None:
    answer = daemon.frames.answer(reply)
    ids = [hit.id for hit in answer.hits]
    if corpus.name(number) not in ids or answer.indexes != ("lexical", "dense"):
        raise Broken(
            f"status {answer.status}, indexes {answer.indexes}: {corpus.name(number)} is not among {ids}"
        )


def _faiss(count: int, dimension: int) -> Side:
    return peer_case("faiss", count, dimension, package="faiss", distribution="faiss-cpu")


# Both endpoints refuse connections.
_OUTAGE = {
    "FORGED_MEMORY__EMBEDDING_MODEL": "m",
    "FORGED_MEMORY__EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1",
    "FORGED_MEMORY__RETRIEVAL_MODEL": "m",
    "FORGED_MEMORY__RETRIEVAL_MIN_SCORE": "0.95",  # as for a calibrated model
    "FORGED_LLM__BASE_URL": "http://127.0.0.1:9/v1",
}

_P4 = "P4: blocks of numpy beat the C++ library; a prototype was"

ROWS = (
    *(
        Row(
            f"search-{count // 1000}k-{dimension}",
            f"5 queries by vectors, {count:,} x {dimension:,} / faiss IndexFlatIP, one thread",
            goal,
            inside("search", count, dimension),
            _faiss(count, dimension),
            rounds=rounds,
            slow=count > _MEMORIES,
        )
        for count, dimension, goal, rounds in (
            (10_000, 384, Goal(0.30, f"{_P4} 0.37"), 31),
            (10_000, 1536, Goal(0.28, f"{_P4} 0.30"), 15),
            (100_000, 1536, Goal(0.37, f"{_P4} 0.37"), 7),
        )
    ),
    *(
        Row(
            f"memory-wall-{count // 1000}k",
            f"5 queries by vectors, {count:,} x 1,536 / reading the rows once, one thread",
            goal,
            inside("search", count, 1536),
            peer_case("bandwidth", count, 1536),
            rounds=rounds,
            slow=count > _MEMORIES,
        )
        for count, goal, rounds in (
            (10_000, Goal(2.2, "P5: close to the memory wall; a prototype was 2.0"), 15),
            (100_000, Goal(1.5, "P5; a prototype was 1.6"), 7),
        )
    ),
    Row(
        "dense-once",
        "vectors' part of gate, search and cut, 6 queries, 10,000 x 384 / the search's alone",
        Goal(1.2, "one product for all three"),
        inside("dense-part", _MEMORIES, 1),
        inside("dense-part", _MEMORIES, 0),
        rounds=31,
    ),
    Row(
        "retrieve-outage",
        "retrieve of a message p50 while both endpoints are dead, 1,000 memories / without any endpoint",
        Goal(1.3, "an endpoint that fails costs two turns and no more"),
        by_words(1_000, **_OUTAGE),
        by_words(1_000),
        rounds=31,
    ),
    *(
        Row(
            f"retrieve-{mode}{'-p99' * slowest}",
            f"a {mode} session's retrieve {'p99' if slowest else 'p50'}, 10,000 with vectors / of a message",
            Goal(1.5, "a session costs what it says again"),
            retrieve(_MEMORIES, 1, mode=mode, slowest=slowest),
            retrieve(_MEMORIES, 1, slowest=slowest),
            rounds=31,
            slow=slowest,
        )
        for mode in ("block", "append")
        for slowest in (False, True)
    ),
    Row(
        "retrieve-p99",
        "retrieve of a message p99, 10,000 with vectors / its p50",
        Goal(3.0, "no turn waits for what another left behind"),
        retrieve(_MEMORIES, 1, slowest=True),
        retrieve(_MEMORIES, 1),
        rounds=31,
        slow=True,
    ),
    *(
        Row(
            name,
            f"retrieve of {what} p50, 10,000 with vectors / its search alone, in process",
            Goal(1.2, source),
            retrieve(_MEMORIES, queries),
            inside("both-indexes", _MEMORIES, queries),
            rounds=31,
        )
        for name, what, queries, source in (
            (
                "retrieve-search",
                "a message",
                1,
                "P7: a recall costs what its search costs; a prototype was 0.9",
            ),
            ("retrieve-search-5", "five hypotheses", 5, "P7"),
        )
    ),
)
