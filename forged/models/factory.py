"""From the configuration to the models it names, or to the reason why there is none.

A model that cannot be used is a state that status shows and never a failed start: search by words and
capture work without it. A name that means nothing here was refused when the configuration was loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from forged.config import (
    BUILTIN_LEXICAL,
    BUILTIN_RULES,
    LOCAL,
    Config,
    endpoint_key,
    is_program,
    is_usable_url,
    lacks_onnxruntime,
    made_folder,
    missing,
    model_folder,
    runs_in_process,
)
from forged.errors import ConfigError
from forged.fair_queue import Activity
from forged.models import ChatModel, EgressGuard, Embedder, Health

_M = TypeVar("_M")


class Healths(msgspec.Struct, frozen=True):
    """How each model fares that a configuration asks over HTTP; one that is asked for two things is one."""

    embedding: Health | None = None
    cjk: Health | None = None
    hyde: Health | None = None
    capture: Health | None = None

    @property
    def each(self) -> tuple[Health, ...]:
        all_ = (self.embedding, self.cjk, self.hyde, self.capture)
        return tuple({id(health): health for health in all_ if health is not None}.values())


def make_healths(config: Config) -> Healths:
    """Return a health for each endpoint's model in use, of which nothing is known yet."""
    memory, llm = config.memory, config.llm.base_url
    known: dict[tuple[str, str], Health] = {}

    def of(url: str, model: str, use: str) -> Health | None:
        if is_program(model):
            url, health = "", Health(*model.partition("/")[::2])
        elif (
            model in {"", BUILTIN_LEXICAL, BUILTIN_RULES} or runs_in_process(model) or not is_usable_url(url)
        ):
            return None
        else:
            health = Health(urlsplit(url).netloc.rpartition("@")[2], model)
        health = known.setdefault((url, model), health)
        health.use(use)
        return health

    cjk = config.cjk
    return Healths(
        cjk=of(memory.embedding_base_url, cjk.embedder, "CJK embeddings") if cjk is not None else None,
        embedding=of(memory.embedding_base_url, config.embedder, "embeddings"),
        hyde=of(llm, memory.retrieval_model if memory.retrieval_strategy != "direct" else "", "HyDE"),
        capture=of(llm, config.classifier if config.capture.enabled else "", "capture"),
    )


class Choice(msgspec.Struct, Generic[_M], frozen=True):
    """A model, or None and why; `reason` is a sentence for status, without secrets."""

    model: _M | None = None
    reason: str = ""


def make_embedder(
    config: Config,
    env: Mapping[str, str],
    egress: EgressGuard,
    health: Health | None = None,
    activity: Activity | None = None,
) -> Choice[Embedder]:
    """Return the model that embeds. Blocks up to 5 s when the key comes from a command.

    Texts leave by `door`. A model that runs in process is loaded with the first text, not here; what of it is
    for nobody in particular steps back when `activity` says that somebody asks.
    """
    memory, name = config.memory, config.embedder
    if not name:
        return Choice(reason="memory.embedding_model is empty")
    if name == BUILTIN_LEXICAL:
        return Choice(reason="the built-in lexical model is used")
    if runs_in_process(name):
        return _in_process(config, env, activity)
    try:
        key = endpoint_key("memory.embedding_api_key", config, env)
        # Imported here: httpx costs 80-100 ms of start-up, and the built-in model never needs it.
        from forged.models.openai_compatible import OpenAICompatibleEmbedder  # noqa: PLC0415

        return Choice(
            OpenAICompatibleEmbedder(
                memory.embedding_base_url,
                name,
                key,
                egress=egress,
                health=health,
                query_prefix=memory.query_prefix,
                passage_prefix=memory.passage_prefix,
            )
        )
    except ConfigError as error:
        return Choice(reason=str(error))


def _in_process(config: Config, env: Mapping[str, str], activity: Activity | None) -> Choice[Embedder]:
    memory, name = config.memory, config.embedder
    folder = model_folder(name, memory.embedding_model_dir, env)
    if reason := missing(name, folder):
        return Choice(reason=f"{name}: {reason}")
    if name == LOCAL:
        from forged.models.local import local_embedder  # noqa: PLC0415

        return Choice(local_embedder(made_folder(env), lacks_onnxruntime(), activity))
    from forged.models.fastembed import fastembed_embedder  # noqa: PLC0415

    return Choice(
        fastembed_embedder(
            name,
            folder,
            query_prefix=memory.query_prefix,
            passage_prefix=memory.passage_prefix,
            activity=activity,
        )
    )


def make_chat_model(
    config: Config, env: Mapping[str, str], egress: EgressGuard, health: Health | None = None
) -> Choice[ChatModel]:
    """Return the model that writes hypotheses, `memory.retrieval_model` at the endpoint of `[llm]`.

    Blocks as `make_embedder` does.
    """
    name = config.memory.retrieval_model
    if not name:
        return Choice(reason="memory.retrieval_model is empty")
    try:
        key = endpoint_key("llm.api_key", config, env)
        from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

        return Choice(OpenAICompatibleChat(config.llm.base_url, name, key, egress=egress, health=health))
    except ConfigError as error:
        return Choice(reason=str(error))


def make_classifier(
    config: Config, env: Mapping[str, str], egress: EgressGuard, health: Health
) -> Choice[ChatModel]:
    """Return the model that decides what is kept, for a person who wants to see whether it answers.

    What it decides is asked by another process. Blocks as `make_embedder` does.
    """
    key, lacking = classifier_key(config, env)
    if lacking:
        return Choice(reason=lacking)
    from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

    return Choice(
        OpenAICompatibleChat(config.llm.base_url, config.classifier, key, egress=egress, health=health)
    )


def classifier_key(config: Config, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the key of the model that decides what is kept, `config.classifier`, and why there is none.

    No model, because the process that asks it is another one. It is asked at the endpoint of `[llm]`; blocks
    as `make_embedder` does.
    """
    if config.classifier == BUILTIN_RULES:
        return "", f"{BUILTIN_RULES} is used"
    try:
        return endpoint_key("llm.api_key", config, env), ""
    except ConfigError as error:
        return "", str(error)
