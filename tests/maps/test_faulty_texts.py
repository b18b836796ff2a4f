"""Texts that a real endpoint on loopback cannot take, and what they cost the others."""

from __future__ import annotations

import contextlib
import threading

import pytest

from forged.errors import ProviderError
from forged.maps import embedding
from forged.maps.embedding import EmbeddingQueue
from forged.maps.model_identity import SENTENCES
from forged.models import EgressGuard, EndpointHealth, Purpose
from forged.models.openai_compatible import OpenAICompatibleEmbedder
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.support.provider import (
    EMBEDDINGS,
    RESET,
    Answer,
    ScriptedProvider,
    items,
    poisoned,
    well_behaved,
)

BUILD = Purpose("build", ("/repo",))
POISON = "a poisonous text"
INVALID = Answer({"error": {"message": "invalid input", "type": "invalid_request_error"}}, status=400)
REFUSALS = {
    "400": INVALID,
    "422": Answer({"detail": [{"msg": "input is not valid"}]}, status=422),
    "500": Answer({"error": "unknown token in text"}, status=500),
    "reset": RESET,
}


@pytest.fixture
def provider():
    with ScriptedProvider() as provider:
        yield provider


@contextlib.asynccontextmanager
async def model(provider, health=None):
    embedder = OpenAICompatibleEmbedder(
        provider.base_url, "m", egress=EgressGuard(), health=health, backoff_s=0.01
    )
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def embedded(embedder, texts):
    """A finished run over texts by their numbers."""
    run = EmbeddingQueue(embedder).begin_run(BUILD)
    await run._identity.check_if_due()
    await run.run({str(number).encode(): text for number, text in enumerate(texts)})
    return run


def with_poison(count, place):
    return [POISON if number == place else f"text {number}" for number in range(count)]


def calls(provider):
    return len(provider.requests(EMBEDDINGS))


def _long(place):
    return pytest.param(place, marks=pytest.mark.long)


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("place", [_long(0), 63, _long(1000), 1999])
async def test_one_refused_text_of_2000_costs_at_most_12_calls_and_no_other_vector(provider, answer, place):
    health = EndpointHealth("host", "m")
    async with model(provider, health) as embedder:
        await embedded(embedder, [f"text {number}" for number in range(2000)])
        usual = calls(provider)
        provider.embeddings = poisoned(POISON, answer)
        run = await embedded(embedder, with_poison(2000, place))

    assert (set(run.culprits), len(run.vectors)) == ({str(place).encode()}, 1999)
    assert calls(provider) - 2 * usual <= 12
    assert health.outage() is None


async def test_a_text_that_hangs_the_server_keeps_no_neighbour_from_its_vector(provider, monkeypatch):
    monkeypatch.setattr(embedding, "_CHUNK_S", 1.0)
    monkeypatch.setattr(embedding, "_HALF_S", 0.5)
    monkeypatch.setattr(embedding, "_ALONE_S", 0.5)
    never = threading.Event()
    provider.embeddings = poisoned(POISON, Answer(hold=never))
    async with model(provider, EndpointHealth("host", "m")) as embedder:
        run = await embedded(embedder, with_poison(128, 40))

    assert (set(run.culprits), len(run.vectors)) == ({b"40"}, 127)
    assert "timeout" in run.culprits[b"40"]


@pytest.mark.parametrize("place", [0, 20, 40])
async def test_one_odd_vector_among_41_is_quarantined_and_40_rows_answer(home, repo, provider, place):
    provider.vectors = {POISON: (1.0, 0.0, 0.0)}
    put(repo, *(memory(f"m{at:02}", text) for at, text in enumerate(with_poison(41, place))))
    async with model(provider) as embedder, assembled(home, embedder) as parts:
        rebuilt = await parts.loaded(repo)
        found = await parts.ask(wire.Search(query="text", workspace=str(repo), limit=50))
        status = await parts.ask(wire.Status(workspace=str(repo)))

    one = next(root for root in status.roots if root.scope == "repo")
    assert (rebuilt.status, one.state, one.indexes) == ("ok", "ready", ("lexical", "dense"))
    assert one.quarantined == 1
    (problem,) = one.problems
    assert problem.path == f"m{place:02}"
    assert "a vector of 3 numbers where others have 8" in problem.reason
    assert found.indexes == ("lexical", "dense")
    assert sum(hit.found.cosine is not None for hit in found.memories) == 40


@pytest.mark.parametrize("answer", [Answer({"error": "oops"}, status=500), RESET], ids=["500", "reset"])
async def test_an_outage_that_begins_in_mid_run_is_noticed_by_a_few_calls_and_blames_no_text(
    provider, answer
):
    answered = iter(range(10**6))
    provider.embeddings = lambda server, request: (
        well_behaved(server, request) if next(answered) < 2 else answer
    )
    async with model(provider, EndpointHealth("host", "m")) as embedder:
        run = EmbeddingQueue(embedder).begin_run(BUILD)
        await run._identity.check_if_due()
        with pytest.raises(ProviderError):
            await run.run({str(number).encode(): f"text {number}" for number in range(2000)})

    assert run.culprits == {}
    assert len(run.vectors) == 64  # of the chunk that went alone
    assert calls(provider) <= 2 + 4 + 4  # chunks that were out, and a look for each


async def test_a_reply_with_one_vector_of_another_length_is_read_text_by_text(provider):
    def odd_last(server, request):
        data = items(server, request)
        if len(data) > 1:
            data[-1]["embedding"] = [1.0, 0.0]
        return Answer({"data": data})

    provider.embeddings = lambda server, request: (
        well_behaved(server, request) if list(SENTENCES) == request.inputs else odd_last(server, request)
    )
    async with model(provider) as embedder:
        run = await embedded(embedder, [f"text {number}" for number in range(8)])

    assert (run.culprits, len(run.vectors)) == ({}, 8)
