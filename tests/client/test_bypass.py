"""FORGED_BYPASS=1: the agent goes on without memory, and no request reaches the daemon."""

from __future__ import annotations

import pytest

from forged_client import Observer
from forged_client.protocol import (
    Capture,
    Captured,
    Edit,
    Explained,
    Found,
    Remember,
    Remembered,
    Retrieve,
    Retrieved,
    Search,
    Why,
)
from tests.support.clock import PATIENCE_S
from tests.support.daemon import answering, any_answer

SAID = [{"role": "user", "content": "hello"}]
REASON = "FORGED_BYPASS is set"


@pytest.fixture(autouse=True)
def _bypass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGED_BYPASS", "1")


# Whatever carries a person's text, and what it is answered with.
ANSWERED = {
    "retrieve": (("/w", SAID), Retrieved(status="disabled", reason=REASON)),
    "capture": (("/w", SAID, "s"), Captured(status="disabled", reason=REASON, outcome="rejected")),
    "search": (("/w", "q"), Found(status="disabled", reason=REASON)),
    "why": (("/w",), Explained(status="disabled", reason=REASON)),
    "remember": (("/w", "c"), Remembered(status="disabled", reason=REASON)),
    "edit": (("/w", "m", "c"), Remembered(status="disabled", reason=REASON)),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("verb", ANSWERED)
def test_whatever_carries_a_persons_text_is_answered_without_a_connection(serve, ask, verb, strict):
    peer = serve(answering(any_answer))
    args, answer = ANSWERED[verb]

    assert ask(verb, *args, strict=strict) == answer
    assert peer.connections == []


def test_a_missing_daemon_is_not_started(socket_file, home):
    record = home / ".local/state/forged/executable"
    record.parent.mkdir(parents=True)
    record.write_text("/does/not/exist")
    observer = Observer("/w", "s", address=socket_file, autostart=True)

    observer.on_turn_complete(SAID)

    assert observer.close(PATIENCE_S)
    assert observer.counts == {"disabled": 1}
    assert observer.last_reply == Captured(status="disabled", reason=REASON)


def test_it_ends_when_the_variable_says_no(serve, ask, monkeypatch):
    peer = serve(answering(any_answer))
    monkeypatch.setenv("FORGED_BYPASS", "0")

    for verb, (args, _) in ANSWERED.items():
        assert ask(verb, *args).status == "ok"
    for request in (Retrieve, Capture, Search, Why, Remember, Edit):
        assert len(peer.requests_of(request)) == 1
