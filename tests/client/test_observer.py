from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

import pytest

from forged_client import Observer
from forged_client.observer import MAX_LASTING, MAX_WINDOWS
from forged_client.protocol import Capture, Captured
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Peer, Script, answering, stopped_server

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


def test_a_finished_turn_reaches_the_daemon(serve: Serve, socket_file: str) -> None:
    peer = serve(answering(lambda _: Captured(outcome="accepted")))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(said("hello"), 0)

    assert observer.close(PATIENCE_S)
    (request,) = peer.requests_of(Capture)
    assert (request.workspace, request.session_id, request.kind) == ("/w", "s", "turn")
    assert observer.counts == {"accepted": 1}


def test_a_rejection_is_told_and_not_retried(serve: Serve, socket_file: str) -> None:
    peer = serve(answering(lambda _: Captured(outcome="rejected", reason="capture_not_available")))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(said("hello"))

    assert observer.close(PATIENCE_S)
    assert (observer.counts, len(peer.requests_of(Capture))) == ({"rejected": 1}, 1)
    assert observer.last_reply.reason == "capture_not_available"


def test_the_newest_window_replaces_the_one_that_waits(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(said("first", "1"))
    assert gate.reached.wait(PATIENCE_S)
    for text in ("2", "3", "4"):
        observer.on_turn_complete(said("first", text))
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert gate.seen == [("turn", "1"), ("turn", "4")]
    assert observer.counts == {"accepted": 2, "replaced": 2}


def test_windows_before_and_after_a_summary_both_wait_in_order(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    peer = serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(said("other"))
    assert gate.reached.wait(PATIENCE_S)
    observer.on_turn_complete(said("a", "before 1"))
    observer.on_turn_complete(said("a", "before 2"))
    observer.on_turn_complete(said("a", "b", "c", "after 1"), 2)
    observer.on_turn_complete(said("a", "b", "c", "after 2"), 2)
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert [text for _, text in gate.seen] == ["other", "before 2", "after 2"]
    assert len({request.window_id for request in peer.requests_of(Capture)}) == 3
    assert observer.counts == {"accepted": 3, "replaced": 2}


def test_of_too_many_windows_the_oldest_is_dropped_and_counted(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_compaction(said("in hand"))
    assert gate.reached.wait(PATIENCE_S)
    for number in range(MAX_WINDOWS + 3):
        observer.on_turn_complete(said(str(number)))
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert [text for _, text in gate.seen[1:]] == [str(number) for number in range(3, MAX_WINDOWS + 3)]
    assert observer.counts == {"accepted": MAX_WINDOWS + 1, "dropped": 3}


def test_the_sessions_end_replaces_the_turn_of_its_window_and_waits_for_good(
    serve: Serve, socket_file: str
) -> None:
    gate = Gate()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_compaction(said("in hand"))
    assert gate.reached.wait(PATIENCE_S)
    observer.on_turn_complete(said("a", "before"))
    observer.on_turn_complete(said("a", "b", "c", "last turn"), 2)
    observer.on_session_end(said("a", "b", "c", "end"), 2)
    observer.on_turn_complete(said("a", "b", "c", "late"), 2)
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert gate.seen[1:] == [("session_end", "end"), ("turn", "before"), ("turn", "late")]
    assert observer.counts["replaced"] == 1


def test_a_window_that_was_not_delivered_is_replaced_by_the_sessions_end(
    serve: Serve, socket_file: str
) -> None:
    observer = Observer("/w", "s", address=socket_file)
    observer.on_turn_complete(said("a", "turn"))
    assert not observer.close(PATIENCE_S)
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))

    observer.on_session_end(said("a", "turn", "end"))

    assert observer.close(PATIENCE_S)
    assert gate.seen == [("session_end", "end")]


def test_windows_that_were_not_delivered_keep_their_order(serve: Serve, socket_file: str) -> None:
    observer = Observer("/w", "s", address=socket_file)
    observer.on_turn_complete(said("before"))
    assert not observer.close(PATIENCE_S)
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))

    observer.on_turn_complete(said("before", "after"), 1)

    assert observer.close(PATIENCE_S)
    assert gate.seen == [("turn", "before"), ("turn", "after")]


def test_compactions_stay_in_order_and_are_not_replaced(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_compaction(said("a"))
    assert gate.reached.wait(PATIENCE_S)
    observer.on_compaction(said("b"))
    observer.on_turn_complete(said("turn"))
    observer.on_compaction(said("c"))
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert [text for _, text in gate.seen] == ["a", "b", "c", "turn"]


def test_compactions_above_the_bound_are_counted(socket_file: str) -> None:
    observer = Observer("/w", "s", address=socket_file)

    for _ in range(MAX_LASTING + 5):
        observer.on_compaction(said("x"))

    assert observer.counts["dropped"] >= 4
    observer.close(0)


def test_what_was_not_delivered_waits_for_the_daemon(serve: Serve, socket_file: str) -> None:
    observer = Observer("/w", "s", address=socket_file)
    observer.on_compaction(said("early"))
    assert not observer.close(PATIENCE_S)

    peer = serve(answering(lambda _: Captured(outcome="durable")))
    observer.on_turn_complete(said("later"))

    assert observer.close(PATIENCE_S)
    assert [request.messages[0].content for request in peer.requests_of(Capture)] == ["early", "later"]


def test_messages_may_be_changed_after_the_call(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)
    observer.on_turn_complete(said("first"))
    assert gate.reached.wait(PATIENCE_S)

    messages = said("as it was")
    observer.on_turn_complete(messages)
    messages[0]["content"] = "changed"
    gate.opened.set()

    assert observer.close(PATIENCE_S)
    assert gate.seen[1] == ("turn", "as it was")


def test_private_spans_never_leave(serve: Serve, socket_file: str) -> None:
    peer = serve(answering(lambda _: Captured(outcome="accepted")))
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(said("keep <private>secret</private> this"))

    assert observer.close(PATIENCE_S)
    assert peer.requests_of(Capture)[0].messages[0].content == "keep  this"


@pytest.mark.parametrize("messages", [None, 7, [object()], "text"])
def test_unreadable_messages_raise_nothing(socket_file: str, messages: object) -> None:
    observer = Observer("/w", "s", address=socket_file)

    observer.on_turn_complete(messages)
    observer.on_compaction(messages)
    observer.on_session_end(messages)

    observer.close(PATIENCE_S)


def test_closing_ends_by_its_time_before_a_stopped_daemon(socket_file: str) -> None:
    with stopped_server(socket_file, backlog=5):
        observer = Observer("/w", "s", address=socket_file)
        observer.on_turn_complete(said("hello"))

        assert not observer.close(0.1)


def test_a_forked_child_observes_with_a_thread_of_its_own(serve: Serve, socket_file: str) -> None:
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))
    observer = Observer("/w", "s", address=socket_file)
    observer.on_turn_complete(said("parent"))
    assert gate.reached.wait(PATIENCE_S)

    child = _fork()
    if child == 0:
        observer.on_turn_complete(said("child"))
        os._exit(0 if observer.close(PATIENCE_S) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert observer.close(PATIENCE_S)
    assert gate.seen == [("turn", "parent"), ("turn", "child")]


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: the peer's threads
        return os.fork()
