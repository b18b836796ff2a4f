"""Rows of fair service: another's ping beside greedy clients, and what many clients get together."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

import corpus
import msgspec
from commits import Checkout
from daemons import Caller, Daemon, standing
from judging import Goal
from loads import Call, load
from processes import Broken
from row import Row, Side
from sampling import Probe, p99, timed
from searches import turn

from forged_client import framing, protocol

_PING = framing.encode(protocol.Ping(id=2))
_PAUSE_S, _ROUND_S = 0.001, 2.0
_FEW, _MANY = 1_500, 10_000
_CLIENTS, _EACH = 16, 40


def _beside(greedy: Callable[[Daemon, int], None], count: int) -> Side:
    """Ping p99 of a client that asks for nothing else, beside so many processes that do."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with standing(checkout, _FEW, stub=True) as (daemon, caller):

            def round_() -> float:
                with _running(greedy, daemon, count):
                    return _pings(caller)

            yield round_

    return side


@contextlib.contextmanager
def _twenty_ms(_: Checkout) -> Iterator[Probe]:
    yield lambda: 0.020


@contextlib.contextmanager
def _fifty_ms(_: Checkout) -> Iterator[Probe]:
    yield lambda: 0.050


def _pings(caller: Caller) -> float:
    taken, ends = [], time.monotonic() + _ROUND_S
    while time.monotonic() < ends:
        taken.append(timed(lambda: caller.ask(_PING)))
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
    """Sixty-four retrieves under way, another for each that is answered."""
    caller, turns = Caller(daemon.socket), itertools.count()
    for _ in range(64):
        caller.send(_fresh(daemon, _FEW, number, next(turns)))
    while True:
        caller.next()
        caller.send(_fresh(daemon, _FEW, number, next(turns)))


def _not_reading(daemon: Daemon, _: int) -> None:
    """Lists of all memories, over and over, and not one that is read."""
    caller = Caller(daemon.socket)
    ask = framing.encode(protocol.ListMemories(id=5, workspace=daemon.workspace, limit=1000))
    while True:
        with contextlib.suppress(OSError):
            for _ in range(64):
                caller.send(ask)
            time.sleep(60)
        caller = Caller(daemon.socket)


def _fresh(daemon: Daemon, memories: int, client: int, number: int) -> bytes:
    """A question of a turn that no other client or round has had."""
    named = f"{os.getpid()}-{client}-{number}"
    return framing.encode(msgspec.structs.replace(turn(daemon, memories, 1, number), turn_id=named))


@contextlib.contextmanager
def _sixteen(checkout: Checkout) -> Iterator[Probe]:
    """Retrieves a second that sixteen clients get of 10,000 memories with vectors."""
    with standing(checkout, _MANY, stub=True) as (daemon, _):
        yield lambda: load(lambda number: _asking(daemon, number), _CLIENTS, _EACH).per_second


@contextlib.contextmanager
def _one(checkout: Checkout) -> Iterator[Probe]:
    with standing(checkout, _MANY, stub=True) as (daemon, _):
        yield lambda: load(lambda number: _asking(daemon, number), 1, _EACH * 4).per_second


def _asking(daemon: Daemon, number: int) -> Call:
    caller, turns = Caller(daemon.socket), itertools.count()

    def ask() -> None:
        said = caller.ask(_fresh(daemon, _MANY, number, next(turns)))
        if len(said) < corpus.BODY_BYTES:
            raise Broken("a retrieve found nothing")

    return ask


ROWS = (
    Row(
        "fair-ping",
        "ping p99 beside 4 clients with 64 retrieves each under way, 1,500 memories / 20 ms",
        Goal(1.0, "one client's load is not another's wait"),
        _beside(_pipelining, 4),
        _twenty_ms,
    ),
    Row(
        "unread-ping",
        "ping p99 beside 50 clients that ask for long lists and read none, 1,500 memories / 50 ms",
        Goal(1.0, "who does not read is not served"),
        _beside(_not_reading, 50),
        _fifty_ms,
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
