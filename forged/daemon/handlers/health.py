"""The verbs about the daemon itself: `hello`, `status`, `rebuild`, `try` and the stream of `events`.

A `rebuild` looks for a new configuration before the workspace: memory may have been off in the old one.
Raises WorkspaceError, ConfigError and Disabled.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from forged import __version__
from forged.config import Config
from forged.daemon.handlers import capture, hook, recall
from forged.daemon.handlers.request_context import Context, Daemon, Disabled, Probe
from forged.daemon.handlers.trust import trust_in_status
from forged.daemon.handlers.wire_types import token_of
from forged.errors import ProviderError
from forged.files import (
    Root,
    Watcher,
    non_memory_files,
    root_owned_files,
    unwatched_reason,
)
from forged.maps import BuildEvent, Indexer, RootIndex
from forged.stores import View
from forged_client import protocol as wire

_LONGEST_S = 30.0


async def try_all(context: Context, _: wire.Try) -> wire.Tried:
    """Make one test call to each model, in parallel; report the time or failure of each."""
    probes = context.daemon.probes
    return wire.Tried(trials=tuple(await asyncio.gather(*map(_try_model, probes))))


async def _try_model(probe: Probe) -> wire.Trial:
    """Make one test call to a model, of at most 30 s; report its time, or the reason of its failure."""
    health, started, failure = probe.health, time.monotonic(), None
    try:
        await probe.call(started + _LONGEST_S)
    except ProviderError as error:
        failure = error
    return wire.Trial(
        host=health.host,
        model=health.model,
        uses=health.uses,
        ok=failure is None,
        took_ms=round((time.monotonic() - started) * 1000, 1),
        reason=failure.reason if failure is not None else "",
        message=str(failure or ""),
    )


_PROBLEMS_SHOWN = 1000
_CUT_SHOWN = 10
_EVENTS_WAITING = 1024
_OPENS_S = 1.0


def hello(daemon: Daemon, request: wire.Hello) -> wire.Reply:
    """Greet a client with our version, or refuse one that speaks another protocol."""
    if not request.protocol_min <= wire.PROTOCOL_VERSION <= request.protocol_max:
        message = (
            f"this daemon speaks protocol {wire.PROTOCOL_VERSION}, the client {request.protocol_min} to "
            f"{request.protocol_max}; upgrade the older of the two"
        )
        return wire.Failed(status="error", reason=message, code="protocol_mismatch", message=message)
    return wire.Welcome(version=__version__, pid=os.getpid(), epoch=daemon.epoch, build=daemon.about.build)


async def status(context: Context, request: wire.Status) -> wire.StatusReport:
    """Report the state of every part, all roots and the caller's workspace: if memory works, or why not."""
    daemon, about, sharing = context.daemon, context.daemon.about, context.daemon.sharing
    state, indexer, refused, settings = (
        daemon.state,
        daemon.indexer,
        daemon.disk_refusals,
        daemon.config.memory,
    )
    await state.wait_until_open(_OPENS_S)  # else numbers of what waits would be too low
    await refused.try_again()
    identity = indexer.identity
    warnings = (
        about.warnings
        + about.lacking
        + state.warnings
        + daemon.sessions.buffer.warnings
        + await state.unexpected_files()
        + tuple(filter(None, [sharing.warning]))
    )
    embedder = identity.embedder if identity is not None else None
    if identity is not None:
        warnings += tuple(filter(None, (identity.notice, identity.embedder.engine_note)))
    tops = None
    here: tuple[str, ...] = ()
    if request.workspace:
        place = await context.daemon.resolver.resolve(request.workspace)
        warnings, tops = warnings + place.warnings, place.tops
        here = () if place.off else place.tops
        if place.off and settings.enabled:
            warnings += (wire.OFF_HERE,)
        elif not state.pauses.doubt and (paused := state.pauses.reason(place.tops)):
            warnings += (f"here: {paused}",)
        if not daemon.disabled and not place.off:
            for root in place.roots:
                indexer.open(root)
    reports = tuple([await _root_report(context, index) for index in indexer.indexes()])
    captured = await capture.capture_report(context)
    return wire.StatusReport(
        reason=daemon.disabled or state.trouble or refused.sentence,
        state=_daemon_state(
            daemon, [each for each in reports if tops is None or each.root in tops], captured
        ),
        version=__version__,
        build=about.build,
        pid=os.getpid(),
        epoch=daemon.epoch,
        uptime_s=round(time.monotonic() - about.started_at, 3),
        socket=about.socket,
        strategy=settings.retrieval_strategy,
        embedding_model=about.embedding_model,
        retrieval_model=settings.retrieval_model,
        roots=reports,
        connections=daemon.connections(),
        counters=msgspec.structs.asdict(daemon.metrics),
        warnings=warnings,
        capture=captured,
        gate=wire.GateReport(state="off") if daemon.disabled else _gate_report(indexer, daemon.config),
        settings=tuple(wire.SettingReport(each.key, each.value, each.origin) for each in about.settings),
        endpoints=tuple(health.report() for health in daemon.healths),
        engine=embedder.engine if embedder is not None else "",
        agents=hook.agent_reports(context),
        scopes=await recall.scope_reports(daemon.session_memories, daemon.config, daemon.resolver.home),
        shared=sharing.report(),
        here=here,
    )


def _gate_report(indexer: Indexer, config: Config) -> wire.GateReport:
    """Report the state of the gate for injections, with the reason if it is off or failing."""
    state, reason = indexer.learner.state
    return wire.GateReport(state=state, reason=_no_gate_reason(config) if state == "off" else reason)


def _no_gate_reason(config: Config) -> str:
    """Return the reason in the configuration why no gate holds memories back from injections."""
    chosen = config.memory.retrieval_min_score
    return config.ungated_reason if chosen is None else f"memory.retrieval_min_score is {chosen:g}"


def _daemon_state(daemon: Daemon, reports: Sequence[wire.RootReport], captured: wire.CaptureReport) -> str:
    """Return `disabled`, `degraded` if a part or a given root fails or loses data, or `ok`."""
    if daemon.disabled:
        return "disabled"
    broken = any(each.last_error or any(file.loses for file in each.problems) for each in reports)
    identity, about, refused, watcher, sharing = (
        daemon.indexer.identity,
        daemon.about,
        daemon.disk_refusals,
        daemon.watcher,
        daemon.sharing,
    )
    broken = broken or bool(about.lacking) or (identity is not None and identity.refusal is not None)
    stuck = captured.state == "failing" or (captured.state == "waiting" and bool(captured.reason))
    broken = broken or stuck or bool(daemon.state.trouble or refused.sentence)
    broken = broken or bool(captured.last_error or captured.dead or captured.elsewhere)
    # A model in use fails, or is skipped because it is too slow.
    broken = broken or any(each.report().state in {"failing", "slow"} for each in daemon.healths)
    broken = broken or sharing.is_failing
    return "degraded" if broken or watcher.state.startswith(("polling", "restarting")) else "ok"


def _watch_state(watcher: Watcher, root: Root) -> str:
    """Return how the watcher notices changes of a root, or why each write scans all its files."""
    state = watcher.state_of(root.top)
    if state == "inotify" and (why := unwatched_reason(root.directories)):
        return f"polling at each write, which scans all files: {why}"
    return state


async def _root_report(context: Context, index: RootIndex) -> wire.RootReport:
    """Report the memories, builds, problems, watching, trust and git handling of a root."""
    progress, cut = index.progress, index.builder.cut
    problems = sorted(index.builder.problems, key=lambda each: not each.loses)
    trust, notice = await trust_in_status(context, index)
    forks = tuple(index.map.chains.concurrent_heads) if index.map is not None else ()
    run, registry, watcher = index.run, context.daemon.trust, context.daemon.watcher
    others = await asyncio.to_thread(non_memory_files, index.root)
    return wire.RootReport(
        root=index.root.top,
        directory=index.root.directories[0],
        scope=index.root.scope,
        state=progress.state,
        memories=len(index.map.memories) if index.map is not None else 0,
        generation=token_of(context.daemon.epoch, index.generations.visible),
        indexes=View((index.map,)).indexes if index.map is not None else (),
        problems=tuple(wire.FileProblem(p.path, p.reason, p.loses) for p in problems[:_PROBLEMS_SHOWN]),
        quarantined=len(index.builder.quarantined),
        embedded=progress.embedded,
        to_embed=progress.to_embed,
        build_ms=round(progress.build_ms, 3),
        built_age_s=round(time.monotonic() - progress.built_at, 3) if progress.built_at else 0.0,
        last_error=progress.error,
        held=progress.held,
        watch=_watch_state(watcher, index.root),
        watches=watcher.watch_count_of(index.root.top),
        cut=len(cut),
        cut_ids=cut[:_CUT_SHOWN],
        withheld=len(index.builder.withheld),
        trust=trust,
        git=await asyncio.to_thread(registry.excluding.state_of, index.root),
        git_problem=await asyncio.to_thread(registry.excluding.problem_at, index.root),
        notice=notice,
        redacted=len(index.builder.redacted),
        redacted_ids=index.builder.redacted[:_CUT_SHOWN],
        forks=len(forks),
        fork_ids=forks[:_CUT_SHOWN],
        stale=sum(map(index.map.chains.is_head, index.builder.stale)) if index.map is not None else 0,
        rate=round(run.rate, 3) if run is not None else 0.0,
        left_s=run.left_s if run is not None else None,
        owner=await asyncio.to_thread(root_owned_files, index.root),
        no_memories=tuple(wire.FileProblem(each.path, each.reason) for each in others),
    )


async def rebuild(context: Context, request: wire.Rebuild) -> wire.Rebuilt | tuple[wire.Rebuilt, int]:
    """Reload a changed configuration, else rescan the workspace's roots; `full` embeds all texts anew."""
    indexer, pipeline = context.daemon.indexer, context.daemon.capture
    if await context.daemon.reload():
        return wire.Rebuilt(status="not_ready", reason=wire.RELOADING)
    place = await context.daemon.resolver.resolve(request.workspace)
    if place.off:
        raise Disabled(place.off)
    indexes = [indexer.open(root) for root in place.roots]
    for health in context.daemon.healths:
        health.reset()
    pipeline.resume()
    for index in indexes:
        if request.full:
            indexer.forget_vectors(index)
        index.builder.retry_quarantined()
    goals = [index.mark() for index in indexes]
    if request.wait:
        waits = (i.until_ended(goal) for i, goal in zip(indexes, goals, strict=True))
        await asyncio.gather(*waits)
    failed = next((index.progress.error for index in indexes if index.progress.error), "")
    held = next((index.progress.held for index in indexes if index.progress.held), "")
    done = all(index.has_ended(goal) for index, goal in zip(indexes, goals, strict=True))
    reply = wire.Rebuilt(
        status="error" if request.wait and failed else "ok" if done else "not_ready",
        reason=(failed or held) if request.wait else "" if done else "the build is running",
        roots=tuple([await _root_report(context, index) for index in indexes]),
    )
    return reply, max(goals)


async def events(daemon: Daemon, request: wire.Events) -> AsyncIterator[wire.Progress]:
    """Stream the progress of every build that the workspace can see, until the caller stops listening."""
    tops = (await daemon.resolver.resolve(request.workspace)).tops if request.workspace else None
    waiting: asyncio.Queue[BuildEvent] = asyncio.Queue(_EVENTS_WAITING)

    def enqueue(event: BuildEvent) -> None:
        if (tops is None or event.root in tops) and not waiting.full():
            waiting.put_nowait(event)

    indexer = daemon.indexer
    stop = indexer.events.listen(enqueue)
    try:
        while True:
            event = await waiting.get()
            yield wire.Progress(
                id=request.id,
                event=event.kind,
                root=event.root,
                done=event.done,
                total=event.total,
                rate=round(event.rate, 3),
                left_s=event.left_s,
                generation=token_of(daemon.epoch, event.generation),
            )
    finally:
        stop()
