"""Refused proposals of a classifier, and the message about them."""

from __future__ import annotations

import pytest

from forged.capture.values import Classified, Proposal, Refused
from forged.conversation import Utterance
from forged.files import Root
from forged.memory import Origin, Scope
from forged.state import Event
from tests.capture.comparing import decide
from tests.data.memories import memory

REPO = Root("/srv/goose", Scope.REPO)
NOW = "2026-01-31T12:00:00.123456Z"
TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = "goose speaks REST over port 8080"


def refused(
    content: str,
    *,
    why: str = "",
    category: str = "patterns",
    scope: str = "repo",
    kind: str = "turn",
    forgotten: bool = False,
    known: bool = False,
    said: str = "",
) -> tuple[Refused, ...]:
    window = (Utterance("user", said),) if said else ()
    event = Event(session_id="s", roots=(REPO,), kind=kind, window=window)
    proposal = Proposal(content, scope, category, why=why)
    _, tally = decide(
        event,
        Classified((proposal,), author=Origin.TYPED),
        {REPO: [memory("mem_a", content)]} if known else {},
        lambda _tops, _text: float("inf") if forgotten else None,
        NOW,
    )
    return tally.refused


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"category": "gossip"}, "its category is unknown"),
        ({"scope": "user"}, "there is no repository here to save it in"),
    ],
)
def test_what_may_not_be_kept_is_refused_with_its_reason(fields, reason):
    assert refused(TEXT, **fields) == (Refused(TEXT, reason, asked=False),)
    assert refused(TEXT, why="request", **fields) == (Refused(TEXT, reason, asked=True),)


def test_a_secret_is_refused_without_its_text():
    assert refused(f"The API token is {TOKEN}.", why="request") == (Refused("", "it contains a secret"),)


def test_what_was_forgotten_is_in_no_refusal():
    assert refused(TEXT, forgotten=True) == ()
    (one,) = refused(TEXT, forgotten=True, why="request")
    assert (one.text, one.reason) == ("", "forgotten earlier, and not said again since")
