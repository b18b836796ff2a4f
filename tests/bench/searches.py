"""Rows of searching: by vectors against faiss and against bare reading, a retrieve against its search."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import corpus
from commits import Checkout
from daemons import Daemon, prepared, serving
from judging import Goal
from processes import Broken, need_package, peer
from row import Row, Side
from sampling import Probe, median_of

from forged_client import protocol

_ASKED = 16
_MEMORIES = 10_000


def _search(count: int, dimension: int) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with checkout.inside("search", count, dimension) as running:
            yield running.figure

    return side


def _faiss(count: int, dimension: int) -> Side:
    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        need_package("faiss", "faiss-cpu")
        with peer("faiss", count, dimension) as running:
            yield running.figure

    return side


def _reading(count: int, dimension: int) -> Side:
    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        with peer("bandwidth", count, dimension) as running:
            yield running.figure

    return side


def _dense_part(*, judged: bool) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with checkout.inside("dense-part", _MEMORIES, int(judged)) as running:
            yield running.figure

    return side


def _legs(queries: int) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with checkout.inside("both-legs", _MEMORIES, queries) as running:
            yield running.figure

    return side


def retrieve(memories: int, queries: int) -> Side:
    """Whole retrieves over the socket, a new turn each: of a message or of the agent's hypotheses."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with prepared(checkout) as daemon:
            corpus.write(daemon.repo, memories)
            with serving(daemon, stub=True) as caller:
                caller.rebuild(daemon)
                turns = itertools.count()

                def ask() -> protocol.Reply:
                    return caller.call(turn(daemon, memories, queries, next(turns)))

                for number in range(_ASKED):
                    _check(ask(), number * 50 % memories)
                yield lambda: median_of(ask, _ASKED)

    return side


def turn(daemon: Daemon, memories: int, queries: int, number: int) -> protocol.Retrieve:
    """One of sixteen questions, under a turn's name that was not heard before."""
    texts = corpus.hypotheses(number % _ASKED * 50 % memories, queries)
    return protocol.Retrieve(
        id=number + 3,
        workspace=daemon.workspace,
        session_id="bench",
        turn_id=f"turn{number}",
        hypotheses=texts if queries > 1 else (),
        messages=() if queries > 1 else (protocol.Message("user", texts[0]),),
    )


def _check(reply: protocol.Reply, number: int) -> None:
    assert isinstance(reply, protocol.Retrieved)
    ids = [hit.id for hit in reply.memories]
    if corpus.name(number) not in ids or reply.legs != ("lexical", "dense"):
        raise Broken(f"status {reply.status}, legs {reply.legs}: {corpus.name(number)} is not among {ids}")


_P4 = "P4: blocks of numpy beat the C++ library"

ROWS = (
    Row(
        name="search-10k-384",
        what="5 queries by vectors, 10,000 x 384 / faiss IndexFlatIP, one thread",
        goal=Goal(0.30),
        goal_from=f"{_P4}; a prototype was 0.37",
        ours=_search(10_000, 384),
        theirs=_faiss(10_000, 384),
        rounds=31,
    ),
    Row(
        name="search-10k-1536",
        what="the same, 10,000 x 1,536",
        goal=Goal(0.28),
        goal_from=f"{_P4}; a prototype was 0.30",
        ours=_search(10_000, 1536),
        theirs=_faiss(10_000, 1536),
        rounds=15,
    ),
    Row(
        name="search-100k-1536",
        what="the same, 100,000 x 1,536",
        goal=Goal(0.37),
        goal_from=f"{_P4}; a prototype was 0.37",
        ours=_search(100_000, 1536),
        theirs=_faiss(100_000, 1536),
        slow=True,
    ),
    Row(
        name="memory-wall-10k",
        what="5 queries by vectors, 10,000 x 1,536 / reading the rows once, one thread",
        goal=Goal(2.2),
        goal_from="P5: close to the memory wall; a prototype was 2.0",
        ours=_search(10_000, 1536),
        theirs=_reading(10_000, 1536),
        rounds=15,
    ),
    Row(
        name="memory-wall-100k",
        what="the same, 100,000 x 1,536",
        goal=Goal(1.5),
        goal_from="P5; a prototype was 1.6",
        ours=_search(100_000, 1536),
        theirs=_reading(100_000, 1536),
        slow=True,
    ),
    Row(
        name="dense-once",
        what="vectors' part of gate, search and cut, 6 queries, 10,000 x 384 / the search's alone",
        goal=Goal(1.2),
        goal_from="one product for all three",
        ours=_dense_part(judged=True),
        theirs=_dense_part(judged=False),
        rounds=31,
    ),
    Row(
        name="retrieve-search",
        what="retrieve of a message p50 over the socket, 10,000 with vectors / its search alone, in process",
        goal=Goal(1.2),
        goal_from="P7: a recall costs what its search costs; a prototype was 0.9",
        ours=retrieve(_MEMORIES, 1),
        theirs=_legs(1),
        rounds=31,
    ),
    Row(
        name="retrieve-search-5",
        what="the same with five hypotheses",
        goal=Goal(1.2),
        goal_from="P7",
        ours=retrieve(_MEMORIES, 5),
        theirs=_legs(5),
        rounds=31,
    ),
)
