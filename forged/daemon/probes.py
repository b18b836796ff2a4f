"""One real call to each model that is asked at an endpoint, for a person who wants to see it answer.

In: the models in use. Out: a `Probe` for each that has a health, nothing called yet. What is sent is ours and
public. The calls go by the door that all others go by and are counted among the costs, as `doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from forged.daemon.handlers import Probe
from forged.models import ChatModel, Embedder, GovernedChat, Governor, Healths, Prompt, Purpose

_PURPOSE = Purpose("doctor")
_SENTENCE = "The quick brown fox jumps over the lazy dog."
_SYSTEM, _QUESTION = "Answer with one word.", "Say ok."

Make = Callable[[], ChatModel]


def probes(
    healths: Healths,
    embedders: tuple[Embedder | None, Embedder | None],
    chat: ChatModel | None,
    classifier: Make,
    governor: Governor,
) -> Iterator[Probe]:
    """One for each model; `classifier` makes the one that another process asks, or raises ProviderError.

    Of the `embedders` the second is for Chinese, Japanese and Korean.
    """
    for health, embedder in zip((healths.embedding, healths.cjk), embedders, strict=True):
        if health is not None and embedder is not None:
            yield Probe(health, partial(_embed, embedder))
    if healths.hyde is not None and chat is not None:
        yield Probe(healths.hyde, lambda until: _ask(chat, governor, until))
    if healths.capture is not None and healths.capture is not healths.hyde:
        yield Probe(healths.capture, lambda until: _ask_new(classifier, governor, until))


async def _embed(embedder: Embedder, until: float) -> None:
    await embedder.embed([_SENTENCE], "query", purpose=_PURPOSE, deadline=until)


async def _ask(chat: ChatModel, governor: Governor, until: float) -> None:
    prompt = Prompt(_SYSTEM, _QUESTION, _PURPOSE)
    completion = await GovernedChat(chat, governor, _PURPOSE.name).complete(prompt, deadline=until)
    if completion.flaw:
        raise completion.error()


async def _ask_new(make: Make, governor: Governor, until: float) -> None:
    chat = make()
    try:
        await _ask(chat, governor, until)
    finally:
        await chat.aclose()
