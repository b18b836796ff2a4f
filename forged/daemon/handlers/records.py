"""`list_judged` and `list_injections`: records of captures and of injections.

Answered from the record, for a person; the disk is asked only whether a memory's file is still there. Raised
are InvalidRequest and WorkspaceError.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import fitting, page_of, seconds_of
from forged.files import repo_root
from forged.memory import utc
from forged.state import InjectedTurn, Judgement, State, Told
from forged_client import protocol as wire

_Row = TypeVar("_Row", Judgement, InjectedTurn)


async def list_judged(context: Context, request: wire.ListJudged) -> wire.JudgedPage:
    """List what was kept and refused, newest first; also where memory is off by now."""

    def listed(state: State, tops: tuple[str, ...] | None) -> list[Judgement]:
        return [each for each in state.judged.listed() if tops is None or each.top in tops]

    page, total = await _page(context, request, listed)
    there = await asyncio.to_thread(_there, page)
    told = [_judged(each, each in there) for each in page]
    return wire.JudgedPage(status="ok" if told else "empty", judged=fitting(told), total=total)


async def list_injections(context: Context, request: wire.ListInjections) -> wire.InjectionsPage:
    """List what turns got, newest first; also where memory is off by now."""

    def listed(state: State, tops: tuple[str, ...] | None) -> list[InjectedTurn]:
        return [each for each in state.injections.listed() if tops is None or each.tops == tops]

    page, total = await _page(context, request, listed)
    told = fitting([_injected(each, context.daemon.state.told) for each in page])
    return wire.InjectionsPage(status="ok" if told else "empty", injections=told, total=total)


async def _page(
    context: Context,
    request: wire.ListJudged | wire.ListInjections,
    listed: Callable[[State, tuple[str, ...] | None], list[_Row]],
) -> tuple[Sequence[_Row], int]:
    """Return a page of the rows that a request means, and how many there are in all."""
    since, state = seconds_of("since", request.since), context.daemon.state
    tops = None if request.all_repos else (await context.daemon.resolver.resolve(request.workspace)).tops
    await state.opened()
    found = [
        each
        for each in listed(state, tops)
        if each.at >= since and each.session_id.startswith(request.session_id)
    ]
    return page_of(found, request.offset, request.limit), len(found)


def _there(page: Sequence[Judgement]) -> frozenset[Judgement]:
    """Those whose memory's file is where it was written."""
    return frozenset(each for each in page if each.memory_id and _is_there(each))


def _is_there(each: Judgement) -> bool:
    return os.path.exists(os.path.join(repo_root(each.top).directories[0], f"{each.memory_id}.md"))


def _judged(each: Judgement, is_there: bool) -> wire.Judged:
    return wire.Judged(
        at=utc(each.at),
        text=each.text,
        memory_id=each.memory_id,
        reason=each.reason,
        session_id=each.session_id,
        agent=each.agent,
        kind=each.kind,
        why=each.why,
        classifier=each.classifier,
        scope=each.scope,
        category=each.category,
        root=each.top,
        supersedes=each.supersedes,
        is_there=is_there,
    )


def _injected(each: InjectedTurn, told: Told) -> wire.InjectedTurn:
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
                via=one.via,
                came=one.came,
                sessions=told.uses.of(one.root, one.id) or 0,
            )
            for one in each.memories
        ),
    )
