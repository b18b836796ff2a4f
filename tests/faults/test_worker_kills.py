"""A worker that is killed in any phase is replaced, and its event is processed once."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable

from tests.faults.amount import times
from tests.faults.telling import Telling, telling
from tests.support.clock import eventually
from tests.support.daemon import usage

_ROUNDS = times(25, 1)
# Where a proposal is sent: what it is about, and what happens there.
_SENDING = itertools.cycle([{"does": "half"}, {}, {"after": True}])


def idle_in_get(one: Telling, name: str) -> float:
    worker = one.worker()
    killed_at = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    one.tell(name)
    return killed_at


def in_the_call(one: Telling, name: str) -> float:
    one.go.clear()
    one.tell(name)
    one.asked(name)
    killed_at = time.monotonic()
    os.kill(one.report().worker_pid, signal.SIGKILL)
    one.go.set()
    return killed_at


def with_the_event(one: Telling, name: str) -> float:
    return _at(one, name, "get", "FACT<", {"after": True})


def in_sending(one: Telling, name: str) -> float:
    return _at(one, name, "send", "type.classified", next(_SENDING))


def _at(one: Telling, name: str, call: str, about: str, how: dict) -> float:
    fired = len(one.faults.fired)
    one.faults.arm("worker", call, about, **how)
    one.tell(name)
    (at,) = (fault.at for fault in eventually(lambda: one.faults.fired[fired:]))
    return at


STATES: dict[str, Callable[[Telling, str], float]] = {
    "idle": idle_in_get,
    "call": in_the_call,
    "event": with_the_event,
    "send": in_sending,
}


def test_a_hundred_killed_workers(place, promised):
    with telling(place) as one:
        names = [f"{state}-{number:02}" for number in range(_ROUNDS) for state in STATES]
        warm_up = [f"{state}-warm" for state in STATES]
        for count, name in enumerate(warm_up, 1):
            STATES[name.partition("-")[0]](one, name)
            one.finished(count)
        one.worker()
        before = usage(one.daemon.pid)
        took: dict[str, float] = {}
        for count, name in enumerate(names, len(warm_up) + 1):
            killed_at = STATES[name.partition("-")[0]](one, name)
            one.finished(count)
            took[name] = time.monotonic() - killed_at
        one.worker()
        after = usage(one.daemon.pid)

        one.assert_kept_once(names + warm_up)
        assert one.report().worker_restarts == len(names) + len(warm_up)
        assert one.report().dead == 0
        # Pools make a thread when all of theirs are busy, on a busy machine some more of them.
        assert after.threads <= before.threads + 6, (before, after)
        assert after.descriptors <= before.descriptors + 2, (before, after)
        assert after.semaphores == before.semaphores
    for state in STATES:
        slowest = max(seconds for name, seconds in took.items() if name.startswith(state))
        promised(f"worker killed, state {state}: resumes, once", _ROUNDS, f"at most {slowest:.2f} s")
    promised("threads and descriptors as before", len(names), f"{before} -> {after}")
