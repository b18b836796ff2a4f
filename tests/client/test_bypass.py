"""FORGED_BYPASS=1: the agent goes on without memory, the daemon hears nothing of it, nothing else changes."""

from __future__ import annotations

import pytest

from forged_client import Observer
from forged_client.protocol import Capture, Captured, Retrieve, Retrieved
from tests.support.clock import PATIENCE_S
from tests.support.daemon import answering, any_answer

SAID = [{"role": "user", "content": "hello"}]
REASON = "FORGED_BYPASS is set"


@pytest.fixture(autouse=True)
def _bypass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGED_BYPASS", "1")


@pytest.mark.parametrize("strict", [False, True])
def test_retrieve_and_capture_are_answered_without_a_connection(serve, ask, strict):
    peer = serve(answering(any_answer))

    retrieved = ask("retrieve", "/w", SAID, strict=strict)
    captured = ask("capture", "/w", "s", SAID, strict=strict)

    assert retrieved == Retrieved(status="disabled", reason=REASON)
    assert captured == Captured(status="disabled", reason=REASON, outcome="rejected")
    assert peer.talks == []


def test_a_missing_daemon_is_not_started(socket_file, home):
    record = home / ".local/state/forged/executable"
    record.parent.mkdir(parents=True)
    record.write_text("/does/not/exist")
    observer = Observer("/w", "s", address=socket_file, autostart=True)

    observer.on_turn_complete(SAID)

    assert observer.close(PATIENCE_S)
    assert observer.counts == {"disabled": 1}
    assert observer.last_reply == Captured(status="disabled", reason=REASON)


@pytest.mark.parametrize(
    ("verb", "args"), [("search", ("/w", "q")), ("remember", ("/w", "c")), ("status", ())]
)
def test_other_verbs_work(serve, ask, verb, args):
    serve(answering(any_answer))

    assert ask(verb, *args).status == "ok"


def test_it_ends_when_the_variable_says_no(serve, ask, monkeypatch):
    peer = serve(answering(any_answer))
    monkeypatch.setenv("FORGED_BYPASS", "0")

    assert ask("retrieve", "/w", SAID).status == "ok"
    assert ask("capture", "/w", "s", SAID).status == "ok"
    assert len(peer.requests_of(Retrieve)) == len(peer.requests_of(Capture)) == 1
