"""From the configuration to the models it names, or to the reason why there is none.

A model that cannot be used is a state that status shows and never a failed start: search by words and
capture work without it. A name that means nothing here was refused when the configuration was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from forged.config import (
    BUILTIN_LEXICAL,
    BUILTIN_RULES,
    LOCAL,
    Config,
    is_loopback,
    is_usable_url,
    missing,
    model_folder,
    resolve_key,
    runs_in_process,
    shown_url,
)
from forged.errors import ConfigError
from forged.models import ChatModel, Door, Embedder

_M = TypeVar("_M")


class Choice(msgspec.Struct, Generic[_M], frozen=True):
    """A model, or None and why; `reason` is a sentence for status, without secrets."""

    model: _M | None = None
    reason: str = ""


def make_embedder(config: Config, env: Mapping[str, str], door: Door) -> Choice[Embedder]:
    """Return the model that embeds. Blocks up to 5 s when the key comes from a command.

    Texts leave by `door`. A model that runs in process is loaded with the first text, not here.
    """
    memory, name = config.memory, config.embedder
    if not name:
        return Choice(reason="memory.embedding_model is empty")
    if name == BUILTIN_LEXICAL:
        return Choice(reason="the built-in lexical model is used")
    if runs_in_process(name):
        return _in_process(config, env)
    key, reason = _key_for(memory.embedding_base_url, memory.embedding_api_key, env)
    if reason:
        return Choice(reason=reason)
    # Imported here: httpx costs 80-100 ms of start-up, and the built-in model never needs it.
    from forged.models.openai_compatible import OpenAICompatibleEmbedder  # noqa: PLC0415

    return Choice(
        OpenAICompatibleEmbedder(
            memory.embedding_base_url,
            name,
            key,
            door=door,
            query_prefix=memory.query_prefix,
            passage_prefix=memory.passage_prefix,
        )
    )


def _in_process(config: Config, env: Mapping[str, str]) -> Choice[Embedder]:
    memory, name = config.memory, config.embedder
    folder = model_folder(name, memory.embedding_model_dir, env)
    if reason := missing(name, folder):
        return Choice(reason=f"{name}: {reason}")
    if name == LOCAL:
        from forged.models.local import local_embedder  # noqa: PLC0415

        return Choice(local_embedder())
    from forged.models.fastembed import fastembed_embedder  # noqa: PLC0415

    return Choice(
        fastembed_embedder(
            name, folder, query_prefix=memory.query_prefix, passage_prefix=memory.passage_prefix
        )
    )


def make_chat_model(config: Config, env: Mapping[str, str], door: Door) -> Choice[ChatModel]:
    """Return the model that writes hypotheses, `memory.retrieval_model` at the endpoint of `[llm]`.

    Blocks as `make_embedder` does.
    """
    name = config.memory.retrieval_model
    if not name:
        return Choice(reason="memory.retrieval_model is empty")
    key, reason = _key_for(config.llm.base_url, config.llm.api_key, env)
    if reason:
        return Choice(reason=reason)
    from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

    return Choice(OpenAICompatibleChat(config.llm.base_url, name, key, door=door))


def classifier_key(config: Config, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the key of the model that decides what is kept, `config.classifier`, and why there is none.

    No model, because the process that asks it is another one. It is asked at the endpoint of `[llm]`; blocks
    as `make_embedder` does.
    """
    if config.classifier == BUILTIN_RULES:
        return "", f"{BUILTIN_RULES} is used"
    return _key_for(config.llm.base_url, config.llm.api_key, env)


def _key_for(url: str, reference: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the key, or why the endpoint cannot be used. On this machine a missing key is no obstacle."""
    if not is_usable_url(url):
        return "", f"{shown_url(url)} is not an http or https URL"
    try:
        return resolve_key(reference, env), ""
    except ConfigError as error:
        return ("", "") if is_loopback(url) else ("", f"{shown_url(url)}: {error}")
