"""Handlers of capture verbs: `capture`, `pause`, `dead`, `cost`, and the capture part of `status`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import cast

import msgspec

from forged import conversation
from forged.daemon.handlers.request_context import Context, Disabled
from forged.daemon.handlers.wire_types import fitting
from forged.errors import InvalidRequest
from forged.files import Root
from forged.memories import ids, removal, restore
from forged.memory import Scope
from forged.sessions import count_unreadable
from forged.state import DeadLetter, Kind
from forged.stores import Workplace
from forged.trust import elsewhere
from forged_client import protocol as wire

_COUNTED_AS = {"proposal": "proposals", "remove": "steps", "restore": "steps", "move": "steps"}
_MOST_DAYS = 90


async def capture(context: Context, place: Workplace, request: wire.Capture) -> wire.Captured:
    """Submit messages to capture; a compaction empties the injected sets, a session end ends the session."""
    daemon = context.daemon
    if place.off:
        daemon.metrics.captures_rejected += 1
        raise Disabled(place.off)
    session = daemon.sessions.open(request.agent, request.session_id)
    if request.kind == "compaction" and request.part == 0:
        session.empty_injected_sets()
    elif request.kind == "session_end" and request.part == 0:
        session.end()
    outcome = await daemon.sessions.capture(
        session,
        place,
        cast("Kind", request.kind),
        request.messages,
        summary=request.last_summary_index,
        event_id=request.event_id,
        part=request.part,
        parts=request.parts,
        begun=request.begun,
        goes_on=request.goes_on,
    )
    unread = count_unreadable(request.messages, request.last_summary_index)
    return wire.Captured(outcome=outcome.word, reason=outcome.reason, slices=outcome.slices, unread=unread)


async def pause(context: Context, request: wire.Pause) -> wire.Paused:
    """Pause or resume capture and injection in a repository or everywhere; a pause drops messages."""
    top = None
    if not request.everywhere:
        place = await context.daemon.resolver.resolve(request.workspace)
        top = next((root.top for root in place.roots if root.scope is Scope.REPO), None)
        if top is None:
            raise InvalidRequest("this folder is in no repository; `forgectl pause --all` pauses everywhere")
    await context.daemon.state.wait_until_open()
    await context.daemon.state.pauses.set(top, request.paused)
    if request.paused:
        context.daemon.sessions.drop_messages(top)
    context.daemon.capture.resume()
    context.daemon.indexer.mark_all()
    return wire.Paused(paused=context.daemon.state.pauses.listed())


async def dead(context: Context, request: wire.Dead) -> wire.DeadEvents:
    """List, show, drop or retry dead events; list, show or drop items that wait for a folder."""
    if request.action not in {"list", "show", "retry", "drop"}:
        raise InvalidRequest(f"unknown action {request.action[:64]!r}; use list, show, retry or drop")
    await context.daemon.state.wait_until_open()
    pipeline, events = context.daemon.capture, context.daemon.state.events
    if request.action == "retry":
        await pipeline.recheck_folders()
    given_up = {item.event.id: item for item in await events.dead()}
    others = {each.id: each for each in await items_waiting_for_folders(context)}
    wanted = (ids.resolve_prefix(given_up | others, each) or each for each in request.ids)
    listed = (*given_up, *others) if request.action == "list" else tuple(given_up)
    asked = tuple(dict.fromkeys(wanted)) or listed
    chosen = [given_up[event_id] for event_id in asked if event_id in given_up]
    missing = [event_id for event_id in asked if event_id not in given_up and event_id not in others]
    done, refused = [], dict[str, str]()
    for each in (others[event_id] for event_id in asked if event_id in others):
        if request.action == "retry":
            refused[each.id] = each.reason
        elif request.action != "drop" or await _drop_waiting(context, each.id):
            done.append(each if request.action == "show" else msgspec.structs.replace(each, text=""))
        else:
            missing.append(each.id)
    if request.action == "retry":
        refused |= await _folder_problems_of_dead(chosen)
        chosen = [item for item in chosen if item.event.id not in refused]
    for item in chosen:
        act = {"retry": pipeline.retry, "drop": events.drop}.get(request.action)
        if act is None or await act(item.event.id):
            done.append(_dead_event(item, with_text=request.action == "show"))
        else:
            missing.append(item.event.id)
    status = "ok" if done else "empty"
    return wire.DeadEvents(
        status=status,
        reason="; ".join(f"{event_id} waits: {why}" for event_id, why in refused.items()),
        events=fitting(done),
        missing=(*missing, *refused),
    )


async def items_waiting_for_folders(context: Context) -> tuple[wire.DeadEvent, ...]:
    """Return the events, proposals and unfinished verbs that wait for a missing folder."""
    daemon, found = context.daemon, list[tuple[wire.DeadEvent, Sequence[tuple[Root, str]]]]()
    for event in daemon.capture.waiting():
        shown = _dead_event(DeadLetter(event, "", "", event.size), with_text=True)
        found.append((shown, daemon.state.events.stored_roots(event)))
    for each in daemon.state.to_review.of():
        shown = wire.DeadEvent(
            id=each.memory.id,
            kind="proposal",
            session_id=each.memory.session_id,
            received_at=each.memory.created_at,
            text=each.memory.content,
        )
        found.append((shown, [(each.root, each.identity)]))
    for intent in daemon.state.intents.values():
        shown = wire.DeadEvent(id=intent.key, kind=intent.kind)
        found.append((shown, restore.roots_of(intent)))
    gone = await asyncio.to_thread(elsewhere, [pair for _, pairs in found for pair in pairs])
    waiting = ((shown, next((pair for pair in pairs if pair in gone), None)) for shown, pairs in found)
    return tuple(
        msgspec.structs.replace(shown, root=pair[0].top, reason=gone[pair], waits=True)
        for shown, pair in waiting
        if pair is not None
    )


async def _folder_problems_of_dead(items: Sequence[DeadLetter]) -> dict[str, str]:
    """Return the reasons why dead events cannot be retried now, by id: their folders are missing."""
    pairs = {item.event.id: [*item.event.stored_roots, *_document_roots(item)] for item in items}
    gone = await asyncio.to_thread(elsewhere, [pair for each in pairs.values() for pair in each])
    reasons = ((event_id, [gone[pair] for pair in each if pair in gone]) for event_id, each in pairs.items())
    return {event_id: why[0] for event_id, why in reasons if why}


def _document_roots(item: DeadLetter) -> list[tuple[Root, str]]:
    """Return the roots of the memories decided for a dead event, each with its stored identity."""
    return [(each.root, each.identity) for each in item.documents or ()]


async def _drop_waiting(context: Context, waiting_id: str) -> bool:
    """Drop an event, proposal or unfinished verb that waits for its folder; False if there is none."""
    state = context.daemon.state
    if await context.daemon.capture.drop(waiting_id):
        return True
    if waiting_id in state.intents:
        await state.intents.drop(waiting_id)
        return True
    waiting = [each for each in state.to_review.of() if each.memory.id == waiting_id]
    await removal.drop_proposals(context.daemon.memories, waiting)
    return bool(waiting)


def _dead_event(item: DeadLetter, *, with_text: bool) -> wire.DeadEvent:
    """Return a dead event as a wire record, with the text of its conversation if asked."""
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
    """Return the models' calls and tokens by day, newest first, with today's total and the limits."""
    governor = context.daemon.governor
    return wire.Costs(
        days=governor.days(min(max(request.days, 1), _MOST_DAYS)),
        tokens_today=governor.tokens_today,
        token_limit=context.daemon.config.memory.daily_token_limit,
        calls_per_minute=governor.calls_per_minute,
        resets_at=governor.resets_at,
    )


async def egress(context: Context, request: wire.Egress) -> wire.EgressReport:
    """Return how much text was sent to each host, by day and purpose, newest day first."""
    return wire.EgressReport(days=context.daemon.state.egress.days(min(max(request.days, 1), _MOST_DAYS)))


async def capture_report(context: Context) -> wire.CaptureReport:
    """Report the state, counts, limits and problems of capture, for `status`."""
    daemon, metrics = context.daemon, context.daemon.metrics
    return msgspec.structs.replace(
        daemon.capture.report(),
        classifier=daemon.about.classifier,
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
        doubt=daemon.state.pauses.doubt,
        said_again=metrics.captures_said_again,
        to_review=len(daemon.state.to_review.of()),
        elsewhere=_counts_by_root(await items_waiting_for_folders(context)),
    )


def _counts_by_root(waiting: Sequence[wire.DeadEvent]) -> tuple[wire.WaitsElsewhere, ...]:
    """Return how many events, proposals and steps wait for each missing root, with the reason."""
    reasons = {each.root: each.reason for each in waiting}
    counts = Counter((each.root, _COUNTED_AS.get(each.kind, "events")) for each in waiting)
    return tuple(
        wire.WaitsElsewhere(
            root=root,
            reason=reasons[root].removeprefix(f"{root}: "),
            events=counts[root, "events"],
            proposals=counts[root, "proposals"],
            steps=counts[root, "steps"],
        )
        for root in sorted(reasons)
    )
