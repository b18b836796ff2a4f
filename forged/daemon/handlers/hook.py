"""Handler of `hook`: translate a harness's event into a turn, a capture or a session end.

A session that ends may be resumed with its full context; after a compaction or `/clear` it has lost it. After
a compaction memories are injected at once if the harness accepts them, because no prompt may follow. An
`unsure` harness announces compactions that may not happen, so its injected set stays until one is confirmed.
An unknown prompt is read from the harness's transcript; a turn without one is counted and not captured. While
memory is off or paused nothing is stored. A failure is logged and not passed to the harness.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from forged import __version__
from forged.conversation import Utterance
from forged.daemon.handlers.request_context import Context, Disabled
from forged.daemon.handlers.retrieve import answer_turn, deadline_of, outcome
from forged.errors import ForgedError, InvalidRequest, WorkspaceError
from forged.hooks import HookEvent, event_of, output, takes_context
from forged.memories import removal
from forged.sessions import Session, Turn
from forged.state import Kind
from forged.stores import Ranked, Workplace
from forged.text import tokens
from forged.text.harnesses import HOOKS, EventKind, Hooks
from forged.text.local_time import day_of
from forged.transcripts import FORMATS, TranscriptError, read_tail
from forged_client import protocol as wire

logger = logging.getLogger(__name__)

# Bytes read from the end of a transcript: the newest turn with all tool output.
_TAIL_BYTES = 4 << 20
# Seconds, and share of a hook's time, in which a memory is forgotten before the reply.
_OBEY_S, _OBEY_SHARE = 1.0, 0.5
_FAILURES = frozenset({"timeout", "error"})


class _HookCall(msgspec.Struct, frozen=True):
    """A harness's hook event with its request, harness, session and workplace."""

    context: Context
    request: wire.Hook
    row: Hooks
    event: HookEvent
    session: Session
    place: Workplace


async def hook(context: Context, request: wire.Hook) -> wire.Hooked:
    """Handle a harness's event; return output or failure. Raises InvalidRequest for an unknown harness."""
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
        agents.record_event(row.called, name, event.version)
        printed = await _ANSWERS[event.kind](await _resolve_call(context, request, row, event))
    except Disabled as off:
        notice = _trouble_notice(context, row, event) if event is not None else b""
        return wire.Hooked(status="disabled", reason=str(off), output=notice)
    except ForgedError as error:
        logger.warning("hook failed agent=%s event=%s error=%s", row.called, name, error)
        agents.record_failure(row.called, f"{name}: {error}" if name else str(error))
        return wire.Hooked(status="error", reason=str(error))
    return wire.Hooked(output=printed)


async def _resolve_call(context: Context, request: wire.Hook, row: Hooks, event: HookEvent) -> _HookCall:
    """Find a hook's session and workspace; if memory is off or paused, drop messages and raise Disabled."""
    daemon = context.daemon
    session = daemon.sessions.open(event.agent, event.session_id)
    if (known := session.messages) is not None:
        session.set_messages(known)
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
        place = known.place  # the folder is gone, such as a linked worktree, but maybe not its repository
    await daemon.state.wait_until_open(place.settings.retrieval_timeout_s)
    if off := daemon.disabled or place.off or daemon.state.pauses.reason(place.tops):
        session.drop_messages(place.tops)
        if event.prompt:
            session.silenced = hash(event.prompt)
        await daemon.sessions.hand_over()
        raise Disabled(off)
    return _HookCall(context, request, row, event, session, place)


def _trouble_notice(context: Context, row: Hooks, event: HookEvent) -> bytes:
    """Return the notice that memory does not work and why, once for each session; else b""."""
    daemon = context.daemon
    why = "" if daemon.disabled else daemon.state.trouble
    session = daemon.sessions.open(event.agent, event.session_id)
    is_due = why and takes_context(event, row) and session.is_first_notice(why)
    return output(event, row, "", [f"forged: memory does not work now: {why}"]) if is_due else b""


async def _session_start(call: _HookCall) -> bytes:
    """Open the roots of a new session, and copy its parent's injected sets; injects nothing."""
    context, event = call.context, call.event
    for root in call.place.roots:  # so that the next request finds it read
        context.daemon.indexer.open(root)
    resolver = context.daemon.resolver
    place = await resolver.with_others(call.place, agent=event.agent, session_id=event.session_id)
    for each in place.others:
        each.maps()
    if event.parent and event.parent != event.session_id:
        call.session.copy_injected_sets(event.parent)
    return b""


async def _prompt(call: _HookCall) -> bytes:
    """Add a prompt to its session, and inject memories for it unless all of it is private."""
    event, session, daemon = call.event, call.session, call.context.daemon
    held = daemon.sessions.buffer
    messages = session.messages_for(event.workspace, call.place, headless=call.request.headless)
    daemon.state.agents.count(event.agent, turns=1)
    if held.is_full and messages.has_waiting:
        await _capture_new(call, "turn")
        held.early += not messages.refusal
    is_open = session.add_prompt(event)
    await daemon.sessions.hand_over()
    return await _inject(call, await _obey(call)) if is_open else b""


async def _obey(call: _HookCall) -> tuple[Ranked, ...]:
    """Do what a prompt of an interactive session asks of the memory; return memories that it asks for."""
    daemon, messages = call.context.daemon, call.session.messages
    sessions, capture = daemon.sessions, daemon.capture
    if call.request.headless or messages is None or not messages.messages:
        return ()
    within_s = min(_OBEY_S, _OBEY_SHARE * (call.request.within_ms / 1000 or _OBEY_S))
    if (prompt := await sessions.prompt_of(call.session, call.place, messages.newest)) is None:
        return ()
    meant = await capture.obey(prompt, partial(removal.forget_as_said, daemon.memories), within_s)
    return tuple(Ranked(each, 0.0, found_by="search", root=root.top) for root, each in meant)


async def _turn_end(call: _HookCall) -> bytes:
    """Capture a finished turn; one with an unknown prompt is only counted."""
    event, session, sessions = call.event, call.session, call.context.daemon.sessions
    is_silenced = session.is_silenced(event.prompt)
    if session.messages is not None or is_silenced:
        is_known = not is_silenced and session.add_reply(event)
    elif is_known := await _resume_unseen_turn(call):
        await sessions.hand_over()
    if is_known:
        await _capture_new(call, "turn")
    else:
        call.context.daemon.state.agents.count(event.agent, unknown=1)
    return b""


async def _resume_unseen_turn(call: _HookCall) -> bool:
    """Resume an earlier daemon's turn; False if prompt is unknown, or before a pause or forget."""
    event, daemon = call.event, call.context.daemon
    seen, path = call.request.seen, event.transcript_path
    written: tuple[Utterance, ...] = ()
    asked_at = 0.0
    if path in seen or not seen:  # otherwise the hook could not see it
        await daemon.resolver.check_paths({path: seen[path]} if seen else {})
        written, asked_at = await asyncio.to_thread(_transcript_tail, call)
    if 0 < asked_at <= daemon.state.silenced_at:
        return False
    headless = call.request.headless
    return call.session.resume_turn(event, call.place, written, asked_at, headless=headless)


def _transcript_tail(call: _HookCall) -> tuple[tuple[Utterance, ...], float]:
    """Return a transcript's newest messages and its last prompt's time; nothing if not safe to use."""
    event, daemon = call.event, call.context.daemon
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


async def _compaction(call: _HookCall) -> bytes:
    """Capture before a compaction; from an `unsure` harness only if it is certain, then inject."""
    messages, is_unsure = call.session.messages, call.row.unsure
    if messages is None or (is_unsure and not messages.exceeds_context):
        return b""
    await _capture_new(call, "compaction")
    return await _compacted(call) if is_unsure else b""


async def _compacted(call: _HookCall) -> bytes:
    """After a compaction capture the messages, empty the injected sets, and inject memories."""
    await _capture_new(call, "compaction")
    call.session.empty_injected_sets()
    return await _inject(call)


async def _session_end(call: _HookCall) -> bytes:
    """Capture the rest of a session, and end it; one that was cleared cannot be resumed."""
    await _capture_new(call, "session_end")
    call.session.end(may_resume=call.event.kind == "session_end")
    return b""


_ANSWERS: Mapping[EventKind, Callable[[_HookCall], Awaitable[bytes]]] = {
    "session_start": _session_start,
    "prompt": _prompt,
    "turn_end": _turn_end,
    "compaction": _compaction,
    "compacted": _compacted,
    "cleared": _session_end,
    "session_end": _session_end,
}


async def _inject(call: _HookCall, recalled: tuple[Ranked, ...] = ()) -> bytes:
    """Return memories for the newest prompt and notices as output; b"" if the event takes none."""
    event, row, messages = call.event, call.row, call.session.messages
    if messages is None or not messages.messages or not takes_context(event, row):
        return b""
    context = Context(call.context.daemon, time.monotonic())
    resolver = context.daemon.resolver
    place = await resolver.with_others(call.place, agent=event.agent, session_id=event.session_id)
    turn = Turn(
        call.session,
        place,
        turn_id=messages.turn_id,
        messages=messages.newest,
        mode="append",
        compacts=row.compacts,
        deadline=deadline_of(context, call.request.within_ms / 1000 or None, place),
    )
    turn.recalled = recalled
    budget = turn.budget(_harness_budget(place.settings.injection_token_budget, row))
    notice = await answer_turn(context, call.request, turn, budget)
    reply = turn.composed
    status, reason = outcome(reply.answer, reply.block.included)
    if status in _FAILURES:
        _record_failure(call, f"{status}: {reason}")
    lines = [line for line in (*turn.sentences, notice, _version_notice(call)) if line]
    return output(event, row, reply.block.text, [f"forged: {line}" for line in lines])


def _harness_budget(configured: int, row: Hooks) -> int:
    """Return the token limit of an injection: the configured one, or less if the harness would cut it."""
    most = row.most_characters // tokens.BYTES_PER_TOKEN
    return min(configured, most) if configured > 0 else most


def _version_notice(call: _HookCall) -> str:
    """Return a notice, once for each session, if daemon and client have different versions."""
    theirs = call.request.version
    if not theirs or theirs == __version__ or not call.session.is_first_notice("version"):
        return ""
    return f"the daemon is version {__version__}, its hook {theirs[:32]}: `forgectl restart` fixes that"


async def _capture_new(call: _HookCall, kind: Kind) -> None:
    """Submit a session's new messages to capture; if it rejects them, record that and keep them."""
    if (messages := call.session.messages) is not None:
        await call.context.daemon.sessions.capture_new(messages, kind, call.place)
        if messages.refusal:
            _record_failure(call, messages.refusal)


def _record_failure(call: _HookCall, why: str) -> None:
    """Log a hook's failure, and record it for `status`."""
    event = call.event
    logger.warning("hook failed agent=%s event=%s error=%s", event.agent, event.name, why)
    call.context.daemon.state.agents.record_failure(event.agent, f"{event.name}: {why}")


def agent_reports(context: Context) -> tuple[wire.AgentReport, ...]:
    """Return the last events, failures and today's counts of every agent's hooks, for `status`."""
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
        for agent, day, known in state.agents.newest_days()
    )
