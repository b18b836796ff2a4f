"""Calls of the models over HTTP, each in an event loop of its own; the model is closed behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from forged.errors import ProviderError
from forged.models import Completion, EgressGuard, Prompt, Vectors
from forged.models.openai_compatible import OpenAICompatibleChat, OpenAICompatibleEmbedder
from tests.support.clock import PATIENCE_S
from tests.support.provider import ScriptedProvider
from tests.support.provider.embedders import QUERY

M = TypeVar("M", OpenAICompatibleEmbedder, OpenAICompatibleChat)
R = TypeVar("R")
KEY = "sk-verysecret-0123456789"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"memories": {"type": "array"}}}


def using(model: M, use: Callable[[M], Coroutine[None, None, R]]) -> R:
    async def run() -> R:
        try:
            return await use(model)
        finally:
            await model.aclose()

    return asyncio.run(run())


def embedder(provider: ScriptedProvider, **settings: object) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(
        provider.base_url, "m", **{"key": KEY, "backoff_s": 0.01, **settings}, egress=EgressGuard()
    )


def chatter(provider: ScriptedProvider, **settings: object) -> OpenAICompatibleChat:
    return OpenAICompatibleChat(provider.base_url, "m", KEY, backoff_s=0.01, **settings, egress=EgressGuard())


def embed(
    provider: ScriptedProvider, texts: list[str], *, within: float = PATIENCE_S, **settings: object
) -> Vectors:
    return using(
        embedder(provider, **settings),
        lambda m: m.embed(texts, deadline=time.monotonic() + within, purpose=QUERY),
    )


def refused(
    provider: ScriptedProvider,
    *texts: str,
    kind: type[ProviderError] = ProviderError,
    within: float = PATIENCE_S,
) -> ProviderError:
    """The error that embedding these texts raises."""
    with pytest.raises(kind) as caught:
        embed(provider, list(texts or ["a"]), within=within)
    return caught.value


def chat(
    provider: ScriptedProvider,
    *,
    times: int = 1,
    within: float = PATIENCE_S,
    schema: dict[str, object] | None = None,
    **settings: object,
) -> Completion:
    """The last of so many replies of one model to the same question."""

    async def ask(model: OpenAICompatibleChat) -> Completion:
        prompt, deadline = Prompt("sys", "user", QUERY, schema), time.monotonic() + within
        return [await model.complete(prompt, deadline=deadline) for _ in range(times)][-1]

    return using(chatter(provider, **settings), ask)


def sizes(provider: ScriptedProvider) -> list[int]:
    """Of each request how many inputs it had."""
    return [len(request.inputs) for request in provider.requests()]
