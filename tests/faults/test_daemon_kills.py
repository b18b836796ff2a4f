"""A daemon that is killed leaves no process, and the next one takes up what it left without help."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from tests.faults.amount import times
from tests.faults.telling import Telling, telling

_KILLS = times(100, 5)
_WRITES = itertools.cycle(
    [
        ("daemon", "link", r"\.md$"),
        ("daemon", "fsync", r"/\.forge/memory/#"),
        ("worker", "send", "type.classified"),
        ("daemon", "commit", "INTO own_files"),
        ("daemon", "commit", "INTO journal"),
        ("daemon", "commit", "DELETE FROM events"),
    ]
)


def idle(one: Telling, name: str) -> float:
    assert one.tell(f"{name}-0").outcome == "durable"
    one.drained()
    one.worker()
    return one.kill()


def call_hangs(one: Telling, name: str) -> float:
    one.go.clear()
    one.tell(f"{name}-0")
    one.asked(f"{name}-0")
    return one.kill()


def in_a_write(one: Telling, name: str) -> float:
    process, call, about = next(_WRITES)
    one.faults.arm(process, call, about, does="kill-daemon")
    one.tell(f"{name}-0")
    one.killed()
    return one.gone(one.faults.fired[-1].at)


def several_wait(one: Telling, name: str) -> float:
    one.go.clear()
    for number in range(8):
        one.tell(f"{name}-{number}", ("explicit", "compaction", "session_end", "turn")[number % 4])
    return one.kill()


def just_acknowledged(one: Telling, name: str) -> float:
    one.tell(f"{name}-0")
    return one.kill()


STATES: tuple[Callable[[Telling, str], float], ...] = (
    idle,
    call_hangs,
    in_a_write,
    several_wait,
    just_acknowledged,
)


def test_a_hundred_killed_daemons(place, promised):
    gone: dict[str, float] = {}
    starts: list[float] = []
    with telling(place) as one:
        for kill in range(_KILLS):
            state = STATES[kill % len(STATES)]
            name = f"{state.__name__.replace('_', '')}-{kill:02}"
            took = state(one, name)
            gone[state.__name__] = max(took, gone.get(state.__name__, 0.0))
            one.go.set()
            since = time.monotonic()
            one.daemon.start()
            assert one.client.ping().status == "ok"
            starts.append(time.monotonic() - since)
        one.drained()

        kept = one.kept()
        assert set(kept.values()) == {1}
        assert {name.removesuffix("-http") for name in kept} >= set(one.durable)
        assert one.report().dead == 0
    for state, took in gone.items():
        promised(
            f"daemon killed, state {state.replace('_', ' ')}: nobody is left",
            _KILLS // len(STATES),
            f"at most {took:.2f} s",
        )
    promised("the next daemon serves without clean-up", _KILLS, f"at most {max(starts):.2f} s")
    promised("durable events of killed daemons", len(one.durable), "each kept once")
