"""Handlers of `list_captured`, `list_injections` and `learn`: records, and past sessions.

The disk is only read to check if a memory's file exists. A past session is cleaned and classified like any
other; its proposals wait for a person. Raises InvalidRequest and WorkspaceError.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from forged.capture import PROMPT_TOKENS, WINDOW_LIMIT, CaptureService, Submission
from forged.counters import Metrics
from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.wire_types import fitting, page_of, unix_seconds
from forged.errors import InvalidRequest
from forged.files import repo_root
from forged.memory import utc
from forged.sessions import clean_transcript
from forged.state import MOST_LEARNED, CaptureLogEntry, InjectionRecord, State
from forged.stores import Workplace
from forged_client import protocol as wire

_WITHIN_S = 2.0
_MOST_NAME = 256
_BUILT_IN = "builtin:"


async def learn(context: Context, place: Workplace, request: wire.Learn) -> wire.Learned:
    """Submit a past session to capture; report if it is classified, still waiting or refused."""
    session_id = request.session_id[:_MOST_NAME]
    if not session_id.strip():
        raise InvalidRequest("a past session needs an id; this one has none")
    state, capture, metrics = context.daemon.state, context.daemon.capture, context.daemon.metrics
    await state.wait_until_open()
    if request.messages and (reason := await _submit_past_session(state, capture, metrics, place, request)):
        return wire.Learned(reason=reason, to_review=state.to_review.learned)
    is_done = await capture.wait_until_classified(session_id, place.roots, _WITHIN_S)
    return wire.Learned(
        outcome="classified" if is_done else "waiting",
        waits_for="" if is_done else capture.report().reason,
        to_review=state.to_review.learned,
    )


async def _submit_past_session(
    state: State, capture: CaptureService, metrics: Metrics, place: Workplace, request: wire.Learn
) -> str:
    """Clean and submit the messages of a past session; return why they were refused, or ""."""
    if state.to_review.learned >= MOST_LEARNED:
        return f"{MOST_LEARNED:,} proposals wait already; decide on some of them in `forgectl review`"
    found = await clean_transcript(request.messages)
    metrics.echoes_removed += found.echoes
    if not found.said:
        return ""
    times = request.said_at if len(request.said_at) == len(request.messages) else ()
    spoken = Submission(
        kind="learned",
        session_id=request.session_id[:_MOST_NAME],
        roots=place.roots,
        messages=found.said,
        agent=request.agent[:_MOST_NAME],
        said_at=tuple(times[at] for at in found.places) if times else (),
        mark=request.mark[:_MOST_NAME],
        headless=request.headless,
    )
    outcome = await capture.submit(spoken)
    return outcome.reason if outcome.word == "rejected" else ""


async def list_past(context: Context, request: wire.ListPast) -> wire.PastSessions:
    """Return the marks of past sessions already learned, and figures to estimate the cost of others."""
    daemon, about, state = context.daemon, context.daemon.about, context.daemon.state
    await state.wait_until_open()
    limit = daemon.config.memory.daily_token_limit
    return wire.PastSessions(
        marks={agent: state.learned.marks(agent) for agent in request.agents},
        classifier="" if about.classifier.startswith(_BUILT_IN) else about.classifier,
        call_characters=WINDOW_LIMIT,
        call_tokens=PROMPT_TOKENS,
        tokens_left=max(0, limit - daemon.governor.tokens_today),
        token_limit=limit,
        to_review=state.to_review.learned,
        most_to_review=MOST_LEARNED,
    )


_Row = TypeVar("_Row", CaptureLogEntry, InjectionRecord)


async def list_captured(context: Context, request: wire.ListCaptured) -> wire.CapturedPage:
    """List captured texts, saved and refused, newest first; also while memory is disabled."""

    def listed(state: State, tops: tuple[str, ...] | None) -> list[CaptureLogEntry]:
        return [each for each in state.capture_log.listed() if tops is None or each.top in tops]

    page, total = await _page(context, request, listed)
    there = await asyncio.to_thread(_entries_with_file, page)
    listed_rows = [_captured_entry(each, each in there) for each in page]
    return wire.CapturedPage(
        status="ok" if listed_rows else "empty", captured=fitting(listed_rows), total=total
    )


async def list_injections(context: Context, request: wire.ListInjections) -> wire.InjectionsPage:
    """List injections with their memories, newest first; also while memory is disabled."""

    def listed(state: State, tops: tuple[str, ...] | None) -> list[InjectionRecord]:
        return [each for each in state.injections.listed() if tops is None or each.tops == tops]

    page, total = await _page(context, request, listed)
    state = context.daemon.state
    listed_rows = fitting([_injected_turn(each, state) for each in page])
    return wire.InjectionsPage(status="ok" if listed_rows else "empty", injections=listed_rows, total=total)


async def _page(
    context: Context,
    request: wire.ListCaptured | wire.ListInjections,
    listed: Callable[[State, tuple[str, ...] | None], list[_Row]],
) -> tuple[Sequence[_Row], int]:
    """Return a page of the `listed` entries that match a request, and the number of all such."""
    since, state = unix_seconds("since", request.since), context.daemon.state
    tops = None if request.all_repos else (await context.daemon.resolver.resolve(request.workspace)).tops
    await state.wait_until_open()
    found = [
        each
        for each in listed(state, tops)
        if each.at >= since and each.session_id.startswith(request.session_id)
    ]
    return page_of(found, request.offset, request.limit), len(found)


def _entries_with_file(page: Sequence[CaptureLogEntry]) -> frozenset[CaptureLogEntry]:
    """Return the entries of the capture log whose memory's file exists."""
    return frozenset(each for each in page if each.memory_id and _has_file(each))


def _has_file(each: CaptureLogEntry) -> bool:
    """Return True if the file of a capture log entry's memory exists."""
    return os.path.exists(os.path.join(repo_root(each.top).directories[0], f"{each.memory_id}.md"))


def _captured_entry(each: CaptureLogEntry, is_there: bool) -> wire.CapturedEntry:
    """Return an entry of the capture log as a wire record; `is_there`: its memory has a file."""
    fields = msgspec.structs.asdict(each)
    del fields["unreported"]
    own = {"at": utc(fields.pop("at")), "root": fields.pop("top"), "is_there": is_there}
    return wire.CapturedEntry(**fields, **own)


def _injected_turn(each: InjectionRecord, state: State) -> wire.InjectedTurn:
    """Return an injection as a wire record, with the number of sessions that found each memory."""
    return wire.InjectedTurn(
        at=utc(each.at),
        roots=each.tops,
        session_id=each.session_id,
        agent=each.agent,
        turn_id=each.turn_id,
        strategy=each.strategy,
        memories=tuple(
            wire.InjectedMemory(
                id=one.id,
                root=one.root,
                version=one.version,
                found_by=one.found_by,
                admitted_as=one.admitted_as,
                sessions=state.injected_sets.uses.of(one.root, one.id) or 0,
            )
            for one in each.memories
        ),
    )
