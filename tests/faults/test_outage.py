"""An endpoint that fails is asked now and then, however much waits for it, and status says so."""

from __future__ import annotations

import time

from tests.support.provider import CHAT

# The first event may cost two calls, the second one; then both are believed.
_WINDOW_S, _CALLS = 60.0, 3


def test_an_endpoint_that_fails_is_asked_three_times_in_the_first_minute(outage, promised):
    one = outage.telling
    (first, *_) = one.provider.wait_for(1, path=CHAT)
    time.sleep(max(0.0, first.at + _WINDOW_S - time.monotonic()))
    calls = sum(request.at <= first.at + _WINDOW_S for request in one.provider.requests(CHAT))

    assert 1 <= calls <= _CALLS
    report = one.report()
    assert report.state == "waiting"
    assert report.reason.startswith("calls fail, next attempt in")
    assert report.spooled + report.dead == outage.events
    assert one.kept() == {}
    promised(f"an endpoint in 5xx: at most {_CALLS} calls in 60 s", outage.events, f"{calls} calls")
