"""The verbs about the daemon itself: `hello`, `status`, `rebuild` and the stream of `events`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from forged import __version__
from forged.daemon.handlers import capturing
from forged.daemon.handlers.context import Context, Daemon
from forged.map.view import View
from forged.maps.indexer import Event
from forged.maps.root_index import RootIndex
from forged_client import protocol as wire

_PROBLEMS_SHOWN = 1000
_REBUILD_PATIENCE_S = 600.0
_EVENTS_WAITING = 1024


def hello(context: Context, request: wire.Hello) -> wire.Reply:
    if not request.protocol_min <= wire.PROTOCOL_VERSION <= request.protocol_max:
        message = (
            f"this daemon speaks protocol {wire.PROTOCOL_VERSION}, the client {request.protocol_min} to "
            f"{request.protocol_max}; upgrade the older of the two"
        )
        return wire.Failed(
            id=request.id, status="error", reason=message, code="protocol_mismatch", message=message
        )
    return wire.Welcome(id=request.id, version=__version__, pid=os.getpid(), epoch=context.daemon.epoch)


def status(context: Context, request: wire.Status) -> wire.StatusReport:
    """Everything a person needs to see that memory works, or why not."""
    daemon = context.daemon
    warnings = daemon.warnings + daemon.state.warnings
    if request.workspace:
        place = context.workplace(request.workspace)
        warnings += place.warnings
        if place.off and daemon.config.memory.enabled:
            warnings += ("this repository's .forge/config.toml switches memory off here",)
        elif paused := daemon.state.pauses.reason(place.tops):
            warnings += (f"here: {paused}",)
        if not daemon.disabled and not place.off:
            for root in place.roots:
                daemon.indexer.open(root)
    reports = tuple(_report(context, index) for index in daemon.indexer.indexes())
    captured = capturing.report(context)
    return wire.StatusReport(
        id=request.id,
        reason=daemon.disabled,
        state=_health(daemon, reports, captured),
        version=__version__,
        pid=os.getpid(),
        epoch=daemon.epoch,
        uptime_s=round(time.monotonic() - daemon.started_at, 3),
        socket=daemon.socket,
        strategy=daemon.config.memory.retrieval_strategy,
        embedding_model=daemon.embedding_model,
        retrieval_model=daemon.config.memory.retrieval_model,
        roots=reports,
        connections=daemon.connections(),
        counters=msgspec.structs.asdict(daemon.metrics),
        warnings=warnings,
        capture=captured,
        gate=_gate(daemon),
        settings=tuple(wire.SettingReport(each.key, each.value, each.origin) for each in daemon.settings),
    )


def _gate(daemon: Daemon) -> wire.GateReport:
    state, reason = daemon.indexer.gate
    return wire.GateReport(state="off") if daemon.disabled else wire.GateReport(state=state, reason=reason)


def _health(daemon: Daemon, reports: Sequence[wire.RootReport], captured: wire.CaptureReport) -> str:
    if daemon.disabled:
        return "disabled"
    broken = any(report.last_error or report.problems for report in reports)
    stuck = captured.state == "failing" or (captured.state == "waiting" and bool(captured.reason))
    broken = broken or stuck or bool(captured.last_error or captured.dead)
    return "degraded" if broken or daemon.watch_state().startswith(("polling", "restarting")) else "ok"


def _report(context: Context, index: RootIndex) -> wire.RootReport:
    progress, problems = index.progress, index.builder.problems
    return wire.RootReport(
        root=index.root.top,
        scope=index.root.scope,
        state=progress.state,
        memories=len(index.map.memories) if index.map is not None else 0,
        generation=context.token(index.visible),
        legs=View((index.map,)).legs if index.map is not None else (),
        problems=tuple(wire.FileProblem(p.path, p.reason) for p in problems[:_PROBLEMS_SHOWN]),
        quarantined=len(index.builder.quarantined),
        embedded=progress.embedded,
        to_embed=progress.to_embed,
        build_ms=round(progress.build_ms, 3),
        built_age_s=round(time.monotonic() - progress.built_at, 3) if progress.built_at else 0.0,
        last_error=progress.error,
        watch=context.daemon.watch_state(),
        watches=context.daemon.watch_count(index.root.top),
    )


async def rebuild(context: Context, request: wire.Rebuild) -> wire.Rebuilt:
    """Rescan; with `full` embed everything anew, with `wait` answer when it is done or has failed."""
    if await context.daemon.reload():
        return wire.Rebuilt(id=request.id, status="not_ready", reason=wire.RELOADING)
    place = context.workplace(request.workspace)
    if place.off:
        return wire.Rebuilt(id=request.id, status="disabled", reason=place.off)
    indexes = [context.daemon.indexer.open(root) for root in place.roots]
    context.daemon.indexer.end_silence()
    for index in indexes:
        if request.full:
            context.daemon.indexer.forget_vectors(index)
        index.builder.retry_quarantined()
    goals = [index.mark() for index in indexes]
    if request.wait:
        deadline = time.monotonic() + _REBUILD_PATIENCE_S
        waits = (i.reach(goal, deadline, whole=True) for i, goal in zip(indexes, goals, strict=True))
        await asyncio.gather(*waits)
    failed = next((index.progress.error for index in indexes if index.progress.error), "")
    done = all(index.has(goal, whole=True) for index, goal in zip(indexes, goals, strict=True))
    return wire.Rebuilt(
        id=request.id,
        status="error" if request.wait and failed else "ok" if done else "not_ready",
        reason=failed if request.wait else "" if done else "the build is running",
        generation=context.token(max(goals)),
        roots=tuple(_report(context, index) for index in indexes),
    )


async def events(context: Context, request: wire.Events) -> AsyncIterator[wire.Progress]:
    """Progress of every build that the workspace can see, until the caller stops listening."""
    tops = context.workplace(request.workspace).tops if request.workspace else None
    waiting: asyncio.Queue[Event] = asyncio.Queue(_EVENTS_WAITING)

    def heard(event: Event) -> None:
        if (tops is None or event.root in tops) and not waiting.full():
            waiting.put_nowait(event)

    stop = context.daemon.indexer.listen(heard)
    try:
        while True:
            event = await waiting.get()
            yield wire.Progress(
                id=request.id,
                event=event.kind,
                root=event.root,
                done=event.done,
                total=event.total,
                generation=context.token(event.generation),
            )
    finally:
        stop()
