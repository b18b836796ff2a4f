"""Rows of fair service: pings during greedy clients or long texts, and throughput of many clients."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

import corpus
from commits import Checkout
from daemons import Caller, Daemon, prepared, running_over, serving
from judging import Goal
from loads import Call, load
from processes import Broken
from row import Row, Side, fixed, inside
from sampling import Probe, p99, timed
from searches import turn

_PAUSE_S, _ROUND_S = 0.001, 2.0
_FEW, _MANY = 1_500, 10_000
_CLIENTS, _EACH = 16, 40
# Words in a sentence of a long text; captures of a round; seconds between two pings.
_WORDS, _TURNS, _EVERY_S, _PATIENCE_S = 9, 5, 0.005, 120.0
_NUMBERS = itertools.count()


def _ping_during(greedy: Callable[[Daemon, int], None], count: int) -> Side:
    """Measure the ping p99 of one client while so many greedy processes run."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with running_over(checkout, _FEW, stub=True) as (daemon, caller):

            def round_() -> float:
                with _running(greedy, daemon, count):
                    return _pings(daemon, caller)

            yield round_

    return side


@contextlib.contextmanager
def _twenty_ms(_: Checkout) -> Iterator[Probe]:
    yield lambda: 0.020


@contextlib.contextmanager
def _fifty_ms(_: Checkout) -> Iterator[Probe]:
    yield lambda: 0.050


def _pings(daemon: Daemon, caller: Caller) -> float:
    ping = daemon.ping
    taken, ends = [], time.monotonic() + _ROUND_S
    while time.monotonic() < ends:
        taken.append(timed(lambda: caller.ask(ping)))
        time.sleep(_PAUSE_S)
    return p99(taken)


@contextlib.contextmanager
def _running(greedy: Callable[[Daemon, int], None], daemon: Daemon, count: int) -> Iterator[None]:
    context = get_context("fork")
    children: list[BaseProcess] = [
        context.Process(target=greedy, args=(daemon, number), daemon=True) for number in range(count)
    ]
    for child in children:
        child.start()
    try:
        yield
        if not all(child.is_alive() for child in children):
            raise Broken("a greedy client has failed")
    finally:
        for child in children:
            child.kill()
            child.join()


def _pipelining(daemon: Daemon, number: int) -> None:
    """Keep sixty-four retrieves in flight."""
    caller, turns = daemon.connect(), itertools.count()
    for _ in range(64):
        caller.send(_fresh(daemon, _FEW, number, next(turns)))
    while True:
        caller.next()
        caller.send(_fresh(daemon, _FEW, number, next(turns)))


def _not_reading(daemon: Daemon, _: int) -> None:
    """Request lists of all memories, over and over, and read none."""
    caller = daemon.connect()
    ask = daemon.frames.encode(daemon.frames.all_memories(daemon.workspace, 1000))
    while True:
        with contextlib.suppress(OSError):
            for _ in range(64):
                caller.send(ask)
            time.sleep(60)
        caller = daemon.connect()


def _fresh(daemon: Daemon, memories: int, client: int, number: int) -> bytes:
    """Return a retrieve for a new turn."""
    named = f"{os.getpid()}-{client}-{number}"
    return daemon.frames.encode(turn(daemon, memories, 1, number, named=named))


@contextlib.contextmanager
def _sixteen(checkout: Checkout) -> Iterator[Probe]:
    """Measure retrieves a second that sixteen clients get of 10,000 memories with vectors."""
    with running_over(checkout, _MANY, stub=True) as (daemon, _):
        yield lambda: load(lambda number: _asking(daemon, number), _CLIENTS, _EACH).per_second


@contextlib.contextmanager
def _one(checkout: Checkout) -> Iterator[Probe]:
    with running_over(checkout, _MANY, stub=True) as (daemon, _):
        yield lambda: load(lambda number: _asking(daemon, number), 1, _EACH * 4).per_second


@contextlib.contextmanager
def _over_long_texts(checkout: Checkout, count: int, size: int) -> Iterator[tuple[Daemon, Caller]]:
    """Run a daemon with memories of this size, of the user and of a trusted repository each."""
    with prepared(checkout) as daemon:
        for top in (daemon.home, daemon.repo):
            folder = top / ".forge/memory"
            folder.mkdir(parents=True)
            for number in range(count):
                header = corpus.memory(number).file.rpartition(b"---\n")[0]
                folder.joinpath(f"{corpus.name(number)}.md").write_bytes(header + _long_text(number, size))
        with serving(daemon) as caller:
            caller.rebuild(daemon)
            _captured(daemon, caller)  # the worker starts with the first
            yield daemon, caller


def _long_text(number: int, size: int) -> bytes:
    words = corpus.words(random.Random(number), size // 4)
    sentences = (" ".join(words[at : at + _WORDS]) for at in range(0, len(words), _WORDS))
    return f"---\n{'. '.join(sentences)}"[:size].encode() + b"\n"


def _captured(daemon: Daemon, caller: Caller) -> None:
    """Capture five turns with a change of mind, until each is classified."""
    for _ in range(_TURNS):
        number, before = next(_NUMBERS), _judged(daemon, caller)
        said = f"We use PostgreSQL {number} for the orders, no longer MySQL, from now on."
        session = f"bench {os.getpid()} {number}"
        messages = [("user", said), ("assistant", "Understood.")]
        caller.call(daemon.frames.capture(daemon.workspace, session, messages))
        ends = time.monotonic() + _PATIENCE_S
        while _judged(daemon, caller) == before:
            if time.monotonic() > ends:
                raise Broken(f"a captured turn was not judged within {_PATIENCE_S} s")
            time.sleep(0.02)


def _judged(daemon: Daemon, caller: Caller) -> int:
    return daemon.frames.state(caller.call(daemon.frames.status())).judged


def _slowest_during_captures(count: int, size: int) -> Side:
    """Measure the slowest of pings every 5 ms during five captures."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with _over_long_texts(checkout, count, size) as (daemon, caller):
            yield lambda: _slowest(daemon, lambda: _captured(daemon, caller))

    return side


@contextlib.contextmanager
def _slowest_of_a_short_store(checkout: Checkout) -> Iterator[Probe]:
    """Measure the same with a store of one memory of 300 bytes, and add 100 ms."""
    with _over_long_texts(checkout, 1, 300) as (daemon, caller):
        yield lambda: 0.1 + _slowest(daemon, lambda: _captured(daemon, caller))


def _slowest(daemon: Daemon, work: Callable[[], None]) -> float:
    taken, is_over, frame = list[float](), threading.Event(), daemon.ping

    def ping() -> None:
        with contextlib.closing(daemon.connect()) as caller:
            while not is_over.wait(_EVERY_S):
                taken.append(timed(lambda: caller.ask(frame)))

    pinging = threading.Thread(target=ping)
    pinging.start()
    try:
        work()
    finally:
        is_over.set()
        pinging.join()
    return max(taken)


@contextlib.contextmanager
def _five_captures(checkout: Checkout) -> Iterator[Probe]:
    with _over_long_texts(checkout, 30, 10_000) as (daemon, caller):
        yield lambda: timed(lambda: _captured(daemon, caller))


def _asking(daemon: Daemon, number: int) -> Call:
    caller, turns = daemon.connect(), itertools.count()

    def ask() -> None:
        said = caller.ask(_fresh(daemon, _MANY, number, next(turns)))
        if len(said) < corpus.BODY_BYTES:
            raise Broken("a retrieve found nothing")

    return ask


ROWS = (
    Row(
        "fair-ping",
        "ping p99 during 4 clients with 64 retrieves each under way, 1,500 memories / 20 ms",
        Goal(1.0, "one client's load is not another's wait"),
        _ping_during(_pipelining, 4),
        _twenty_ms,
    ),
    Row(
        "unread-ping",
        "ping p99 during 50 clients that ask for long lists and read none, 1,500 memories / 50 ms",
        Goal(1.0, "who does not read is not served"),
        _ping_during(_not_reading, 50),
        _fifty_ms,
    ),
    *(
        Row(
            f"long-ping-{size // 1000}k",
            f"slowest ping during five captures over {count} of {size // 1000} KB / 1 of 300 B, and 100 ms",
            Goal(1.0, "one text delays no client"),
            _slowest_during_captures(count, size),
            _slowest_of_a_short_store,
            slow=size > 10_000,
        )
        for count, size in ((30, 10_000), (10, 30_000), (3, 250_000))
    ),
    Row(
        "long-captures",
        "five captures, 30 memories of 10 KB of the user and of the repository / 3 s",
        Goal(1.0, "one text delays no client"),
        _five_captures,
        fixed(3.0),
    ),
    Row(
        "patterns",
        "CPU of the worker's first event, in which all patterns are compiled / 0.5 s",
        Goal(1.0, "0.3 s for patterns; 3.3 s were one alternation of 76,268 characters"),
        inside("first-judged"),
        fixed(0.5),
    ),
    Row(
        "clients-10k",
        "16 clients, retrieves a second, 10,000 with vectors / one client's",
        Goal(1.0, "1.8 times those of commit 988efb1: --against 988efb1", at_least=True),
        _sixteen,
        _one,
        unit="/s",
    ),
)
