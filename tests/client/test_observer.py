from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

import msgspec
import pytest

from forged_client import Observer
from forged_client.delivery_queue import MAX_WINDOWS
from forged_client.protocol import Capture, Captured, Failed
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Peer, PeerConnection, Script, answering

Serve = Callable[[Script], Peer]


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


class Gate:
    """A daemon that takes the first capture and answers nothing before it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.seen: list[tuple[str, object]] = []

    def __call__(self, request: object) -> Captured:
        assert isinstance(request, Capture)
        self.seen.append((request.kind, request.messages[-1].content))
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)
        return Captured(outcome="accepted")


@pytest.fixture
def observer(socket_file: str) -> Observer:
    return Observer("/w", "s", address=socket_file)


@pytest.fixture
def gate(serve: Serve, observer: Observer) -> Gate:
    """Of a daemon that has the observer's first window, which is a compaction, in hand."""
    gate = Gate()
    gate.peer = serve(answering(gate))
    observer.on_compaction(said("in hand"))
    assert gate.reached.wait(PATIENCE_S)
    return gate


def seen(gate: Gate, observer: Observer) -> list[tuple[str, object]]:
    """Return the captures after the current window, once the gate is open."""
    gate.opened.set()
    assert observer.close(PATIENCE_S)
    assert gate.seen[0] == ("compaction", "in hand")
    return gate.seen[1:]


def test_a_finished_turn_reaches_the_daemon_without_private_spans(serve, observer):
    peer = serve(answering(lambda _: Captured(outcome="accepted")))

    observer.on_turn_complete(said("keep <private>secret</private> this"), 0)

    assert observer.close(PATIENCE_S)
    (request,) = peer.requests_of(Capture)
    assert (request.workspace, request.session_id, request.kind, request.agent) == ("/w", "s", "turn", "")
    assert request.messages[0].content == "keep  this"
    assert observer.counts == {"accepted": 1}


def test_a_window_that_does_not_hold_all_of_an_older_one_waits_next_to_it(gate, observer):
    """A message that was changed, or is gone, is in no other window."""
    for texts in (("first", "2"), ("first", "changed", "3"), ("2", "3")):
        observer.on_turn_complete(said(*texts))

    assert seen(gate, observer) == [("turn", "2"), ("turn", "3"), ("turn", "3")]
    assert observer.counts == {"accepted": 4}


def test_of_too_many_windows_the_oldest_is_dropped_and_counted(gate, observer):
    for number in range(MAX_WINDOWS + 3):
        observer.on_turn_complete(said(str(number)))

    assert seen(gate, observer) == [("turn", str(number)) for number in range(3, MAX_WINDOWS + 3)]
    assert observer.counts == {"accepted": MAX_WINDOWS + 1, "dropped": 3}


def test_the_sessions_end_replaces_the_turn_of_its_window_and_waits_for_good(gate, observer):
    observer.on_turn_complete(said("a", "before"))
    observer.on_turn_complete(said("a", "b", "c", "last turn"), 2)
    observer.on_session_end(said("a", "b", "c", "last turn", "end"), 2)
    observer.on_turn_complete(said("a", "b", "c", "late"), 2)

    assert seen(gate, observer) == [("session_end", "end"), ("turn", "before"), ("turn", "late")]
    assert observer.counts["replaced"] == 1


@pytest.mark.parametrize(
    ("kind", "then", "delivered"),
    [
        ("turn_complete", ("session_end", ("early", "end"), 0), [("session_end", "end")]),
        ("turn_complete", ("turn_complete", ("early", "later"), 1), [("turn", "early"), ("turn", "later")]),
        ("compaction", ("turn_complete", ("later",), 0), [("compaction", "early"), ("turn", "later")]),
    ],
    ids=["replaced by the session's end", "in order", "a compaction"],
)
def test_what_was_not_delivered_waits_for_the_daemon(serve, observer, *, kind, then, delivered):
    getattr(observer, f"on_{kind}")(said("early"))
    assert not observer.close(PATIENCE_S)
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))

    kind, texts, last_summary_index = then
    getattr(observer, f"on_{kind}")(said(*texts), last_summary_index)

    assert observer.close(PATIENCE_S)
    assert gate.seen == delivered


def test_a_forked_child_observes_with_a_thread_of_its_own(gate, observer):
    gate.opened.set()

    child = _fork()
    if child == 0:
        observer.on_turn_complete(said("child"))
        os._exit(0 if observer.close(PATIENCE_S) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert seen(gate, observer) == [("turn", "child")]


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the peer's threads
        return os.fork()


# --- until it is taken --------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr("forged_client.observer.FIRST_RETRY_S", 0.001)


class Replies:
    """A daemon that answers each capture by a script; None hangs up before the reply."""

    def __init__(self, *replies: Captured | Failed | None) -> None:
        self.left = list(replies)
        self.seen: list[Capture] = []

    def __call__(self, connection: PeerConnection) -> None:
        connection.greet()
        while (request := connection.next_request()) is not None:
            self.seen.append(request)
            reply = self.left.pop(0) if self.left else Captured(outcome="accepted")
            if reply is None:
                return
            connection.reply(msgspec.structs.replace(reply, id=request.id))


def settled(observer: Observer, word: str = "accepted") -> None:
    eventually(lambda: observer.counts.get(word) and "waiting" not in observer.counts)
    assert observer.close(PATIENCE_S)


BUSY = Failed(status="error", code="busy", message="too many")
STOPPING = Captured(outcome="rejected", reason="the daemon is stopping")


@pytest.mark.parametrize("reply", [None, STOPPING, BUSY], ids=["hangs up", "stopping", "busy"])
@pytest.mark.parametrize("kind", ["compaction", "turn_complete", "session_end"])
def test_what_was_not_answered_for_sure_is_sent_again_under_the_same_id(serve, observer, soon, kind, reply):
    replies = Replies(reply, reply, reply)
    serve(replies)

    getattr(observer, f"on_{kind}")(said("about to disappear"))

    settled(observer)
    assert len(replies.seen) == 4
    assert len({(each.event_id, each.messages) for each in replies.seen}) == 1
    assert replies.seen[0].event_id


def test_an_event_that_time_does_not_mend_holds_up_the_others_only_for_a_while(serve, observer, soon):
    odd = Failed(status="error", code="internal", message="the log says more")
    replies = Replies(*[odd] * 5)
    serve(replies)

    observer.on_compaction(said("odd"))
    observer.on_compaction(said("fine"))

    settled(observer)
    assert observer.counts == {"error": 5, "given_up": 1, "accepted": 1}
    assert [each.messages[0].content for each in replies.seen] == [*["odd"] * 5, "fine"]


def test_a_large_compaction_arrives_in_parts_and_after_a_break_all_of_them_come_again(serve, observer, soon):
    texts = [f"{n} " + "x" * 400_000 for n in range(12)]
    part, durable = Captured(outcome="accepted"), Captured(outcome="durable", slices=9)
    replies = Replies(part, None, None, part, part, durable)
    serve(replies)

    observer.on_compaction(said(*texts))

    settled(observer, "durable")
    assert [each.part for each in replies.seen] == [0, 1, 1, 0, 1, 2]
    assert {each.parts for each in replies.seen} == {3}
    assert len({each.event_id for each in replies.seen}) == 1
    assert [m.content for each in replies.seen[3:] for m in each.messages] == texts
    assert observer.last_reply.slices == 9


def test_parts_that_a_restarted_daemon_has_lost_are_sent_once_more(serve, observer, soon):
    texts = ["x" * 1_500_000, "y" * 1_500_000]
    part, durable = Captured(outcome="accepted"), Captured(outcome="durable")
    replies = Replies(part, part, part, durable)
    serve(replies)

    observer.on_compaction(said(*texts))

    settled(observer, "durable")
    assert [each.part for each in replies.seen] == [0, 1, 0, 1]


def test_what_could_not_be_sent_or_read_and_what_waits_is_counted(serve, observer):
    observer.on_compaction(said("half \ud800"))
    assert not observer.close(PATIENCE_S)
    assert observer.counts == {"unavailable": 1, "waiting": 1}

    serve(answering(lambda _: Captured(outcome="durable", unread=2)))
    observer.on_compaction(said("b"))

    assert observer.close(PATIENCE_S)
    assert observer.counts == {"unavailable": 1, "repaired": 1, "durable": 2, "unread": 4}
