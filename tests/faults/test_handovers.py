"""A handover with a kill of either daemon, in every phase: one serves, and nothing is lost.

A short run does without: `tests/flows/test_handover.py` and `tests/daemon/test_handover.py` kill once each.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from tests.faults.telling import Telling, telling
from tests.support.clock import PATIENCE_S, eventually

_ROUNDS = 12
_KINDS = ("turn", "explicit", "turn")


@dataclass(frozen=True)
class Phase:
    """Who is killed, and where. `serves`: who does afterwards without anybody's help, if anybody."""

    call: str
    about: str = ""
    after: bool = False
    serves: str = ""


PHASES = {
    "nobody is killed": Phase("", serves="successor"),
    "successor, before it listens to the answer": Phase("receive", serves="old"),
    "successor, with the place in its hands": Phase("receive", "[2-9]", after=True, serves="old"),
    "successor, when the place is its own": Phase("truncate", r"\.lock$", after=True),
    "old, in the last write of its end": Phase("commit", serves="successor"),
    "old, before it gives the place": Phase("give", serves="successor"),
    "old, with the place given and nothing said": Phase("give", after=True, serves="successor"),
}


@pytest.mark.long  # four minutes
def test_kills_in_every_phase(place, promised):
    longest = dict.fromkeys(PHASES, 0.0)
    names = (f"s{number % 4}-{number:03}" for number in itertools.count())
    waiting: list[str] = []
    with telling(place) as one:
        for name, phase in [*PHASES.items()] * _ROUNDS:
            one.go.clear()
            waiting += _reported(one, itertools.islice(names, len(_KINDS)))
            took = _handed_over(one, phase)
            longest[name] = max(longest[name], took)
            one.go.set()
            one.drained()
        one.assert_kept_once(waiting)
        assert one.report().dead == 0
    for name, took in longest.items():
        promised(f"hand-over, killed: {name}", _ROUNDS, f"somebody answers after {took:.2f} s at most")
    promised("turns and events that waited at a hand-over", len(waiting), "each kept once")


def _reported(one: Telling, names: Iterable[str]) -> list[str]:
    """Tell facts of several kinds, which wait on disk then."""
    reported = list(names)
    for fact, kind in zip(reported, _KINDS, strict=True):
        assert one.tell(fact, kind).outcome in {"accepted", "durable"}
    eventually(lambda: one.report().spooled == len(reported))
    return reported


def _handed_over(one: Telling, phase: Phase) -> float:
    """Let one hand-over happen; for how long nobody answered after the kill."""
    old = one.daemon.process
    if phase.call:
        one.faults.arm("daemon", phase.call, phase.about, after=phase.after)
    successor = one.daemon.successor()
    # Where the place was given, the old one ends by itself, and may do so first.
    code = -signal.SIGKILL if phase.call else 0
    killed = eventually(
        lambda: next((each for each in (old, successor) if each.poll() == code), None), pause_s=0.005
    )
    since = time.monotonic()
    serves = successor if killed is old else old
    one.daemon.process = serves
    if not phase.serves:
        assert old.wait(PATIENCE_S) == 0
        one.daemon.start()
    else:
        assert phase.serves == ("old" if serves is old else "successor")
    with one.daemon.client(timeout_s=PATIENCE_S) as client:
        assert eventually(lambda: client.status().pid, pause_s=0.005) == one.daemon.pid
    return time.monotonic() - since
