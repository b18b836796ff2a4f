"""Make the parts of a daemon for one configuration, and connect them; a missing part is a warning."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from forged.build_id import build_id
from forged.capture import CaptureService, Committer, LocalVectors, Promotion
from forged.config import Config, Loaded
from forged.counters import EgressRecord, Metrics
from forged.daemon import nearest_memories
from forged.daemon.handlers import Daemon, DaemonFacts, DiskRefusals
from forged.daemon.models import Models, capture_off, probes, retrieval_off
from forged.files import AGENT_ID, Watcher, agent_root
from forged.log import LogSettings
from forged.maps import EmbeddingQueue, Indexer, ModelCache
from forged.memories import MemoryParts, sharing
from forged.models import GOVERNED, EgressGuard, GovernedChat, Governor
from forged.retrieval import Retriever
from forged.sessions import Sessions
from forged.state import SharedOwners, State
from forged.stores import Resolver, SecondModel, SessionMemories, SessionViews
from forged.trust import TrustRegistry
from forged.writing import Writer
from forged_client import address
from forged_client.autostart import LOG_NAME

CALLS_PER_MINUTE = 60  # then capture waits; a retrieve never does


def build(
    loaded: Loaded,
    env: Mapping[str, str],
    models: Models,
    *,
    connections: Callable[[], int],
    reload: Callable[[], Awaitable[bool]],
    model_cache: ModelCache | None = None,
) -> Daemon:
    """Make and connect all parts of a daemon, with an earlier run's `model_cache`; starts no task."""
    config, metrics, off = loaded.config, Metrics(), retrieval_off(loaded, models)
    governor = Governor(daily_token_limit=config.memory.daily_token_limit, calls_per_minute=CALLS_PER_MINUTE)
    state = State(address.state_dir(env), governor, address.socket_path(env))
    trust = _make_trust(config, env, state, owners := _owners(config))
    indexer, watcher = _make_maps(config, models, metrics, governor, cache=model_cache, trust=trust, off=off)
    session_memories, session_views = _make_session_parts(config, indexer)
    retriever = _make_retriever(config, models, metrics, governor, indexer.second)
    trust.connect_maps(indexer.refresh, indexer.snapshot)
    epoch = secrets.token_hex(4)
    shared, unshared = sharing.make_server(config, env, state, models.egress, indexer, epoch)
    copies = sharing.make_copies(config, env, shared, indexer, lambda: memories)
    trash = os.path.join(address.state_dir(env), "trash")
    writer = Writer(trash, trust, state.requests, state.intents, state.removal_marks)
    resolver = Resolver(
        user_top(env),
        config,
        indexer,
        state=state,
        sessions=(session_memories, session_views),
        team=partial(sharing.turn_stores, copies),
    )
    capture = _make_capture_service(
        config, env, models, metrics, governor, state, indexer, retriever, writer, session_memories
    )
    sessions = Sessions(
        config, state, capture, session_memories, retriever=retriever, resolver=resolver, metrics=metrics
    )
    _configure_egress(models.egress, state, governor, metrics)
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
        copies=copies,
    )
    return Daemon(
        epoch=epoch,
        config=config,
        disabled=off,
        about=_daemon_facts(loaded, env, models, unshared),
        metrics=metrics,
        activity=models.activity,
        indexer=indexer,
        watcher=watcher,
        retriever=retriever,
        memories=memories,
        resolver=resolver,
        trust=trust,
        sessions=sessions,
        disk_refusals=DiskRefusals(metrics, state),
        session_memories=session_memories,
        session_views=session_views,
        capture=capture,
        governor=governor,
        healths=models.healths.each,
        probes=tuple(probes(config, env, models, governor)),
        state=state,
        connections=connections,
        reload=reload,
        sharing=sharing.connect(memories, owners),
    )


def _owners(config: Config) -> SharedOwners:
    """Return the owners of this machine's roots on a team's server; odd names of agents are left out."""
    return SharedOwners(
        config.shared.owner_id, frozenset(filter(AGENT_ID.fullmatch, config.shared.agents_of_team))
    )


def _make_trust(config: Config, env: Mapping[str, str], state: State, owners: SharedOwners) -> TrustRegistry:
    of_team = [agent_root(user_top(env), each).top for each in owners.team_agents]
    return TrustRegistry(
        state, mode=config.trust.mode, git=config.memory.git, home=user_top(env), of_team=of_team
    )


def _daemon_facts(loaded: Loaded, env: Mapping[str, str], models: Models, unshared: str) -> DaemonFacts:
    return DaemonFacts(
        socket=address.socket_path(env),
        build=build_id(),
        settings=loaded.settings,
        warnings=loaded.warnings,
        lacking=(*models.reasons, *filter(None, [unshared])),
        embedding_model=loaded.config.embedder,
        classifier=loaded.config.classifier,
        started_at=time.monotonic(),
    )


def _make_session_parts(config: Config, indexer: Indexer) -> tuple[SessionMemories, SessionViews]:
    memories = SessionMemories(
        ttl_s=config.scopes.session_ttl_minutes * 60.0, most=config.scopes.session_max_memories
    )
    return memories, SessionViews(memories, indexer)


def _configure_egress(egress: EgressGuard, state: State, governor: Governor, metrics: Metrics) -> None:
    refuse, record = partial(_pause_reason, state), partial(_record_egress, state, governor)
    egress.configure(refuse, governor.over_daily_limit, record, metrics)


def _make_capture_service(  # noqa: PLR0917 - parts of one daemon
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
) -> CaptureService:
    promotion = Promotion(user_top(env), config.scopes.min_importance, sessions)
    vectors = LocalVectors(models.embedder) if models.embedder is not None else None
    return CaptureService(
        settings=msgspec.structs.replace(
            models.worker, log=log_settings(env), has_vectors=vectors is not None
        ),
        state=state,
        governor=governor,
        metrics=metrics,
        rank=partial(nearest_memories.nearest, indexer=indexer, retriever=retriever),
        committer=Committer(indexer, writer, state, vectors, promotion=promotion),
        vectors=vectors,
        batch_turns=config.capture.batch_turns,
        off=capture_off(config),
        problem=models.no_classifier,
        health=models.healths.capture,
    )


async def _pause_reason(state: State, tops: tuple[str, ...]) -> str:
    """Wait for the state, and return why no text of these roots may be sent to a model (paused), or ""."""
    await state.wait_until_open()
    return state.pauses.reason(tops)


def _record_egress(state: State, governor: Governor, record: EgressRecord) -> None:
    """Record how much text an endpoint got; count calls and tokens unless a governed chat does."""
    state.egress.add(record)
    if record.purpose not in GOVERNED:
        counts = {"calls": record.calls, "failed": record.failed}
        governor.spend(record.purpose, **counts, prompt_tokens=record.tokens)
    elif record.tokens:  # of vectors in a probe; chat calls count their own
        governor.spend(record.purpose, prompt_tokens=record.tokens)


def log_settings(env: Mapping[str, str], level: str = "") -> LogSettings:
    """Return level, file and journal use of a child process's log; the level is ours by default."""
    level = level or logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
    return LogSettings(level, os.path.join(address.state_dir(env), LOG_NAME), "JOURNAL_STREAM" in env)


def user_top(env: Mapping[str, str]) -> str:
    """Return the real path of the user's home, the top of the user's memories."""
    return os.path.realpath(address.home(env))


def _make_maps(
    config: Config,
    models: Models,
    metrics: Metrics,
    governor: Governor,
    *,
    cache: ModelCache | None,
    trust: TrustRegistry,
    off: str,
) -> tuple[Indexer, Watcher]:
    indexer = Indexer(
        embedder=None if off else models.embedder,  # memory that is off may still be listed
        lexical=config.memory.retrieval_lexical_weight > 0 and not off,
        metrics=metrics,
        gated=config.min_score > 0,
        on_roots=lambda roots: watcher.set_roots(roots),  # noqa: PLW0108 - there is none yet
        model_cache=cache,
        over_limit=governor.over_daily_limit,
        refusal=models.egress.refusal,
        trust=trust,
        second=None if off else models.cjk,
    )
    watcher = Watcher(indexer.mark)
    return indexer, watcher


def _make_retriever(
    config: Config, models: Models, metrics: Metrics, governor: Governor, second: EmbeddingQueue | None
) -> Retriever:
    chat = models.chat if config.memory.retrieval_strategy != "direct" else None
    return Retriever(
        config,
        embedder=models.embedder,
        chat=GovernedChat(chat, governor, "hyde") if chat is not None else None,
        cjk=SecondModel(second) if second is not None else None,
        metrics=metrics,
    )
