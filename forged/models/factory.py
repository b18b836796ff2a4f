"""Make the configured models, or return the reason that there is none.

An unusable model is a state in status and never a failed start: search by words and capture work without it.
Unknown names were refused when the configuration was loaded.
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
    derived_files_folder,
    endpoint_key,
    is_program,
    is_usable_url,
    lacks_onnxruntime,
    missing,
    model_folder,
    runs_in_process,
)
from forged.errors import ConfigError
from forged.fair_queue import Activity
from forged.models import ChatModel, EgressGuard, Embedder, EndpointHealth

_M = TypeVar("_M")


class EndpointHealths(msgspec.Struct, frozen=True):
    """Health of each model called over HTTP or as a program, by use; two uses of one model share one."""

    embedding: EndpointHealth | None = None
    cjk: EndpointHealth | None = None
    hyde: EndpointHealth | None = None
    capture: EndpointHealth | None = None

    @property
    def each(self) -> tuple[EndpointHealth, ...]:
        """Return the health of every model in use, each once."""
        all_ = (self.embedding, self.cjk, self.hyde, self.capture)
        return tuple({id(health): health for health in all_ if health is not None}.values())


def make_endpoint_healths(config: Config) -> EndpointHealths:
    """Return untried healths for the models that the configuration calls over HTTP or as programs."""
    memory, llm = config.memory, config.llm.base_url
    known: dict[tuple[str, str], EndpointHealth] = {}

    def health_of(url: str, model: str, use: str) -> EndpointHealth | None:
        """Return a model's health, with this use added; None unless called over HTTP or as a program."""
        if is_program(model):
            url, health = "", EndpointHealth(*model.partition("/")[::2])
        elif (
            model in {"", BUILTIN_LEXICAL, BUILTIN_RULES} or runs_in_process(model) or not is_usable_url(url)
        ):
            return None
        else:
            health = EndpointHealth(urlsplit(url).netloc.rpartition("@")[2], model)
        health = known.setdefault((url, model), health)
        health.add_use(use)
        return health

    cjk = config.cjk
    return EndpointHealths(
        cjk=health_of(memory.embedding_base_url, cjk.embedder, "CJK embeddings") if cjk is not None else None,
        embedding=health_of(memory.embedding_base_url, config.embedder, "embeddings"),
        hyde=health_of(llm, memory.retrieval_model if memory.retrieval_strategy != "direct" else "", "HyDE"),
        capture=health_of(llm, config.classifier if config.capture.enabled else "", "capture"),
    )


class ModelChoice(msgspec.Struct, Generic[_M], frozen=True):
    """A model, or None and the `reason`, a sentence for status without secrets."""

    model: _M | None = None
    reason: str = ""


def make_embedder(
    config: Config,
    env: Mapping[str, str],
    egress: EgressGuard,
    health: EndpointHealth | None = None,
    activity: Activity | None = None,
) -> ModelChoice[Embedder]:
    """Return the configured embedder or the reason for none. Blocks up to 5 s for a key from a command.

    Texts leave through `egress`. A model in this process is loaded with the first text. Its background work
    yields while `activity` shows that agents ask.
    """
    memory, name = config.memory, config.embedder
    if not name:
        return ModelChoice(reason="memory.embedding_model is empty")
    if name == BUILTIN_LEXICAL:
        return ModelChoice(reason="the built-in lexical model is used")
    if runs_in_process(name):
        return _make_in_process_embedder(config, env, activity)
    try:
        key = endpoint_key("memory.embedding_api_key", config, env)
        # Imported here: httpx takes 80-100 ms of start-up, and the built-in model never needs it.
        from forged.models.openai_compatible import OpenAICompatibleEmbedder  # noqa: PLC0415

        return ModelChoice(
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
        return ModelChoice(reason=str(error))


def _make_in_process_embedder(
    config: Config, env: Mapping[str, str], activity: Activity | None
) -> ModelChoice[Embedder]:
    """Return the embedder in this process, or the reason that its package or files are missing."""
    memory, name = config.memory, config.embedder
    folder = model_folder(name, memory.embedding_model_dir, env)
    if reason := missing(name, folder):
        return ModelChoice(reason=f"{name}: {reason}")
    if name == LOCAL:
        from forged.models.local import local_embedder  # noqa: PLC0415

        return ModelChoice(local_embedder(derived_files_folder(env), lacks_onnxruntime(), activity))
    from forged.models.fastembed import fastembed_embedder  # noqa: PLC0415

    return ModelChoice(
        fastembed_embedder(
            name,
            folder,
            query_prefix=memory.query_prefix,
            passage_prefix=memory.passage_prefix,
            activity=activity,
        )
    )


def make_chat_model(
    config: Config, env: Mapping[str, str], egress: EgressGuard, health: EndpointHealth | None = None
) -> ModelChoice[ChatModel]:
    """Return the chat model that writes hypotheses (`memory.retrieval_model`), or the reason for none.

    Blocks as `make_embedder` does.
    """
    name = config.memory.retrieval_model
    if not name:
        return ModelChoice(reason="memory.retrieval_model is empty")
    try:
        key = endpoint_key("llm.api_key", config, env)
        from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

        return ModelChoice(OpenAICompatibleChat(config.llm.base_url, name, key, egress=egress, health=health))
    except ConfigError as error:
        return ModelChoice(reason=str(error))


def make_classifier(
    config: Config, env: Mapping[str, str], egress: EgressGuard, health: EndpointHealth
) -> ModelChoice[ChatModel]:
    """Return the classifier's chat model for a test call of `forgectl doctor`, or the reason for none.

    Classification itself runs in the capture worker. Blocks as `make_embedder` does.
    """
    key, lacking = classifier_key(config, env)
    if lacking:
        return ModelChoice(reason=lacking)
    from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

    return ModelChoice(
        OpenAICompatibleChat(config.llm.base_url, config.classifier, key, egress=egress, health=health)
    )


def classifier_key(config: Config, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the API key of the classifier's endpoint and "", or "" and the reason for none.

    It returns no model, because another process calls it, at the endpoint of `[llm]`. Blocks as
    `make_embedder` does.
    """
    if config.classifier == BUILTIN_RULES:
        return "", f"{BUILTIN_RULES} is used"
    try:
        return endpoint_key("llm.api_key", config, env), ""
    except ConfigError as error:
        return "", str(error)
