"""Make the parts of a daemon for one configuration, each once, and join them.

What cannot be had is a reason among its warnings and no error; no task is running yet.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.build_id import build_id
from forged.capture import Committer, Pipeline, Promotion, RememberedVectors, WorkerSettings, local_vectors
from forged.config import (
    BUILTIN_LEXICAL,
    BUILTIN_RULES,
    Config,
    Loaded,
    find_program,
    install_command,
    is_program,
)
from forged.counters import Departure, Metrics
from forged.daemon import known_memories
from forged.daemon.handlers import About, Daemon, Probe, RefusedWrites
from forged.errors import ConfigError, ProviderError
from forged.fair_queue import Activity
from forged.files import Root, Watcher
from forged.log import LogSettings
from forged.maps import EmbeddingQueue, Indexer, Remembered
from forged.memories import MemoryParts, removal
from forged.memory import Scope
from forged.models import (
    GOVERNED,
    ChatModel,
    Door,
    Embedder,
    GovernedChat,
    Governor,
    Health,
    Healths,
    ProgramChat,
    Prompt,
    Purpose,
    classifier_key,
    make_chat_model,
    make_classifier,
    make_embedder,
    make_healths,
)
from forged.retrieval import ModelsInUse, Retriever, Tuning
from forged.sessions import Sessions
from forged.state import State
from forged.stores import Resolver, SecondModel, SessionMemories, SessionViews
from forged.trust import TrustRegistry
from forged.writing import Writer
from forged_client import address
from forged_client.autostart import LOG_NAME

if TYPE_CHECKING:
    from forged.postgres import Machines, OwnMarks, Shared

CLASSIFIER_TIMEOUT_S = 60.0  # for one event
# After so many model calls within a minute capture waits; a retrieve never does.
CALLS_PER_MINUTE = 60
_PURPOSE = Purpose("doctor")
_SENTENCE = "The quick brown fox jumps over the lazy dog."
_SYSTEM, _QUESTION = "Answer with one word.", "Say ok."


def worker_settings(config: Config, env: Mapping[str, str]) -> tuple[WorkerSettings, str]:
    """What the worker is told, and why it has no classifier. The rules never decide in a model's place."""
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
    settings = WorkerSettings(config.classifier, timeout_s=CLASSIFIER_TIMEOUT_S)
    try:
        program = find_program(config, env)
    except ConfigError as error:
        return settings, "" if capture_off(config) else str(error)
    scratch = os.path.join(address.state_dir(env), "classifier")
    return msgspec.structs.replace(settings, program=program, scratch=scratch), ""


def capture_off(config: Config) -> str:
    """Why nothing is captured, or nothing; capture does not depend on retrieval."""
    if not config.memory.enabled:
        return "memory.enabled is false"
    return "" if config.capture.enabled else "capture.enabled is false"


def make_shared(
    config: Config,
    env: Mapping[str, str],
    *,
    state: State,
    door: Door,
    queue: EmbeddingQueue | None,
    epoch: str,
) -> tuple[Shared | None, str]:
    """Return the server that `[shared]` names, if it does; or why there is none."""
    if not config.shared.url:
        return None, ""
    try:
        from forged.postgres import Shared, settings_of  # noqa: PLC0415 - what it needs is an extra

        settings = settings_of(config, env)
        assert settings is not None
        name = f"{platform.node().split('.')[0] or 'machine'}/{epoch}"
        return Shared(settings, state=state, door=door, queue=queue, daemon=name), ""
    except ImportError:
        return (
            None,
            f"nothing is shared: the shared server needs packages that are not installed: {install_command('postgres')}",
        )
    except ConfigError as error:
        return None, f"nothing is shared: {error}"


def make_marks(shared: Shared | None, state: State) -> OwnMarks | None:
    """Return what has other machines hear of what is forgotten here."""
    if shared is None:
        return None
    from forged.postgres import OwnMarks  # noqa: PLC0415 - as above

    return OwnMarks(state.replicas, shared.scopes, shared.settings.user_id)


def make_machines(memories: MemoryParts) -> Machines | None:
    """What keeps the files of users and agents in step with the server, where they are shared."""
    shared = memories.shared
    if shared is None or not shared.scopes & {Scope.USER, Scope.AGENT}:
        return None
    from forged.postgres import Machines  # noqa: PLC0415 - as above

    return Machines(
        shared,
        home=memories.resolver.home,
        state=memories.state,
        indexer=memories.indexer,
        writer=memories.writer,
        trust=memories.trust,
        take_away=partial(removal.forgotten_elsewhere, memories),
    )


def probes(
    healths: Healths,
    embedders: tuple[Embedder | None, Embedder | None],
    chat: ChatModel | None,
    classifier: Callable[[], ChatModel],
    governor: Governor,
) -> Iterator[Probe]:
    """Yield one call to each model; it is counted as `doctor`, and what it sends is ours and public."""
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


async def _ask_new(make: Callable[[], ChatModel], governor: Governor, until: float) -> None:
    chat = make()
    try:
        await _ask(chat, governor, until)
    finally:
        await chat.aclose()


class Models(msgspec.Struct, frozen=True):
    """The models in use and why one is missing; `worker` are the settings of the capture worker.

    `no_classifier` says why the model that was asked for cannot decide what is kept; `cjk` embeds Chinese,
    Japanese and Korean.
    """

    embedder: Embedder | None
    chat: ChatModel | None
    reasons: tuple[str, ...] = ()
    worker: WorkerSettings = WorkerSettings()
    no_classifier: str = ""
    door: Door = msgspec.field(default_factory=Door)
    healths: Healths = Healths()
    activity: Activity = msgspec.field(default_factory=Activity)
    cjk: Embedder | None = None


def choose_models(loaded: Loaded, env: Mapping[str, str]) -> Models:
    """Embedder and chat model of a configuration; what cannot be had is a reason, not an error."""
    memory = loaded.config.memory
    door, healths = Door(loaded.config.network), make_healths(loaded.config)
    activity = Activity()
    embedding = make_embedder(loaded.config, env, door, healths.embedding, activity)
    chat = make_chat_model(loaded.config, env, door, healths.hyde)
    reasons = []
    cjk = None
    if (second := loaded.config.cjk) is not None:
        chosen = make_embedder(second, env, door, healths.cjk, activity)
        cjk = chosen.model
        reasons += [f"no vectors of CJK texts: {chosen.reason}"] if cjk is None else []
    if loaded.config.embedder not in {"", BUILTIN_LEXICAL} and embedding.model is None:
        reasons.append(f"no dense leg: {embedding.reason}")
    if memory.retrieval_model and chat.model is None:
        reasons.append(f"no HyDE: {chat.reason}")
    worker, no_classifier = worker_settings(loaded.config, env)
    healths = Healths(
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
        door=door,
        healths=healths,
        activity=activity,
        cjk=cjk,
    )


def build(
    loaded: Loaded,
    env: Mapping[str, str],
    models: Models,
    *,
    connections: Callable[[], int],
    reload: Callable[[], Awaitable[bool]],
    remembered: Remembered | None = None,
) -> Daemon:
    """Join the parts; `reload` starts over if need be, `remembered` is an earlier daemon's of models."""
    config, metrics, off = loaded.config, Metrics(), retrieval_off(loaded, models)
    governor = Governor(daily_token_limit=config.memory.daily_token_limit, calls_per_minute=CALLS_PER_MINUTE)
    state = State(address.state_dir(env), governor, address.socket_path(env))
    trust = TrustRegistry(state, mode=config.trust.mode, git=config.memory.git, home=user_top(env))
    indexer, watcher = _maps(config, models, metrics, governor, remembered=remembered, trust=trust, off=off)
    session_memories = SessionMemories(
        ttl_s=config.scopes.session_ttl_minutes * 60.0, most=config.scopes.session_max_memories
    )
    session_views = SessionViews(session_memories, indexer)
    retriever = _retriever(config, models, metrics, governor, indexer.second)
    trust.join(indexer.follow, indexer.snapshot)
    epoch = secrets.token_hex(4)
    shared, unshared = make_shared(
        config, env, state=state, door=models.door, queue=indexer.queue, epoch=epoch
    )
    trash, marks = os.path.join(address.state_dir(env), "trash"), make_marks(shared, state)
    writer = Writer(trash, trust, state.requests, state.intents, marks)
    resolver = Resolver(
        user_top(env), config, indexer, state=state, sessions=(session_memories, session_views)
    )
    capture = _capture(
        config, env, models, metrics, governor, state, indexer, retriever, writer, session_memories
    )
    sessions = Sessions(
        config, state, capture, session_memories, retriever=retriever, resolver=resolver, metrics=metrics
    )
    models.door.guard(
        partial(_refusal, state), governor.beyond_today, partial(_record, state, governor), metrics
    )
    classifier = partial(_classifier, config, env, models)
    memories = MemoryParts(
        config=config,
        metrics=metrics,
        indexer=indexer,
        resolver=resolver,
        writer=writer,
        trust=trust,
        state=state,
        capture=capture,
        sessions=sessions,
        session_memories=session_memories,
        session_views=session_views,
        shared=shared,
    )
    return Daemon(
        epoch=epoch,
        config=config,
        disabled=off,
        about=_about(loaded, env, models, unshared),
        metrics=metrics,
        activity=models.activity,
        indexer=indexer,
        watcher=watcher,
        retriever=retriever,
        memories=memories,
        resolver=resolver,
        trust=trust,
        sessions=sessions,
        refused_writes=RefusedWrites(metrics, state),
        session_memories=session_memories,
        session_views=session_views,
        capture=capture,
        governor=governor,
        healths=models.healths.each,
        probes=tuple(
            probes(models.healths, (models.embedder, models.cjk), models.chat, classifier, governor)
        ),
        state=state,
        connections=connections,
        reload=reload,
        shared=shared,
        machines=make_machines(memories),
    )


def _capture(  # noqa: PLR0917 - parts of one daemon
    config: Config,
    env: Mapping[str, str],
    models: Models,
    metrics: Metrics,
    governor: Governor,
    state: State,
    indexer: Indexer,
    retriever: Retriever,
    writer: Writer,
    sessions: SessionMemories,
) -> Pipeline:
    promotion = Promotion(user_top(env), config.scopes.min_importance, sessions)
    vectors = RememberedVectors(partial(local_vectors, embedder=models.embedder))
    return Pipeline(
        settings=msgspec.structs.replace(models.worker, log=log_settings(env)),
        state=state,
        governor=governor,
        metrics=metrics,
        rank=partial(known_memories.nearest, indexer=indexer, retriever=retriever),
        committer=Committer(indexer, writer, state, vectors, promotion=promotion),
        vectors=vectors,
        batch_turns=config.capture.batch_turns,
        off=capture_off(config),
        problem=models.no_classifier,
        health=models.healths.capture,
    )


async def _refusal(state: State, tops: tuple[str, ...]) -> str:
    """Why nothing of these tops may leave, or nothing; what is paused is known once the state is read."""
    await state.opened()
    return state.pauses.reason(tops)


def _record(state: State, governor: Governor, departure: Departure) -> None:
    """Count what left, and what it cost where nobody else does."""
    state.outbound.add(departure)
    if departure.purpose not in GOVERNED:
        counts = {"calls": departure.calls, "failed": departure.failed}
        governor.spend(departure.purpose, **counts, prompt_tokens=departure.tokens)
    elif departure.tokens:  # of vectors that a person had tried; of chats whoever makes them counts
        governor.spend(departure.purpose, prompt_tokens=departure.tokens)


def _classifier(config: Config, env: Mapping[str, str], models: Models) -> ChatModel:
    """The model that another process asks what is kept. Raises ProviderError if there is none."""
    health = models.healths.capture or Health()
    if models.worker.program.command:
        return ProgramChat(models.worker.program, models.worker.scratch, door=models.door, health=health)
    chosen = make_classifier(config, env, models.door, health)
    if chosen.model is None:
        raise ProviderError(chosen.reason, reason="auth")
    return chosen.model


def log_settings(env: Mapping[str, str], level: str = "") -> LogSettings:
    level = level or logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
    file = os.path.join(address.state_dir(env), LOG_NAME)
    return LogSettings(level, file, "JOURNAL_STREAM" in env)


def user_top(env: Mapping[str, str]) -> str:
    """The user's own directory, whose memories every workspace sees."""
    return os.path.realpath(address.home(env))


def _about(loaded: Loaded, env: Mapping[str, str], models: Models, unshared: str) -> About:
    return About(
        socket=address.socket_path(env),
        build=build_id(),
        settings=loaded.settings,
        warnings=loaded.warnings,
        lacking=(*models.reasons, *filter(None, [unshared])),
        embedding_model=loaded.config.embedder,
        classifier=loaded.config.classifier,
        started_at=time.monotonic(),
    )


def _maps(
    config: Config,
    models: Models,
    metrics: Metrics,
    governor: Governor,
    *,
    remembered: Remembered | None,
    trust: TrustRegistry,
    off: str,
) -> tuple[Indexer, Watcher]:
    def watch(roots: frozenset[Root]) -> None:
        watcher.set_roots(roots)

    indexer = Indexer(
        # What is switched off may still be listed, but calls nobody.
        embedder=None if off else models.embedder,
        lexical=config.memory.retrieval_lexical_weight > 0 and not off,
        metrics=metrics,
        gated=config.min_score > 0,
        on_roots=watch,
        health=models.healths.embedding,
        remembered=remembered,
        affords=governor.beyond_today,
        refusal=models.door.refusal,
        trust=trust,
        second=None if off else models.cjk,
        second_health=models.healths.cjk,
    )
    watcher = Watcher(indexer.mark)
    return indexer, watcher


def _retriever(
    config: Config, models: Models, metrics: Metrics, governor: Governor, second: EmbeddingQueue | None
) -> Retriever:
    settings = config.memory
    chat = models.chat if settings.retrieval_strategy != "direct" else None
    return Retriever(
        models=ModelsInUse(
            embedder=models.embedder,
            chat=GovernedChat(chat, governor, "hyde") if chat is not None else None,
            embedding_health=models.healths.embedding or Health(),
            hyde_health=models.healths.hyde or Health(),
            cjk=SecondModel(second) if second is not None else None,
        ),
        tuning=Tuning(
            strategy=settings.retrieval_strategy,
            hypothesis_count=settings.retrieval_hypothesis_count,
            lexical_weight=settings.retrieval_lexical_weight,
            min_score=config.min_score,
        ),
        metrics=metrics,
    )


def retrieval_off(loaded: Loaded, models: Models) -> str:
    """Why retrieval is off altogether, or nothing: a state and not an error."""
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
