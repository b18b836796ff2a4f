"""Egress guard: redaction, refusal and counts."""

from __future__ import annotations

import asyncio

import pytest

from forged.counters import EgressRecord, Metrics
from forged.errors import ProviderError
from forged.models import EgressGuard, Purpose, cleaned
from forged.models.openai_compatible import OpenAICompatibleEmbedder
from tests.data.secrets import ALNUM, Draw
from tests.models.calls import KEY, using
from tests.support.provider import Answer, ScriptedProvider
from tests.support.provider.embedders import QUERY

SECRET = "ghp_" + Draw("the door").of(ALNUM, 36)


def embedder(provider: ScriptedProvider, egress: EgressGuard) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(provider.base_url, "m", KEY, egress=egress, backoff_s=0.01)


def sent(provider: ScriptedProvider) -> list[str]:
    return [text for request in provider.requests() for text in request.inputs]


def test_secrets_and_private_spans_are_cut_from_each_text_by_itself():
    texts = [f"a {SECRET} b", "open <private>hidden", "plain", "<private>all of it</private>"]

    assert asyncio.run(EgressGuard().cleared(texts)) == ("a [redacted] b", "open ", "plain", "[redacted]")
    assert [cleaned(text) for text in texts] == ["a [redacted] b", "open ", "plain", "[redacted]"]


def test_the_body_is_made_of_the_texts_that_the_egress_guard_returns():
    metrics, egress = Metrics(), EgressGuard()
    egress.metrics = metrics
    with ScriptedProvider() as provider:
        using(embedder(provider, egress), lambda m: m.embed([f"a {SECRET}", "b <private>c"], purpose=QUERY))

        assert sent(provider) == ["a [redacted]", "b"]
    assert metrics.secrets_redacted == 1


def test_a_secret_that_is_cut_in_two_does_not_pass_as_two_halves():
    """Texts are cut to what a model takes; half a token looks like no token."""
    text = "word " * 6395 + SECRET
    with ScriptedProvider() as provider:
        using(embedder(provider, EgressGuard()), lambda m: m.embed([text], purpose=QUERY))
        (left,) = sent(provider)

    assert len(text) > 32_000 >= len(left)
    assert SECRET[:12] not in left
    assert left.endswith("[redacted]")


def test_while_it_is_shut_nothing_leaves_and_a_retry_meets_it_too():
    asked: list[tuple[str, ...]] = []

    async def guard(tops: tuple[str, ...]) -> str:
        asked.append(tops)
        return "shut" if len(asked) > 1 else ""

    egress = EgressGuard()
    egress.configure(guard, lambda _: "", lambda _: None, Metrics())
    with ScriptedProvider() as provider:
        provider.embeddings = Answer(status=503)
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                using(embedder(provider, egress), lambda m: m.embed(["a"], purpose=Purpose("query", ("/r",))))
            assert (caught.value.reason, str(caught.value)) == ("held", "shut")

        assert len(provider.requests()) == 1
    assert asked == [("/r",)] * 3


def test_what_the_day_does_not_afford_stays():
    egress = EgressGuard()

    async def open_to_all(_: tuple[str, ...]) -> str:
        return ""

    egress.configure(open_to_all, lambda tokens: "too much" if tokens > 10 else "", lambda _: None, Metrics())
    with ScriptedProvider() as provider:
        using(embedder(provider, egress), lambda m: m.embed(["a"], purpose=QUERY))
        with pytest.raises(ProviderError, match="too much") as caught:
            using(embedder(provider, egress), lambda m: m.embed(["word " * 20], purpose=QUERY))

        assert (caught.value.reason, sent(provider)) == ("limit", ["a"])


def test_what_leaves_is_counted_when_it_is_handed_to_the_network():
    recorded: list[EgressRecord] = []
    egress = EgressGuard(record=recorded.append)
    with ScriptedProvider() as provider:
        host = provider.base_url.split("/")[2]
        provider.embeddings = [Answer(status=503)]
        using(embedder(provider, egress), lambda m: m.embed(["ab", "cde"], purpose=QUERY))
        assert recorded == [
            EgressRecord(host, "query", calls=1, texts=2, characters=5),
            EgressRecord(host, "query", failed=1),
            EgressRecord(host, "query", calls=1, texts=2, characters=5),
            EgressRecord(host, "query", tokens=2),
        ]
        recorded.clear()
        provider.embeddings = Answer(json={"odd": 1})
        with pytest.raises(ProviderError):
            using(embedder(provider, egress), lambda m: m.embed(["ab"], purpose=QUERY))
        assert recorded == [
            EgressRecord(host, "query", calls=1, texts=1, characters=2),
            EgressRecord(host, "query", failed=1),
        ]
    recorded.clear()
    with pytest.raises(ProviderError):  # nobody is there any more, and nothing has left
        using(embedder(provider, egress), lambda m: m.embed(["ab"], purpose=QUERY))
    assert recorded == []
