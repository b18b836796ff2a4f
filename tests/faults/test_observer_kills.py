"""Kills of daemons and workers under observers that are never closed.

A compaction goes out in several parts here, so kills strike between them, between the last part and its
reply, and between the reply and the work. An observer tells of everything until it is taken; the daemon knows
what it has been told.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from collections import Counter

import pytest

from forged_client import Observer
from forged_client.capture_parts import SplitCapture
from forged_client.delivery_queue import MAX_LASTING
from tests.faults.amount import times
from tests.faults.telling import Telling, said, telling
from tests.support.clock import eventually

_KILLS = times(200, 4)
_SESSIONS, _MESSAGES = 3, 4
_DRAINED_S = 300.0


class Agent:
    """A session that compacts again and again, and does not wait for what becomes of it."""

    def __init__(self, one: Telling, number: int) -> None:
        self.sent: list[str] = []
        self.observer = Observer(str(one.top), f"s{number}", address=one.daemon.socket)
        self._session = f"s{number}"

    def compact(self) -> None:
        eventually(lambda: self.waiting < MAX_LASTING)
        names = [f"{self._session}-{len(self.sent) + at:05}" for at in range(_MESSAGES)]
        self.observer.on_compaction([{"role": "user", "content": said(name)} for name in names])
        self.sent += names

    @property
    def waiting(self) -> int:
        return self.observer.counts.get("waiting", 0)


@pytest.fixture
def in_parts(monkeypatch):
    """As if a frame held one message; and what was not taken is sent again soon."""
    monkeypatch.setattr(
        "forged_client.observer.SplitCapture", functools.partial(SplitCapture, limit_bytes=200)
    )
    monkeypatch.setattr("forged_client.observer.FIRST_RETRY_S", 0.05)
    monkeypatch.setattr("forged_client.observer.LAST_RETRY_S", 0.2)


def test_two_hundred_kills_under_observers_that_no_one_closes(place, promised, in_parts):
    delays = random.Random(11)
    with telling(place) as one:
        agents = [Agent(one, number) for number in range(_SESSIONS)]
        for kill in range(_KILLS):
            for agent in agents:
                agent.compact()
            time.sleep(delays.random() * 0.2)
            if kill % 4 == 3:
                os.kill(eventually(lambda: one.report().worker_pid), signal.SIGKILL)
            else:
                one.kill()
                one.daemon.start()
        eventually(lambda: not any(agent.waiting for agent in agents))
        one.drained(_DRAINED_S)

        reported = [name for agent in agents for name in agent.sent]
        one.assert_kept_once(reported)
        assert one.report().dead == 0
        counts = sum((Counter(agent.observer.counts) for agent in agents), Counter())
        assert counts["durable"] == len(reported) // _MESSAGES
        assert counts["error"] + counts["unavailable"], "no kill was in the way of anything"
    promised("compactions of observers, daemons and workers killed", counts["durable"], "each kept once")
