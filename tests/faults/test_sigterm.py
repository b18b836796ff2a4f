"""SIGTERM ends the daemon in 5 s in any state, and no turn that waits is lost by it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from forged_client import Client
from tests.data.memories import memory, put
from tests.faults.amount import times
from tests.faults.telling import Telling, telling
from tests.support.clock import eventually

_ROUNDS, _CLIENTS, _SPOOLED = times(5, 1), 64, 256
State = Callable[[Telling, str], contextlib.AbstractContextManager[list[str]]]


@contextlib.contextmanager
def idle(one: Telling, name: str) -> Iterator[list[str]]:
    del name
    one.worker()
    yield []


@contextlib.contextmanager
def rebuild(one: Telling, name: str) -> Iterator[list[str]]:
    one.go.clear()
    put(one.top, *(memory(f"mem_{n}", f"Module {n} belongs to {name}.") for n in range(1000)))
    reported = _turns(one, name, 3)
    assert one.client.rebuild(str(one.top), full=True).status == "not_ready"  # it is under way
    yield reported


@contextlib.contextmanager
def call_hangs(one: Telling, name: str) -> Iterator[list[str]]:
    one.go.clear()
    reported = _turns(one, name, 4)
    eventually(lambda: one.report().in_hand)
    yield reported


@contextlib.contextmanager
def many_wait(one: Telling, name: str) -> Iterator[list[str]]:
    one.go.clear()
    reported = _turns(one, name, 8)
    eventually(lambda: one.report().in_hand)
    spooled = one.report().spooled
    for number in range(_SPOOLED - spooled):
        reported.append(f"{name}s-{number}")
        assert one.tell(reported[-1]).outcome == "durable"
    yield reported


@contextlib.contextmanager
def worker_stopped(one: Telling, name: str) -> Iterator[list[str]]:
    one.go.clear()
    reported = _turns(one, name, 4)
    eventually(lambda: one.report().in_hand)
    os.kill(one.report().worker_pid, signal.SIGSTOP)
    yield reported


@contextlib.contextmanager
def many_clients(one: Telling, name: str) -> Iterator[list[str]]:
    one.go.clear()
    one.client.close()
    with contextlib.ExitStack() as stack:
        clients: list[Client] = [stack.enter_context(one.daemon.client()) for _ in range(_CLIENTS)]
        reported = [f"{name}{number}-0" for number in range(_CLIENTS)]
        for client, fact in zip(clients, reported, strict=True):
            assert one.tell(fact, "turn", client).outcome == "accepted"
        yield reported


STATES: tuple[State, ...] = (idle, call_hangs, many_wait, worker_stopped, many_clients, rebuild)


@pytest.mark.long
def test_thirty_stops(place, promised):
    took: dict[str, float] = {}
    waiting: list[str] = []
    kept = 0
    with telling(place) as one:
        for state in STATES:
            for number in range(_ROUNDS):
                with state(one, f"{state.__name__.replace('_', '')}{number}x") as reported:
                    since = time.monotonic()
                    assert one.daemon.stop() == 0
                    seconds = time.monotonic() - since
                took[state.__name__] = max(seconds, took.get(state.__name__, 0.0))
                one.gone(since)
                one.daemon.start()
                waiting += reported
                _wait(one, len(waiting) - kept)
            one.go.set()
            one.drained(60)
            one.assert_kept_once(waiting)
            kept = len(waiting)
    for name, seconds in took.items():
        promised(
            f"SIGTERM, state {name.replace('_', ' ')}: exit 0, turns kept",
            _ROUNDS,
            f"at most {seconds:.2f} s",
        )
    promised("turns and events that waited at a SIGTERM", len(waiting), "each kept once")


def _wait(one: Telling, events: int) -> None:
    """All that was told waits on disk."""
    eventually(lambda: one.report().spooled == events)


def _turns(one: Telling, name: str, sessions: int) -> list[str]:
    """Turns of so many live sessions; nobody says `durable` about them."""
    reported = [f"{name}{number}-0" for number in range(sessions)]
    for fact in reported:
        assert one.tell(fact, "turn").outcome == "accepted"
    return reported
