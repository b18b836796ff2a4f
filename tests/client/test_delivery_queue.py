from __future__ import annotations

import pytest

from forged_client import delivery_queue, errors
from forged_client.protocol import Captured


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        *((Captured(outcome=word), "settled") for word in ("accepted", "coalesced", "durable")),
        *(
            (Captured(outcome="rejected", reason=why), "settled")
            for why in ("paused", "nothing_to_capture", "")
        ),
        (Captured(outcome="rejected", reason="the daemon is stopping"), "again"),
        (Captured(outcome="rejected", reason="queue_full"), "again"),
        (Captured(outcome="rejected", reason="spool_full"), "again"),
        (Captured(outcome="rejected", reason="storage_error: no space left"), "again"),
        (Captured(status="disabled"), "settled"),
        (Captured(status="timeout"), "odd"),
        (Captured(status="error"), "odd"),
    ],
)
def test_what_the_daemon_said_settles_it_or_not(reply, verdict):
    assert delivery_queue.verdict_on_reply(reply, is_whole=False) == verdict


def test_all_parts_that_are_there_and_not_durable_together_are_sent_again():
    assert delivery_queue.verdict_on_reply(Captured(outcome="accepted"), is_whole=True) == "odd"
    assert delivery_queue.verdict_on_reply(Captured(outcome="durable"), is_whole=True) == "settled"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (errors.DaemonAbsent("nobody"), "again"),
        (errors.DaemonUnavailable("not ours"), "again"),
        (errors.DeadlineExceeded("late"), "again"),
        (errors.ReplyLost("broke"), "again"),
        (errors.ConnectionLost("broke"), "again"),
        (errors.AddressError("too long"), "again"),
        (errors.ProtocolMismatch("older"), "again"),
        (errors.RequestFailed("busy", "many"), "again"),
        (errors.RequestFailed("storage_error", "full"), "again"),
        (errors.RequestFailed("internal", "the log says more"), "odd"),
        (errors.MalformedFrame("what"), "odd"),
        (errors.RequestFailed("invalid", "no"), "settled"),
        (errors.RequestFailed("unknown_verb", "no"), "settled"),
        (errors.FrameTooLarge("large"), "settled"),
    ],
)
def test_a_call_that_failed_is_made_again_where_time_may_mend_it(error, verdict):
    assert delivery_queue.verdict_on_error(error) == verdict
