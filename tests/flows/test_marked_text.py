"""Text that is marked as not said reaches no model, through a real daemon."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from forged_client.protocol import Capture, Message, Retrieve, Search, Why
from tests.data.forms import HIDDEN, SAID
from tests.data.harness_forms import HARNESS_FORMS
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Stage, capturing
from tests.support.provider import Answer, Request, ScriptedProvider, completion, reply


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    models = {"embedding_model": "m", "classifier_model": "m", "retrieval_model": "m"}
    with capturing(tmp_path_factory.mktemp("home"), **models, retrieval_timeout_s=PATIENCE_S) as stage:
        yield stage


@pytest.fixture
def stage(shared: Stage) -> Stage:
    """One daemon whose embedder, HyDE model and classifier are a scripted provider on loopback."""
    shared.provider.chat = _playing
    shared.settle()
    shared.provider.received.clear()
    return shared


def _playing(_: ScriptedProvider, request: Request) -> Answer:
    """Both chat models: nothing is worth keeping, and a hypothesis for a retrieval."""
    is_classifier = "memory classifier" in request.json["messages"][0]["content"]
    return reply() if is_classifier else completion("A hypothesis.")


def sent(stage: Stage) -> str:
    """All that any model was sent."""
    return "\n".join(request.body.decode() for request in stage.provider.requests())


@pytest.mark.parametrize("marked", ["<private>{}</private>", "< private >{}", "&lt;private&gt;{}"])
def test_nothing_private_of_a_query_or_a_hypothesis_leaves(stage, repo, marked):
    assert stage.client.remember(str(repo), "the walrus sings").status == "ok"
    stage.load(repo)
    text = "walrus " + marked.format(HIDDEN)
    raw = Retrieve(
        workspace=str(repo),
        messages=(Message("user", "what sings"),),
        hypotheses=(text, marked.format(HIDDEN)),
        session_id="s",
        turn_id="t",
    )

    replies = [
        stage.client.ask(request)
        for request in (Search(workspace=str(repo), query=text), Why(workspace=str(repo), query=text), raw)
    ]

    assert [reply.status for reply in replies] == ["ok", "ok", "ok"]
    assert stage.embedded.count("walrus") == 3
    assert HIDDEN not in sent(stage)
    refused = stage.client.ask(Search(workspace=str(repo), query=marked.format(HIDDEN)))
    assert "the query is empty" in refused.reason


@pytest.mark.parametrize("form", HARNESS_FORMS.values(), ids=HARNESS_FORMS)
def test_of_every_form_only_what_was_said_reaches_a_model(stage, repo, form):
    """As a client of another language sends it, to the HyDE model, the embedder and the classifier."""
    assert stage.client.remember(str(repo), "the walrus sings").status == "ok"
    stage.load(repo)
    messages = msgspec.convert(form, tuple[Message, ...])

    found = stage.client.ask(
        Retrieve(workspace=str(repo), session_id="s", turn_id="t", messages=messages, timeout_s=PATIENCE_S)
    )
    taken = stage.client.ask(
        Capture(workspace=str(repo), session_id="s", messages=messages, kind="compaction")
    )
    stage.settle()

    assert (found.status, taken.outcome) == ("ok", "durable")
    asked = [request.body.decode() for request in stage.chats]
    assert len(asked) >= 2
    assert all(SAID in body for body in asked)
    assert HIDDEN not in sent(stage)
