"""An acknowledged event survives a kill at each step of its way, and what it says appears once."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.faults.amount import times
from tests.faults.spots import PHASES, SPOTS, Spot
from tests.faults.telling import Telling, telling
from tests.support.clock import eventually

_EVENTS, _SESSIONS = times(500, 200), 10
_TIMES = times(5, 2)  # that each kind of kill happens


@pytest.mark.long
def test_five_hundred_events_and_kills_in_eight_phases(place, promised):
    chance = random.Random(6)
    names = [f"s{n % _SESSIONS}-{n // _SESSIONS:03}" for n in range(_EVENTS)]
    batches = _batched(names, len(SPOTS))
    kills: dict[str, int] = dict.fromkeys(PHASES, 0)
    with telling(place, parts=3) as one:
        for spot, batch in zip(SPOTS, batches, strict=True):
            kills[spot.phase] += _strike(one, spot, batch, chance)
            one.drained()
        one.assert_kept_once(names)
        one.assert_in_order()
        assert one.report().dead == 0
        assert set(one.durable) == set(names)
    for phase, count in kills.items():
        promised(f"killed when {phase}: none lost, none twice, in order", count, "kept")
    promised("events that were stored", _EVENTS, f"{3 * _EVENTS} files, each once")


def _strike(one: Telling, spot: Spot, batch: tuple[str, ...], chance: random.Random) -> int:
    """Tell a batch of facts while faults of one kind happen; returns how many did."""
    before = len(one.faults.fired)
    one.steady = spot.is_before_ack
    if spot.is_before_ack:
        for number, name in enumerate(batch):
            if number % (len(batch) // _TIMES) == 1:
                spot.arm(one.faults)
            one.tell_for_sure(name, _kind(number))
        return len(one.faults.fired) - before
    one.go.clear()
    for number, name in enumerate(batch):
        one.tell_for_sure(name, _kind(number))
    for fired in range(_TIMES):
        spot.arm(one.faults, skipped=chance.randrange(5))
        one.go.set()
        eventually(lambda already=fired: len(one.faults.fired) > before + already)
        if spot.kills_daemon:
            one.back()
    return len(one.faults.fired) - before


def _kind(number: int) -> str:
    return ("explicit", "compaction", "session_end")[number % 3]


def _batched(names: list[str], parts: int) -> list[tuple[str, ...]]:
    """So many parts of the names, in order and of one size, give or take one."""
    cuts = [len(names) * part // parts for part in range(parts + 1)]
    return [tuple(names[start:stop]) for start, stop in itertools.pairwise(cuts)]
