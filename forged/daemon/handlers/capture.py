"""The verbs of capture: `capture`, `undo`, `pause`, `dead`, `cost`, and its part of `status`."""

from __future__ import annotations

import sys
from typing import get_args

import msgspec

from forged import conversation
from forged.capture import Spoken
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import BY_HAND, fitting, token_of
from forged.daemon.handlers.details import full_record
from forged.daemon.handlers.heard import heard, unreadable
from forged.daemon.handlers.memories import put_away
from forged.daemon.handlers.naming import begun_by
from forged.daemon.handlers.refusals import Disabled, InvalidRequest, NotReady
from forged.daemon.handlers.responses import remember_response
from forged.map import VectorMap
from forged.maps import RootIndex
from forged.memory import Memory, Origin, Scope, Trigger, time_ns
from forged.retrieval import FIRST_BUILD
from forged.scopes import View, Workplace
from forged.state import DeadEvent, Kind
from forged.writing import Taking, new_batch
from forged_client import protocol as wire

# Past sessions have a verb of their own.
_KINDS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "learned")
_CAPTURED = frozenset({Trigger.CADENCE, Trigger.COMPACTION})
_MOST_DAYS = 90
_MOST_NAME = 256


async def capture(context: Context, place: Workplace, request: wire.Capture) -> wire.Captured:
    """Take a finished turn for the worker; the outcome is a word that says what is promised.

    After a compaction and at its end a session has nothing in context of what it has heard.
    """
    if request.kind in ("compaction", "session_end") and request.part == 0 and not place.off:
        state, ends = context.daemon.state, context.daemon.sessions.end
        ends(state, request.session_id, request.agent, compacts=request.kind == "compaction")
    answer = await keep(context, place, request)
    if request.kind == "session_end":
        context.daemon.session_memories.end(request.session_id)
    return answer


async def keep(context: Context, place: Workplace, request: wire.Capture) -> wire.Captured:
    """The same of a session that has still in context what it has heard."""
    metrics = context.daemon.metrics
    if place.off:
        metrics.captures_rejected += 1
        raise Disabled(place.off)
    kind = next((known for known in _KINDS if known == request.kind), None)
    if kind is None:
        raise InvalidRequest(f"unknown kind {request.kind[:64]!r}; use one of {', '.join(_KINDS)}")
    said, echoes, _ = msgspec.structs.astuple(await heard(request.messages, request.last_summary_index))
    spoken = Spoken(
        kind=kind,
        session_id=request.session_id[:_MOST_NAME],
        roots=place.roots,
        said=said,
        injected=context.daemon.retriever.turns.injected(request.session_id, place.tops),
        event_id=request.event_id,
        part=request.part,
        parts=request.parts,
        begun=request.begun,
        goes_on=request.goes_on,
        agent=request.agent[:_MOST_NAME],
    )
    outcome = await context.daemon.capture.hear(spoken)
    metrics.echoes_removed += echoes
    if outcome.word != "rejected":
        await remember_response(context.daemon, place, spoken)
    unread = unreadable(request.messages, request.last_summary_index)
    return wire.Captured(outcome=outcome.word, reason=outcome.reason, slices=outcome.slices, unread=unread)


async def undo(
    context: Context, place: Workplace, request: wire.Undo
) -> wire.Undone | tuple[wire.Undone, int]:
    """Take back the newest captured batch: the files that one event left, all written at one moment."""
    view = await context.view(place, token_of(context.daemon.epoch, sys.maxsize // 2))
    if view.waiting:  # a newer batch may lie where nothing was read yet
        raise NotReady(FIRST_BUILD)
    batch = _newest_batch(view, request.session_id)
    told = fitting([full_record(context, *item) for item in batch])
    if request.ids and set(request.ids) != {found.id for _, found in batch}:
        raise InvalidRequest("something else was captured meanwhile; look at the newest batch again")
    if not batch or request.preview:
        reason = "" if batch else "nothing that was captured is left to take back"
        return wire.Undone(status="ok" if batch else "empty", reason=reason, memories=told)
    taking = Taking(why="undo", batch=new_batch())
    gone = [
        await put_away(context, _index(context, place, home), ids, taking, purge=False)
        for home in view.maps
        if (ids := tuple(found.id for m, found in batch if m is home))
    ]
    context.daemon.metrics.undone += len(batch)
    receipt, _, generation = gone[-1]
    return wire.Undone(memories=told, trash=receipt.trash), generation


def _newest_batch(view: View, session_id: str) -> list[tuple[VectorMap, Memory]]:
    """What one event left and still stands; a memory that was replaced later is its successor's to keep.

    Without it the chain would break, and what it had replaced would count as true again.
    """
    standing = [
        (home, found)
        for home in view.maps
        for found in home.memories
        if _was_captured(found)
        and (not session_id or found.session_id == session_id)
        and (head := home.find(home.chains.head(found.id))) is not None
        and _batch(head) == _batch(found)
    ]
    newest = max(standing, key=lambda item: (time_ns(item[1].created_at), item[1].id), default=None)
    return [item for item in standing if newest is not None and _batch(item[1]) == _batch(newest[1])]


def _was_captured(found: Memory) -> bool:
    """Whether it came out of a conversation; what a person or a program remembered is theirs to forget."""
    if found.trigger == Trigger.EXPLICIT:
        return found.origin == Origin.EXPLICIT and found.session_id != BY_HAND
    return found.trigger in _CAPTURED


def _batch(found: Memory) -> tuple[str, str]:
    return found.session_id, found.created_at


def _index(context: Context, place: Workplace, home: VectorMap) -> RootIndex:
    return context.daemon.indexer.open(next(root for root in place.roots if root.top == home.root))


async def pause(context: Context, request: wire.Pause) -> wire.Paused:
    """Stop or resume capture and injection, of the workspace's repo or everywhere; it outlives restarts."""
    top = None
    if not request.everywhere:
        place = await context.daemon.resolver.resolve(request.workspace)
        top = next((root.top for root in place.roots if root.scope is Scope.REPO), None)
        if top is None:
            raise InvalidRequest("this workspace has no repository root; pause everything instead (--all)")
    await context.daemon.state.opened()
    await context.daemon.state.pauses.set(top, request.paused)
    if request.paused:
        context.daemon.talks.clear(top)
    context.daemon.capture.resumed()
    context.daemon.indexer.mark_all()
    return wire.Paused(paused=context.daemon.state.pauses.listed())


async def dead(context: Context, request: wire.Dead) -> wire.DeadEvents:
    """List, show, retry or drop events that were given up."""
    if request.action not in {"list", "show", "retry", "drop"}:
        raise InvalidRequest(f"unknown action {request.action[:64]!r}; use list, show, retry or drop")
    pipeline, events = context.daemon.capture, context.daemon.state.events
    given_up = {item.event.id: item for item in await events.dead()}
    wanted = (begun_by(given_up, each) or each for each in request.ids)
    asked = tuple(dict.fromkeys(wanted)) or tuple(given_up)
    chosen = [given_up[event_id] for event_id in asked if event_id in given_up]
    missing = [event_id for event_id in asked if event_id not in given_up]
    done = []
    for item in chosen:
        act = {"retry": pipeline.retry, "drop": events.drop}.get(request.action)
        if act is None or await act(item.event.id):
            done.append(_dead_event(item, with_text=request.action == "show"))
        else:
            missing.append(item.event.id)
    status = "ok" if done else "empty"
    return wire.DeadEvents(status=status, events=fitting(done), missing=tuple(missing))


def _dead_event(item: DeadEvent, *, with_text: bool) -> wire.DeadEvent:
    event = item.event
    return wire.DeadEvent(
        id=event.id,
        kind=event.kind,
        session_id=event.session_id,
        root=event.roots[0].top if event.roots else "",
        received_at=event.received_at,
        died_at=item.died_at,
        reason=item.reason,
        bytes=item.bytes,
        text=conversation.as_text(event.window) if with_text else "",
    )


async def cost(context: Context, request: wire.Cost) -> wire.Costs:
    """What model calls have cost, newest day first."""
    governor, config = context.daemon.governor, context.daemon.config
    days = governor.days(min(max(request.days, 1), _MOST_DAYS))
    return wire.Costs(
        days=tuple(
            wire.DayCost(**msgspec.structs.asdict(day), said_tokens=governor.said(day.day, day.purpose))
            for day in days
        ),
        tokens_today=governor.tokens_today,
        token_limit=config.memory.daily_token_limit,
        calls_per_minute=config.llm.calls_per_minute,
        resets_at=governor.resets_at,
    )


async def outbound(context: Context, request: wire.Outbound) -> wire.Departed:
    """What left for endpoints, newest day first."""
    days = context.daemon.state.outbound.days(min(max(request.days, 1), _MOST_DAYS))
    return wire.Departed(days=tuple(wire.DayOutbound(*msgspec.structs.astuple(day)) for day in days))


def report(context: Context) -> wire.CaptureReport:
    """Capture's part of status."""
    daemon, metrics = context.daemon, context.daemon.metrics
    return wire.CaptureReport(
        classifier=daemon.about.classifier,
        **msgspec.structs.asdict(daemon.capture.state()),
        finished=metrics.captures_finished,
        memories=metrics.captured,
        accepted=metrics.captures_accepted,
        coalesced=metrics.captures_coalesced,
        durable=metrics.captures_durable,
        rejected=metrics.captures_rejected,
        replaced=metrics.captures_replaced,
        duplicates=metrics.capture_duplicates,
        invalid=metrics.capture_invalid,
        redacted=metrics.secrets_redacted,
        failures=metrics.capture_failures,
        tokens_today=daemon.governor.tokens_today,
        token_limit=daemon.config.memory.daily_token_limit,
        paused=daemon.state.pauses.listed(),
        said_again=metrics.captures_said_again,
        to_review=len(daemon.state.to_review.of()),
    )
