"""Choose the models of a configuration, the settings of the capture worker, and a probe of each model.

A missing model is a reason and no error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from forged.capture import WorkerSettings
from forged.config import BUILTIN_LEXICAL, BUILTIN_RULES, Config, Loaded, find_program, is_program
from forged.daemon.handlers import Probe
from forged.errors import ConfigError, ProviderError
from forged.fair_queue import Activity
from forged.models import (
    ChatModel,
    EgressGuard,
    Embedder,
    EndpointHealth,
    EndpointHealths,
    GovernedChat,
    Governor,
    ProgramChat,
    Prompt,
    Purpose,
    classifier_key,
    make_chat_model,
    make_classifier,
    make_embedder,
    make_endpoint_healths,
)
from forged_client import address

CLASSIFIER_TIMEOUT_S = 60.0  # for one event
_PURPOSE = Purpose("doctor")
_SENTENCE = "The quick brown fox jumps over the lazy dog."
_SYSTEM, _QUESTION = "Answer with one word.", "Say ok."


class Models(msgspec.Struct, frozen=True):
    """Models of a configuration, the reasons for missing ones, and the capture worker's settings.

    `no_classifier` is the reason why the configured classifier cannot be used. `cjk` embeds Chinese, Japanese
    and Korean.
    """

    embedder: Embedder | None
    chat: ChatModel | None
    reasons: tuple[str, ...] = ()
    worker: WorkerSettings = WorkerSettings()
    no_classifier: str = ""
    egress: EgressGuard = msgspec.field(default_factory=EgressGuard)
    healths: EndpointHealths = EndpointHealths()
    activity: Activity = msgspec.field(default_factory=Activity)
    cjk: Embedder | None = None


def choose_models(loaded: Loaded, env: Mapping[str, str]) -> Models:
    """Return a configuration's models, with reasons for missing ones, and the worker's settings."""
    memory = loaded.config.memory
    egress, healths = EgressGuard(loaded.config.network), make_endpoint_healths(loaded.config)
    activity = Activity()
    embedding = make_embedder(loaded.config, env, egress, healths.embedding, activity)
    chat = make_chat_model(loaded.config, env, egress, healths.hyde)
    reasons = []
    cjk = None
    if (second := loaded.config.cjk) is not None:
        chosen = make_embedder(second, env, egress, healths.cjk, activity)
        cjk = chosen.model
        reasons += [f"no vectors of CJK texts: {chosen.reason}"] if cjk is None else []
    if loaded.config.embedder not in {"", BUILTIN_LEXICAL} and embedding.model is None:
        reasons.append(f"no dense index: {embedding.reason}")
    if memory.retrieval_model and chat.model is None:
        reasons.append(f"no HyDE: {chat.reason}")
    worker, no_classifier = worker_settings(loaded.config, env)
    healths = EndpointHealths(
        healths.embedding if embedding.model is not None else None,
        healths.cjk if cjk is not None else None,
        healths.hyde if chat.model is not None else None,
        healths.capture if not no_classifier else None,
    )
    return Models(
        embedding.model,
        chat.model,
        tuple(reasons),
        worker,
        no_classifier,
        egress=egress,
        healths=healths,
        activity=activity,
        cjk=cjk,
    )


def retrieval_off(loaded: Loaded, models: Models) -> str:
    """Return the reason why retrieval is off altogether, or "": a state and not an error."""
    settings = loaded.config.memory
    if not settings.enabled:
        return "memory.enabled is false"
    if settings.embedding_model == "":
        return "memory.embedding_model is empty"
    if settings.retrieval_lexical_weight == 0 and models.embedder is None:
        return "memory.retrieval_lexical_weight is 0 and there is no embedding model"
    if settings.retrieval_strategy == "hyde" and models.chat is None:
        return "memory.retrieval_strategy is hyde and there is no retrieval_model"
    return ""


def capture_off(config: Config) -> str:
    """Return the reason why nothing is captured, or ""; capture does not depend on retrieval."""
    if not config.memory.enabled:
        return "memory.enabled is false"
    return "" if config.capture.enabled else "capture.enabled is false"


def worker_settings(config: Config, env: Mapping[str, str]) -> tuple[WorkerSettings, str]:
    """Return the capture worker's settings, and why the configured classifier is missing, or ""."""
    if config.classifier == BUILTIN_RULES:
        return WorkerSettings(timeout_s=CLASSIFIER_TIMEOUT_S), ""
    if is_program(config.classifier):
        return _program_settings(config, env)
    key, lacking = classifier_key(config, env)
    base_url, network = "" if lacking else config.llm.base_url, config.network
    settings = WorkerSettings(
        config.classifier, base_url, key, CLASSIFIER_TIMEOUT_S, network.proxy, network.plain_http_hosts
    )
    return settings, "" if capture_off(config) else lacking


def _program_settings(config: Config, env: Mapping[str, str]) -> tuple[WorkerSettings, str]:
    """Return the capture worker's settings for a program as classifier, and why it is missing, or ""."""
    settings = WorkerSettings(config.classifier, timeout_s=CLASSIFIER_TIMEOUT_S)
    try:
        program = find_program(config, env)
    except ConfigError as error:
        return settings, "" if capture_off(config) else str(error)
    scratch = os.path.join(address.state_dir(env), "classifier")
    return msgspec.structs.replace(settings, program=program, scratch=scratch), ""


def probes(config: Config, env: Mapping[str, str], models: Models, governor: Governor) -> Iterator[Probe]:
    """Yield one test call for each model; it sends only public texts and is counted as `doctor`."""
    healths = models.healths
    for health, embedder in (healths.embedding, models.embedder), (healths.cjk, models.cjk):
        if health is not None and embedder is not None:
            yield Probe(health, partial(_probe_embedder, embedder))
    if healths.hyde is not None and models.chat is not None:
        yield Probe(healths.hyde, partial(_probe_chat, models.chat, governor))
    if healths.capture is not None and healths.capture is not healths.hyde:
        yield Probe(
            healths.capture,
            partial(_probe_new_chat, partial(_make_capture_model, config, env, models), governor),
        )


async def _probe_embedder(embedder: Embedder, until: float) -> None:
    await embedder.embed([_SENTENCE], "query", purpose=_PURPOSE, deadline=until)


async def _probe_chat(chat: ChatModel, governor: Governor, until: float) -> None:
    """Ask a chat model for one word as a test call, counted as `doctor`. Raises ProviderError."""
    prompt = Prompt(_SYSTEM, _QUESTION, _PURPOSE)
    completion = await GovernedChat(chat, governor, _PURPOSE.name).complete(prompt, deadline=until)
    if completion.failure:
        raise completion.error()


async def _probe_new_chat(make: Callable[[], ChatModel], governor: Governor, until: float) -> None:
    """Make one test call to a chat model that is made for it, and close the model."""
    chat = make()
    try:
        await _probe_chat(chat, governor, until)
    finally:
        await chat.aclose()


def _make_capture_model(config: Config, env: Mapping[str, str], models: Models) -> ChatModel:
    """Return a new chat model like that of the worker's classifier. Raises ProviderError."""
    health = models.healths.capture or EndpointHealth()
    if models.worker.program.command:
        return ProgramChat(models.worker.program, models.worker.scratch, egress=models.egress, health=health)
    chosen = make_classifier(config, env, models.egress, health)
    if chosen.model is None:
        raise ProviderError(chosen.reason, reason="auth")
    return chosen.model
