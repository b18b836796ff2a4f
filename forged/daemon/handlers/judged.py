"""`list_judged`: what capture has kept and refused, for a person.

Answered from the record; the disk is asked only whether a memory's file is still there. Raised are
InvalidRequest and WorkspaceError.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import fitting, page_of, seconds_of
from forged.files import repo_root
from forged.memory import utc
from forged.state import Judgement
from forged_client import protocol as wire


async def list_judged(context: Context, request: wire.ListJudged) -> wire.JudgedPage:
    """What was kept and refused, newest first; also where memory is off by now."""
    since = seconds_of("since", request.since)
    tops: tuple[str, ...] = ()
    if not request.all_repos:
        tops = (await context.daemon.resolver.resolve(request.workspace)).tops
    state = context.daemon.state
    await state.opened()
    found = [
        each
        for each in state.judged.listed()
        if (request.all_repos or each.top in tops)
        and each.at >= since
        and each.session_id.startswith(request.session_id)
    ]
    page = page_of(found, request.offset, request.limit)
    there = await asyncio.to_thread(_there, page)
    told = [_told(each, each in there) for each in page]
    return wire.JudgedPage(status="ok" if told else "empty", judged=fitting(told), total=len(found))


def _there(page: Sequence[Judgement]) -> frozenset[Judgement]:
    """Those whose memory's file is where it was written."""
    return frozenset(each for each in page if each.memory_id and _is_there(each))


def _is_there(each: Judgement) -> bool:
    return os.path.exists(os.path.join(repo_root(each.top).directories[0], f"{each.memory_id}.md"))


def _told(each: Judgement, is_there: bool) -> wire.Judged:
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
