"""A6: an acknowledged event survives a kill at each step of its way, and what it says appears once."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.daemon import eventually
from tests.support.facts import Telling, telling

_EVENTS, _SESSIONS = 500, 10
_TEMP = r"/\.forged-"


@dataclass(frozen=True)
class Spot:
    """Where a fault strikes, and whom: the call of the daemon or worker, and who is killed by it."""

    phase: str
    process: str
    call: str
    about: str
    does: str = "kill"
    after: bool = False
    at: int = 1

    @property
    def kills_daemon(self) -> bool:
        return self.process == "daemon" or self.does == "kill-daemon"


def of_worker(phase: str, call: str, about: str, **how: object) -> tuple[Spot, Spot]:
    """A spot of the worker, which kills it, or the daemon at that moment."""
    return (
        Spot(phase, "worker", call, about, **how),
        Spot(phase, "worker", call, about, does="kill-daemon", **how),
    )


SPOTS = (
    Spot("received", "daemon", "fsync", f"/spool{_TEMP}"),
    Spot("spooled", "daemon", "link", r"\.event$", after=True),
    Spot("spooled", "daemon", "fsync", "/spool$", after=True),
    *of_worker("handed over", "get", "FACT<", after=True),
    *of_worker("model replied", "fsync", f"/spool{_TEMP}"),
    *of_worker("journalled", "send", "type.journalled"),
    *of_worker("some files written", "link", r"\.md$", at=2),
    *of_worker("before unlink", "send", "type.done"),
    Spot("before unlink", "daemon", "unlink", r"\.event$"),
    Spot("before unlink", "daemon", "unlink", r"\.event$", after=True),
)
PHASES = tuple(dict.fromkeys(spot.phase for spot in SPOTS))
assert len(PHASES) == 7


def test_five_hundred_events_and_kills_in_seven_phases(place, promised):
    chance = random.Random(6)
    names = [f"s{n % _SESSIONS}-{n // _SESSIONS:03}" for n in range(_EVENTS)]
    batches = _batched(names, -(-_EVENTS // len(SPOTS)))
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
    promised("events that were spooled", _EVENTS, f"{3 * _EVENTS} files, each once")


def _strike(one: Telling, spot: Spot, batch: tuple[str, ...], chance: random.Random) -> int:
    """Tell a batch of facts while faults of one kind happen; returns how many did."""
    times = 3 if spot.kills_daemon else 4
    before = len(one.faults.fired)
    if spot.phase in ("received", "spooled"):
        for number, name in enumerate(batch):
            if number % (len(batch) // times) == 1:
                _arm(one, spot)
            one.tell_for_sure(name, _kind(number))
        return len(one.faults.fired) - before
    one.go.clear()
    for number, name in enumerate(batch):
        one.tell_for_sure(name, _kind(number))
    for fired in range(times):
        _arm(one, spot, skipped=chance.randrange(5))
        one.go.set()
        eventually(lambda already=fired: len(one.faults.fired) > before + already)
        if spot.kills_daemon:
            one.back()
    return len(one.faults.fired) - before


def _arm(one: Telling, spot: Spot, skipped: int = 0) -> None:
    one.faults.arm(
        spot.process,
        spot.call,
        spot.about,
        at=spot.at + skipped * (3 if spot.about == r"\.md$" else 1),
        does=spot.does,
        after=spot.after,
    )


def _kind(number: int) -> str:
    return ("explicit", "compaction", "session_end")[number % 3]


def _batched(names: list[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(names[at : at + size]) for at in range(0, len(names), size)]
