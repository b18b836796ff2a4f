"""`hook`: what a harness tells its hooks, made of the verbs that every agent has.

A prompt is a `retrieve` in `append` mode; the end of a turn is captured with its prompt, before a compaction
all that was said since the last one is, and at the end of a session what is left. What a session has heard
is gone when a compaction is done, and after `/clear`; a session that ends may be taken up again, and then has
all of it in context. After a compaction that is done what belongs to the newest prompt is injected at once,
where the harness takes it, because no prompt may follow.

A harness that is `unsure` tells of compactions that never come: what it heard stays until the session has
grown to a size that surely was compacted. A prompt that this daemon has not heard, because it was started
since, is looked for in what the harness has written down; a turn without one is counted and not captured, as
the half of a turn would be taken for all of it. While memory is off or paused nothing is even remembered, nor
looked for afterwards. What waits of a session that is silent for an hour, goes on in other roots, or makes
room for another one is captured without its end, and so is all that waits when the daemon stops.
Of a run that its hook calls headless at most explicit requests are kept, for the repository.
What goes wrong is one line in the log, and the harness hears nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from forged import __version__
from forged.conversation import Utterance
from forged.daemon.handlers import capture
from forged.daemon.handlers.context import Context, Daemon
from forged.daemon.handlers.refusals import Disabled
from forged.daemon.handlers.talks import Talk
from forged.errors import ForgedError, InvalidRequest, WorkspaceError
from forged.hooks import HookEvent, event_of, output, takes_context
from forged.scopes import Workplace
from forged.text import tokens
from forged.text.harnesses import HOOKS, EventKind, Hooks
from forged.text.local_time import day_of
from forged.transcripts import FORMATS, TranscriptError, read_tail
from forged_client import protocol as wire

logger = logging.getLogger(__name__)

# How much is said until a conversation surely was compacted.
_GROWN_TURNS, _GROWN_BYTES = 30, 60_000 * tokens.BYTES_PER_TOKEN
# Of a file in which a harness writes down what is said: the newest turn, with all that its tools printed.
_TAIL_BYTES = 4 << 20
# Between two looks at the sessions that are silent.
_LOOKS_S = 60.0
_FAILURES = frozenset({"timeout", "error"})

Ask = Callable[[wire.Request[Any]], Awaitable[wire.Reply]]


class _Told(msgspec.Struct, frozen=True):
    """An event where it happened, and how to ask the daemon."""

    context: Context
    request: wire.Hook
    row: Hooks
    event: HookEvent
    place: Workplace
    ask: Ask

    @property
    def agent(self) -> str:
        return self.row.called

    @property
    def talk(self) -> Talk | None:
        return self.context.daemon.talks.of(self.agent, self.event.session_id)


async def hook(context: Context, request: wire.Hook, ask: Ask) -> wire.Hooked:
    """Do what an event asks for."""
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
        told = await _told(context, request, row, event, ask)
        printed = await _ANSWERS[event.kind](told)
    except Disabled as off:
        told_once = _trouble(context, row, event) if event is not None else b""
        return wire.Hooked(status="disabled", reason=str(off), output=told_once)
    except ForgedError as error:
        logger.warning("hook failed agent=%s event=%s error=%s", row.called, name, error)
        agents.failed(row.called, f"{name}: {error}" if name else str(error))
        return wire.Hooked(status="error", reason=str(error))
    return wire.Hooked(output=printed)


async def _told(context: Context, request: wire.Hook, row: Hooks, event: HookEvent, ask: Ask) -> _Told:
    """Where it happened. A turn ends where its prompt was sent, wherever the agent has gone meanwhile.

    Raises Disabled where nothing is to be remembered, and forgets what was.
    """
    daemon = context.daemon
    talk = None if event.kind == "prompt" else daemon.talks.of(row.called, event.session_id)
    workspace = talk.workspace if talk is not None else event.workspace
    if request.version and event.workspace not in request.seen and os.path.isabs(event.workspace):
        raise InvalidRequest(f"the hook did not say which folder {event.workspace!r} is for it")
    named = {event.workspace, workspace} & request.seen.keys()
    await daemon.resolver.agree({path: request.seen[path] for path in named})
    try:
        place = await daemon.resolver.resolve(workspace)
    except WorkspaceError:
        if talk is None:
            raise
        place = talk.place  # the folder is gone, as a linked worktree is; its repository need not be
    await daemon.state.opened(place.settings.retrieval_timeout_s)
    if off := daemon.disabled or place.off or daemon.state.pauses.reason(place.tops):
        daemon.talks.empty(row.called, event.session_id, place.tops)
        if event.prompt:
            daemon.talks.silence(row.called, event.session_id, hash(event.prompt))
        await hand_over_due(context)
        raise Disabled(off)
    return _Told(context, request, row, event, place, ask)


def _trouble(context: Context, row: Hooks, event: HookEvent) -> bytes:
    """Tell the person of a session, once, why memory is off where nobody switched it off or paused."""
    daemon, session = context.daemon, event.session_id
    why = "" if daemon.disabled else daemon.state.trouble
    is_told = why and session and takes_context(event, row) and daemon.notices.is_first(session, why)
    return output(event, row, "", [f"forged: memory does not work now: {why}"]) if is_told else b""


async def _start(told: _Told) -> bytes:
    for root in told.place.roots:  # what is asked next is being read by then
        told.context.daemon.indexer.open(root)
    session = told.event.session_id
    resolver = told.context.daemon.resolver
    place = await resolver.with_others(told.place, agent=told.agent, session_id=session)
    for each in place.others:
        each.maps()
    return b""


async def _prompt(told: _Told) -> bytes:
    event, daemon = told.event, told.context.daemon
    headless = told.request.headless
    talk = daemon.talks.begin(told.agent, event.session_id, event.workspace, told.place, headless=headless)
    daemon.state.agents.count(told.agent, turns=1)
    if talk.is_full:
        await _captured(told, talk, "turn")
        daemon.talks.early += not talk.refusal
    is_open = talk.asked(event)
    await hand_over_due(told.context)
    return await _injected(told, talk) if is_open else b""


async def _turn_end(told: _Told) -> bytes:
    event, daemon = told.event, told.context.daemon
    is_silenced = daemon.talks.is_silenced(told.agent, event.session_id, event.prompt)
    talk = None if is_silenced else told.talk or await _taken_up(told)
    is_known = talk is not None and talk.answered(event)
    # Held only if its prompt is known: it might take the place of one whose prompt is.
    if talk is not None and told.talk is None and (is_known or talk.open_spans):
        daemon.talks.put(talk)
        await hand_over_due(told.context)
    if talk is not None and is_known:
        await _captured(told, talk, "turn")
    else:
        daemon.state.agents.count(told.agent, unknown=1)
    return b""


async def _taken_up(told: _Told) -> Talk | None:
    """Make the talk of a session that this daemon has not heard; None if its prompt must not be captured.

    That is one from before something was forgotten, or from before a pause began or ended.
    """
    event, daemon = told.event, told.context.daemon
    seen, path = told.request.seen, event.transcript_path
    written: tuple[Utterance, ...] = ()
    asked_at = 0.0
    if path in seen or not seen:  # else it was not there for the hook
        await daemon.resolver.agree({path: seen[path]} if seen else {})
        written, asked_at = await asyncio.to_thread(_written, told)
    if 0 < asked_at <= daemon.state.silenced_at:
        return None
    talk = Talk(told.agent, event.session_id, event.workspace, told.place)
    talk.is_headless = told.request.headless
    if not event.prompt:
        talk.recalled(event.turn_id, written, asked_at)
    return talk


def _written(told: _Told) -> tuple[tuple[Utterance, ...], float]:
    """What the harness has written down of a session that this daemon has not heard, near its end.

    And when its newest prompt was sent, in Unix seconds. Nothing unless that was before the daemon began: one
    that was sent since and is not known was not to be heard, because memory was paused, or something was
    forgotten, or it is private. A prompt that the turn's end says has to be the newest.
    """
    event, daemon = told.event, told.context.daemon
    if not event.transcript_path or told.agent not in FORMATS:
        return (), 0.0
    home = FORMATS[told.agent].home({}, daemon.resolver.home)
    try:
        found = read_tail(event.transcript_path, told.agent, _TAIL_BYTES, home=home)
    except TranscriptError:
        return (), 0.0
    said = zip(found.messages, found.times, strict=True)
    prompt, at = next(((each.text, at) for each, at in reversed([*said]) if each.role == "user"), ("", 0.0))
    is_older = 0 < at < daemon.talks.began and (not event.prompt or prompt in event.prompt)
    is_meant = found.session_id == event.session_id and not found.hides_prompt
    return (found.messages, at) if is_older and is_meant else ((), 0.0)


async def _compaction(told: _Told) -> bytes:
    """All that was said is judged, as far as a compaction is sure to come."""
    talk = told.talk
    if talk is None or (told.row.unsure and not _is_grown(talk)):
        return b""
    await _captured(told, talk, "compaction")
    return await _compacted(told) if told.row.unsure else b""


async def _compacted(told: _Told) -> bytes:
    talk, daemon = told.talk, told.context.daemon
    if talk is not None:
        await _captured(told, talk, "compaction")
        talk.compacted()
    daemon.sessions.end(daemon.state, told.event.session_id, told.agent, compacts=True)
    return b"" if talk is None else await _injected(told, talk)


async def _session_end(told: _Told) -> bytes:
    if (talk := told.talk) is not None:
        await _captured(told, talk, "session_end")
    told.context.daemon.session_memories.end(told.event.session_id)
    return b""


async def _cleared(told: _Told) -> bytes:
    await _session_end(told)
    daemon = told.context.daemon
    daemon.sessions.end(daemon.state, told.event.session_id, told.agent, compacts=False)
    daemon.talks.drop(told.agent, told.event.session_id)
    return b""


_ANSWERS: Mapping[EventKind, Callable[[_Told], Awaitable[bytes]]] = {
    "session_start": _start,
    "prompt": _prompt,
    "turn_end": _turn_end,
    "compaction": _compaction,
    "compacted": _compacted,
    "cleared": _cleared,
    "session_end": _session_end,
}


def _is_grown(talk: Talk) -> bool:
    return talk.since_compaction >= _GROWN_TURNS or talk.bytes_since_compaction >= _GROWN_BYTES


async def _injected(told: _Told, talk: Talk) -> bytes:
    """What the session is to have in context for its newest prompt, and what its person is to know."""
    if not talk.messages or not takes_context(told.event, told.row):
        return b""
    settings = told.place.settings
    wanted = wire.Retrieve(
        workspace=talk.workspace,
        session_id=told.event.session_id,
        turn_id=talk.turn_id,
        messages=talk.newest,
        token_budget=_budget(settings.injection_token_budget, told.row),
        timeout_s=told.request.within_ms / 1000 or None,
        mode="append",
        agent=told.agent,
        compacts=told.row.compacts,
    )
    reply = await told.ask(wanted)
    if not isinstance(reply, wire.Retrieved):
        return b""
    if reply.status in _FAILURES:
        _failed(told, f"{reply.status}: {reply.reason}")
    lines = [line for line in (*reply.captured, reply.notice, _skew(told, talk)) if line]
    return output(told.event, told.row, reply.text, [f"forged: {line}" for line in lines])


def _budget(configured: int, row: Hooks) -> int:
    """Tokens that the harness takes without cutting: a character has a byte at least."""
    most = row.most_characters // tokens.BYTES_PER_TOKEN
    return min(configured, most) if configured > 0 else most


def _skew(told: _Told, talk: Talk) -> str:
    """What a person should know, once, where the daemon and the program that asks it are not the same."""
    theirs = told.request.version
    if not theirs or theirs == __version__ or talk.was_told_of_version:
        return ""
    talk.was_told_of_version = True
    return f"the daemon is version {__version__}, its hook {theirs[:32]}: `forgectl restart` makes them one"


async def _captured(told: _Told, talk: Talk, kind: str) -> None:
    """Hand over what was said, if something of it is new; what is refused goes with the next that is not."""
    await _kept(told.context, talk, kind, told.place)
    if talk.refusal:
        _failed(told, talk.refusal)


async def _kept(context: Context, talk: Talk, kind: str, place: Workplace) -> None:
    """Have what is new of a talk captured; its `refusal` says why nothing was taken. Raises Disabled."""
    is_whole, said = kind == "compaction", talk.said
    talk.refusal = ""
    if not (held := talk.untold(whole=is_whole)):
        return
    messages, said_at = zip(*held, strict=True)
    handed_over = wire.Capture(
        workspace=talk.workspace,
        session_id=talk.session_id,
        kind=kind,
        messages=messages,
        agent=talk.agent,
    )
    reply = await capture.keep(context, place, handed_over, said_at, headless=talk.is_headless)
    if reply.is_taken or reply.reason == "nothing_to_capture":
        talk.captured(said, whole=is_whole)
    else:
        talk.refusal = reply.reason


async def hand_over_due(context: Context, *, all_of_them: bool = False, again: bool = False) -> None:
    """Have captured what waits of sessions that left or are silent, without the ends of their turns.

    `again`: also what capture refused before; `all_of_them`: also what goes on.
    """
    for talk in context.daemon.talks.due(all_of_them=all_of_them, again=again):
        try:
            await _handed_over(context, talk)
        except ForgedError as error:
            talk.refusal = str(error)
        if talk.refusal:
            logger.warning("a session waits for capture agent=%s error=%s", talk.agent, talk.refusal)
        else:
            context.daemon.talks.settled(talk)


async def _handed_over(context: Context, talk: Talk) -> None:
    """Have captured what waits of a talk where it was said, unless memory is off or paused there by now."""
    daemon, place = context.daemon, talk.place
    with contextlib.suppress(WorkspaceError):  # a folder that is gone: its repository need not be
        now = await daemon.resolver.resolve(talk.workspace)
        place = now if now.tops == place.tops else place
    if place.off or daemon.state.pauses.reason(place.tops):
        talk.refusal = ""
    else:
        await _kept(context, talk, "turn", place)


async def follow_sessions(daemon: Daemon) -> None:
    """Have captured, minute by minute, what waits of sessions that left or are silent. Ends never."""
    while True:
        await asyncio.sleep(_LOOKS_S)
        await hand_over_due(Context(daemon, time.monotonic()), again=True)


async def hand_over_all(daemon: Daemon) -> None:
    """Have captured what waits of all sessions, before the daemon that holds it ends."""
    await hand_over_due(Context(daemon, time.monotonic()), all_of_them=True)


def _failed(told: _Told, why: str) -> None:
    logger.warning("hook failed agent=%s event=%s error=%s", told.agent, told.event.name, why)
    told.context.daemon.state.agents.failed(told.agent, f"{told.event.name}: {why}")


def reports(context: Context) -> tuple[wire.AgentReport, ...]:
    """What every agent's hooks have told, and what came of it, for `status`."""
    state = context.daemon.state
    today = state.agents.today
    kept = Counter(
        each.agent for each in state.judged.listed() if each.memory_id and day_of(each.at) == today
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
