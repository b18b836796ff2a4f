"""What a person asks for, or corrects, is there for other sessions at once, whichever classifier there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import eventually
from tests.support.daemon import Stage, capturing
from tests.support.provider import proposal, reply

# The batch of turns would wait for a minute.
SOONER_S, MODEL_S = 40.0, 0.5
SAID = {
    "explicit": (
        "Remember that our releases go out on Tuesdays.",
        "when do our releases go out?",
        "Tuesdays",
    ),
    "correction": ("No, wrong. We always deploy with ansible here.", "how do we deploy?", "ansible"),
}


@pytest.fixture(params=["rules", "model"])
def batching(request, home) -> Iterator[tuple[Stage, float]]:
    model = {"classifier_model": "m"} if request.param == "model" else {}
    env = {"FORGED_CAPTURE__BATCH_TURNS": "4"}
    with capturing(home, env=env, **model) as stage:
        yield stage, MODEL_S if model else 0.0


@pytest.mark.parametrize("kind", SAID)
def test_another_session_is_given_it_before_the_batch_is_full(batching, repo: Path, kind: str):
    stage, model_s = batching
    said, asked, word = SAID[kind]
    stage.load(repo)
    stage.provider.chat = replace(reply(proposal(said)), delay_s=model_s)
    with stage.daemon.client() as other:
        stage.capture(repo, said, "I see.", session="one")
        message = [{"role": "user", "content": asked}]
        eventually(lambda: word in other.retrieve(str(repo), message, session_id="other").text, SOONER_S)

    assert bool(stage.chats) == bool(model_s)
