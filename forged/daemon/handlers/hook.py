"""`hook`: an event of a harness, made of what every session has: a turn, a capture, an end.

A session that ends may be resumed with all of it in context; after a compaction and `/clear` it has not.
After a compaction memories come at once, where the harness takes them, because no prompt may follow. A
harness that is `unsure` tells of compactions that never come, so its injected set stays until one surely
came. An unknown prompt is looked for in what the harness wrote; a turn without one is counted and not
captured. While memory is off or paused nothing is kept. A failure is logged; the harness hears nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from forged import __version__
from forged.conversation import Utterance
from forged.daemon.handlers.request_context import Context, Disabled
from forged.daemon.handlers.retrieve import answered, deadline_of, outcome
from forged.errors import ForgedError, InvalidRequest, WorkspaceError
from forged.hooks import HookEvent, event_of, output, takes_context
from forged.sessions import Session, Turn
from forged.state import Kind
from forged.stores import Workplace
from forged.text import tokens
from forged.text.harnesses import HOOKS, EventKind, Hooks
from forged.text.local_time import day_of
from forged.transcripts import FORMATS, TranscriptError, read_tail
from forged_client import protocol as wire

logger = logging.getLogger(__name__)

# Of a file in which a harness writes down what is said: the newest turn, with all that its tools printed.
_TAIL_BYTES = 4 << 20
_FAILURES = frozenset({"timeout", "error"})


class _Happened(msgspec.Struct, frozen=True):
    context: Context
    request: wire.Hook
    row: Hooks
    event: HookEvent
    session: Session
    place: Workplace


async def hook(context: Context, request: wire.Hook) -> wire.Hooked:
    row = HOOKS.get(request.harness)
    if row is None:
        raise InvalidRequest(f"unknown harness {request.harness[:64]!r}; use one of {', '.join(HOOKS)}")
    agents, name = context.daemon.state.agents, ""
    try:
        event = event_of(request.payload, row)
        if event is None:
            agents.count(row.called, skipped=1)
            return wire.Hooked(reason="passed over")
        name = event.name
        agents.saw(row.called, name, event.version)
        printed = await _ANSWERS[event.kind](await _happened(context, request, row, event))
    except Disabled as off:
        told_once = _trouble(context, row, event) if event is not None else b""
        return wire.Hooked(status="disabled", reason=str(off), output=told_once)
    except ForgedError as error:
        logger.warning("hook failed agent=%s event=%s error=%s", row.called, name, error)
        agents.failed(row.called, f"{name}: {error}" if name else str(error))
        return wire.Hooked(status="error", reason=str(error))
    return wire.Hooked(output=printed)


async def _happened(context: Context, request: wire.Hook, row: Hooks, event: HookEvent) -> _Happened:
    """Find session and workspace, that of the prompt. Raises Disabled, and drops messages, if off."""
    daemon = context.daemon
    session = daemon.sessions.open(event.agent, event.session_id)
    if (known := session.messages) is not None:
        session.hold(known)
    workspace = event.workspace if known is None or event.kind == "prompt" else known.workspace
    if request.version and event.workspace not in request.seen and os.path.isabs(event.workspace):
        raise InvalidRequest(f"the hook did not say which folder {event.workspace!r} is for it")
    named = {event.workspace, workspace} & request.seen.keys()
    await daemon.resolver.check_paths({path: request.seen[path] for path in named})
    try:
        place = await daemon.resolver.resolve(workspace)
    except WorkspaceError:
        if known is None or event.kind == "prompt":
            raise
        place = known.place  # the folder is gone, as a linked worktree is; its repository need not be
    await daemon.state.opened(place.settings.retrieval_timeout_s)
    if off := daemon.disabled or place.off or daemon.state.pauses.reason(place.tops):
        session.empty(place.tops)
        if event.prompt:
            session.silenced = hash(event.prompt)
        await daemon.sessions.hand_over()
        raise Disabled(off)
    return _Happened(context, request, row, event, session, place)


def _trouble(context: Context, row: Hooks, event: HookEvent) -> bytes:
    """Tell the person of a session, once, why memory is off where nobody switched it off or paused."""
    daemon = context.daemon
    why = "" if daemon.disabled else daemon.state.trouble
    session = daemon.sessions.open(event.agent, event.session_id)
    is_told = why and takes_context(event, row) and session.is_first_notice(why)
    return output(event, row, "", [f"forged: memory does not work now: {why}"]) if is_told else b""


async def _start(happened: _Happened) -> bytes:
    context, event = happened.context, happened.event
    for root in happened.place.roots:  # what is asked next is being read by then
        context.daemon.indexer.open(root)
    resolver = context.daemon.resolver
    place = await resolver.with_others(happened.place, agent=event.agent, session_id=event.session_id)
    for each in place.others:
        each.maps()
    if event.parent and event.parent != event.session_id:
        happened.session.fork(event.parent)
    return b""


async def _prompt(happened: _Happened) -> bytes:
    event, session, daemon = happened.event, happened.session, happened.context.daemon
    held = daemon.sessions.buffer
    messages = session.begin(event.workspace, happened.place, headless=happened.request.headless)
    daemon.state.agents.count(event.agent, turns=1)
    if held.is_full and messages.waits:
        await _capture(happened, "turn")
        held.early += not messages.refusal
    is_open = session.add_prompt(event)
    await daemon.sessions.hand_over()
    return await _injected(happened) if is_open else b""


async def _turn_end(happened: _Happened) -> bytes:
    event, session, sessions = happened.event, happened.session, happened.context.daemon.sessions
    is_silenced = session.is_silenced(event.prompt)
    if session.messages is not None or is_silenced:
        is_known = not is_silenced and session.add_reply(event)
    elif is_known := await _is_taken_up(happened):
        await sessions.hand_over()
    if is_known:
        await _capture(happened, "turn")
    else:
        happened.context.daemon.state.agents.count(event.agent, unknown=1)
    return b""


async def _is_taken_up(happened: _Happened) -> bool:
    """Return True for a found prompt, not from before something was forgotten or a pause began or ended."""
    event, daemon = happened.event, happened.context.daemon
    seen, path = happened.request.seen, event.transcript_path
    written: tuple[Utterance, ...] = ()
    asked_at = 0.0
    if path in seen or not seen:  # else it was not there for the hook
        await daemon.resolver.check_paths({path: seen[path]} if seen else {})
        written, asked_at = await asyncio.to_thread(_written, happened)
    if 0 < asked_at <= daemon.state.silenced_at:
        return False
    headless = happened.request.headless
    return happened.session.take_up(event, happened.place, written, asked_at, headless=headless)


def _written(happened: _Happened) -> tuple[tuple[Utterance, ...], float]:
    """Return what the harness wrote near the session's end, and when its newest prompt was sent.

    Nothing unless that was before the daemon began: a later one was paused, forgotten or private. A prompt
    that the turn's end says has to be the newest.
    """
    event, daemon = happened.event, happened.context.daemon
    if not event.transcript_path or event.agent not in FORMATS:
        return (), 0.0
    home = FORMATS[event.agent].home({}, daemon.resolver.home)
    try:
        found = read_tail(event.transcript_path, event.agent, _TAIL_BYTES, home=home)
    except TranscriptError:
        return (), 0.0
    said = zip(found.messages, found.times, strict=True)
    prompt, at = next(((each.text, at) for each, at in reversed([*said]) if each.role == "user"), ("", 0.0))
    is_older = 0 < at < daemon.sessions.buffer.began and (not event.prompt or prompt in event.prompt)
    is_meant = found.session_id == event.session_id and not found.hides_prompt
    return (found.messages, at) if is_older and is_meant else ((), 0.0)


async def _compaction(happened: _Happened) -> bytes:
    """Have all messages judged, as far as a compaction is sure to come."""
    messages, is_unsure = happened.session.messages, happened.row.unsure
    if messages is None or (is_unsure and not messages.is_grown):
        return b""
    await _capture(happened, "compaction")
    return await _compacted(happened) if is_unsure else b""


async def _compacted(happened: _Happened) -> bytes:
    await _capture(happened, "compaction")
    happened.session.compacted()
    return await _injected(happened)


async def _session_end(happened: _Happened) -> bytes:
    await _capture(happened, "session_end")
    happened.session.end(may_resume=happened.event.kind == "session_end")
    return b""


_ANSWERS: Mapping[EventKind, Callable[[_Happened], Awaitable[bytes]]] = {
    "session_start": _start,
    "prompt": _prompt,
    "turn_end": _turn_end,
    "compaction": _compaction,
    "compacted": _compacted,
    "cleared": _session_end,
    "session_end": _session_end,
}


async def _injected(happened: _Happened) -> bytes:
    """Answer the newest prompt: the text for the model, and lines for the person."""
    event, row, messages = happened.event, happened.row, happened.session.messages
    if messages is None or not messages.messages or not takes_context(event, row):
        return b""
    context = Context(happened.context.daemon, time.monotonic())
    resolver = context.daemon.resolver
    place = await resolver.with_others(happened.place, agent=event.agent, session_id=event.session_id)
    turn = Turn(
        happened.session,
        place,
        turn_id=messages.turn_id,
        messages=messages.newest,
        mode="append",
        compacts=row.compacts,
        deadline=deadline_of(context, happened.request.within_ms / 1000 or None, place),
    )
    budget = turn.budget(_budget(place.settings.injection_token_budget, row))
    notice = await answered(context, happened.request, turn, budget)
    reply = turn.composed
    status, reason = outcome(reply.answer, reply.block.included)
    if status in _FAILURES:
        _failed(happened, f"{status}: {reason}")
    lines = [line for line in (*turn.sentences, notice, _skew(happened)) if line]
    return output(event, row, reply.block.text, [f"forged: {line}" for line in lines])


def _budget(configured: int, row: Hooks) -> int:
    """Tokens that the harness takes without cutting: a character has a byte at least."""
    most = row.most_characters // tokens.BYTES_PER_TOKEN
    return min(configured, most) if configured > 0 else most


def _skew(happened: _Happened) -> str:
    """Tell a person, once, where the daemon and the program that asks it have other versions."""
    theirs = happened.request.version
    if not theirs or theirs == __version__ or not happened.session.is_first_notice("version"):
        return ""
    return f"the daemon is version {__version__}, its hook {theirs[:32]}: `forgectl restart` fixes that"


async def _capture(happened: _Happened, kind: Kind) -> None:
    """Hand over new messages; what is refused goes with the next that is not."""
    if (messages := happened.session.messages) is not None:
        await happened.context.daemon.sessions.capture_new(messages, kind, happened.place)
        if messages.refusal:
            _failed(happened, messages.refusal)


def _failed(happened: _Happened, why: str) -> None:
    event = happened.event
    logger.warning("hook failed agent=%s event=%s error=%s", event.agent, event.name, why)
    happened.context.daemon.state.agents.failed(event.agent, f"{event.name}: {why}")


def reports(context: Context) -> tuple[wire.AgentReport, ...]:
    """What every agent's hooks have told, and what came of it, for `status`."""
    state = context.daemon.state
    today = state.agents.today
    kept = Counter(
        each.agent for each in state.capture_log.listed() if each.memory_id and day_of(each.at) == today
    )
    injected: Counter[str] = Counter()
    for turn in state.injections.listed():
        injected[turn.agent] += len(turn.memories) if day_of(turn.at) == today else 0
    return tuple(
        wire.AgentReport(
            agent=agent,
            last_event=known.last_event,
            last_event_at=known.last_event_at,
            version=known.version,
            turns=known.turns if day == today else 0,
            injected_today=injected[agent],
            kept_today=kept[agent],
            failed_today=known.failed if day == today else 0,
            last_failure=known.last_failure,
            last_failure_at=known.last_failure_at,
        )
        for agent, day, known in state.agents.newest()
    )
