"""Cost of an observer for the agent: hardly any of its own thread, and little of the interpreter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from forged_client import Observer
from forged_client.protocol import Capture, Captured
from tests.client.test_observer import said
from tests.support.clock import PATIENCE_S
from tests.support.daemon import answering


@pytest.mark.speed
def test_an_agent_hardly_waits_for_a_large_window(socket_file):
    """The texts are taken by reference, whatever is done with them later: 1.5 MB in some tenths of a ms."""
    observer = Observer("/w", "s", address=socket_file)
    window = said(*(f"{n} " + "text " * 250 for n in range(1_200)))
    cost = min(timed(lambda: observer.on_turn_complete(window)) for _ in range(20))
    floor = min(timed(lambda: json.dumps(window)) for _ in range(20))

    assert cost < floor / 2, (cost, floor)


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@pytest.mark.speed
def test_the_sender_leaves_the_interpreter_to_the_agent(serve, socket_file):
    """While 10 MB are looked through, a thread that only wants to go on seldom waits the turn of 5 ms."""
    observer = Observer("/w", "s", address=socket_file)
    peer = serve(answering(lambda _: Captured(outcome="durable")))
    alone = [timed(lambda: time.sleep(0.0005)) for _ in range(50)]

    observer.on_compaction(said(*(f"{n} <private>x</private>" + "text " * 250 for n in range(8_000))))
    next_to = []
    while len(peer.requests_of(Capture)) < 5 and len(next_to) < 10_000:
        next_to.append(timed(lambda: time.sleep(0.0005)))

    assert sorted(next_to)[len(next_to) * 9 // 10] < 0.004 + 2 * sorted(alone)[45]
    assert observer.close(PATIENCE_S)
