"""`list_injections`: which memories were injected where, for a person.

Answered from the record, by ids; who wants the texts asks for the memories. Raised are InvalidRequest and
WorkspaceError.
"""

from __future__ import annotations

from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import fitting, page_of, seconds_of
from forged.memory import utc
from forged.state import InjectedTurn, Told
from forged_client import protocol as wire


async def list_injections(context: Context, request: wire.ListInjections) -> wire.InjectionsPage:
    """What turns got, newest first; also where memory is off by now."""
    since = seconds_of("since", request.since)
    tops: tuple[str, ...] = ()
    if not request.all_repos:
        tops = (await context.daemon.resolver.resolve(request.workspace)).tops
    state = context.daemon.state
    await state.opened()
    found = [
        each
        for each in state.injections.listed()
        if (request.all_repos or each.tops == tops)
        and each.at >= since
        and each.session_id.startswith(request.session_id)
    ]
    page = page_of(found, request.offset, request.limit)
    told = fitting([_told(each, state.told) for each in page])
    return wire.InjectionsPage(status="ok" if told else "empty", injections=told, total=len(found))


def _told(each: InjectedTurn, told: Told) -> wire.InjectedTurn:
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
