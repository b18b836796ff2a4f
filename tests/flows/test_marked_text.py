"""What a harness or a person marks as not said: through a real daemon, none of it reaches any model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forged_client.protocol import Message, Retrieve, Search, Why
from tests.data.memories import memory, put
from tests.support.daemon import Stage, capturing

HIDDEN = "WORDS-HIDDEN"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    models = {"embedding_model": "m", "classifier_model": "m", "retrieval_model": "m"}
    with capturing(tmp_path_factory.mktemp("home"), **models, retrieval_timeout_s=5.0) as stage:
        yield stage


@pytest.fixture
def stage(shared: Stage) -> Stage:
    """One daemon whose embedder, HyDE model and classifier are a scripted provider on loopback."""
    shared.reset()
    return shared


def sent(stage: Stage) -> str:
    """All that any model was sent."""
    return "\n".join(request.body.decode() for request in stage.provider.requests())


@pytest.mark.parametrize("marked", ["<private>{}</private>", "< private >{}", "&lt;private&gt;{}"])
def test_nothing_private_of_a_query_or_a_hypothesis_leaves(stage, repo, marked):
    put(repo, memory("mem_a", "the walrus sings"))
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
