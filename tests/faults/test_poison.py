"""An event that ends the worker, or that no call succeeds for, is set aside and holds up no other."""

from __future__ import annotations

from forged_client.protocol import DeadEvent
from tests.faults.telling import Telling, facts_in, telling
from tests.support.clock import eventually
from tests.support.daemon import Shell
from tests.support.provider import CHAT

_TRIES, _CALLS, _OTHERS = 3, 5, 20


def test_an_event_that_kills_the_worker_is_tried_three_times(place, promised):
    with telling(place) as one:
        one.faults.arm("worker", "get", "FACT<poison-0>", after=True, lasting=True)
        others = [f"s{number % 4}-{number:02}" for number in range(_OTHERS)]
        one.tell("poison-0")
        for name in others:
            one.tell(name)
        one.drained()

        assert len(one.faults.fired) == _TRIES
        one.assert_kept_once(others)
        (event,) = _dead(one)
        assert event.reason.startswith(f"the worker died {_TRIES} times on it: signal SIGKILL")

        one.faults.disarm()
        _retry(one, event)
        one.assert_kept_once([*others, "poison-0"])
    promised("an event that kills the worker is tried three times", len(one.faults.fired), "in dead/")
    promised("events after it", _OTHERS, "each kept once")


def test_an_event_whose_calls_fail_five_times_is_set_aside(poisoned, promised):
    one, others = poisoned.telling, poisoned.others
    eventually(lambda: one.report().dead, 300)  # alone in the end, it is tried twice a minute
    one.drained()

    assert one.report().failures == _CALLS
    one.assert_kept_once(others)
    (event,) = _dead(one)
    assert event.reason.startswith(f"{_CALLS} calls failed")
    went = max(request.at for request in one.provider.requests(CHAT) if others[-1] in facts_in(request))
    assert went - poisoned.since < 10.0

    poisoned.mended.set()
    _retry(one, event)
    one.assert_kept_once([*others, poisoned.name])
    promised("an event whose calls fail is tried five times", _CALLS, "in dead/, kept after retry")
    promised("events after it", len(others), f"each kept once, {went - poisoned.since:.1f} s after it")


def _dead(one: Telling) -> tuple[DeadEvent, ...]:
    events = one.client.dead().events
    assert one.report().dead == len(events)
    return events


def _retry(one: Telling, event: DeadEvent) -> None:
    outcome = Shell(one.daemon.home, one.daemon.socket, one.top).run("dead", "retry", event.id)
    assert outcome.code == 0, outcome
    one.drained()
    assert _dead(one) == ()
