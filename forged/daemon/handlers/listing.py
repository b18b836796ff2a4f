"""The verbs that show memories: by id, a page of them, and a version chain.

Only roots in use have an index, because making one embeds all of their texts. A list of all repositories
reads the others from disk, without memories that do not count there and roots where memory is off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from forged import fair_queue
from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.trust import notice_for_reply
from forged.daemon.handlers.wire_types import fitting, unix_seconds, with_entities
from forged.errors import ForgedError, NotReady
from forged.files import EvidenceChecker, Root, files_of, one_per_id, repo_root
from forged.map import MapPart, Traits, VectorMap, build_chains, newest_page
from forged.memories import ids
from forged.memory import Memory, Origin, Scope
from forged.stores import FIRST_BUILD, View, Workplace
from forged_client import protocol as wire

logger = logging.getLogger(__name__)

_MOST_IN_REPLY = 1000


async def get(context: Context, place: Workplace, request: wire.GetMemories) -> tuple[wire.Memories, int]:
    """Return memories by id, in the order asked (two if two roots have it), and the ids not found."""
    place, view = await _resolve_view(context, place, request)
    asked = request.ids[:_MOST_IN_REPLY]
    view = ids.with_sessions(context.daemon.memories, view, asked, request.scope)
    await fair_queue.turn()
    found = [(wanted, ids.find_in_view(view, wanted, request.scope)) for wanted in asked]
    items = [item for _, holders in found for item in holders]
    missing = tuple(wanted for wanted, holders in found if not holders)
    reply = wire.Memories(
        status=_reply_status(view, bool(items)),
        reason=FIRST_BUILD if view.waiting else await _why_missing(context, place, missing),
        memories=fitting([with_entities(context.memory_record(*item), item[1]) for item in items]),
        total=len(items),
        missing=missing,
    )
    return reply, view.generation


async def list_page(
    context: Context, place: Workplace, request: wire.ListMemories
) -> tuple[wire.Memories, int]:
    """Return a page of matching memories of the workspace, or of all repositories, newest first."""
    since = unix_seconds("since", request.since)
    place, view = await _resolve_view(context, place, request)
    if request.scope == Scope.SESSION:
        view = ids.session_view(context.daemon.memories, view, request.session_id)
    maps = view.maps if not request.all_repos else await _maps_of_all_roots(context, place)
    await fair_queue.turn()
    chosen = _matching_rows(maps, request, since)
    start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_IN_REPLY)
    rows = newest_page(chosen, start, count)
    records = [context.memory_record(*item) for item in rows]
    if request.entities:
        found = [each for _, each in rows]
        records = await asyncio.to_thread(lambda: list(map(with_entities, records, found)))
        paths = await _file_paths(context, place, {home for home, _ in rows})
        records = [replace(each, path=paths.get((each.root, each.id), "")) for each in records]
    page = fitting(records)
    reply = wire.Memories(
        status=_reply_status(view, bool(page)),
        reason=FIRST_BUILD if view.waiting else view.problem or ("" if page else view.left_out()),
        memories=page,
        total=sum(len(rows) for _, rows in chosen),
        notice=await notice_for_reply(context, place),
    )
    return reply, view.generation


async def _file_paths(
    context: Context, place: Workplace, homes: Collection[VectorMap]
) -> dict[tuple[str, str], str]:
    """Return the path of each memory's file in these maps, by the top of its root and its id."""
    known, found = {each.top: each for each in place.roots}, dict[tuple[str, str], str]()
    for home in homes:
        root = known.get(home.root)
        if root is None and home.scope == Scope.REPO:
            root = await asyncio.to_thread(repo_root, home.root)
        if root is not None:
            snapshot, _ = await context.daemon.trust.look(root)
            found |= {(home.root, file.memory.id): file.path for file in one_per_id(files_of(snapshot))}
    return found


async def history(context: Context, place: Workplace, request: wire.History) -> tuple[wire.Chain, int]:
    """Return all versions of a memory, oldest first, with flags for a broken or forked chain."""
    place, view = await _resolve_view(context, place, request)
    view = ids.with_sessions(context.daemon.memories, view, (request.memory_id,), request.scope)
    found = ids.find_in_view(view, request.memory_id, request.scope)
    if not found and view.waiting:
        raise NotReady(FIRST_BUILD)
    if not found:
        raise await ids.missing_error(context.daemon.memories, place, request.memory_id, request.scope)
    home, meant = ids.require_one(found, request.memory_id, request.scope)
    head, paths = home.chains.head(meant.id), await _file_paths(context, place, {home})
    records = [context.memory_record(home, version) for version in home.chain(head)]
    reply = wire.Chain(
        memories=fitting([replace(each, path=paths.get((each.root, each.id), "")) for each in records]),
        flags=home.chains.flags.get(head, ()),
    )
    return reply, view.generation


async def _resolve_view(
    context: Context, place: Workplace, request: wire.GetMemories | wire.ListMemories | wire.History
) -> tuple[Workplace, View]:
    """Return the workplace that a request names, and the view of its memories."""
    memories = context.daemon.memories
    place = await ids.place_of_scope(memories, place, request.scope, request.agent_id, sessions=True)
    return place, await context.view(place, request.min_generation)


async def _why_missing(context: Context, place: Workplace, named: tuple[str, ...]) -> str:
    """Return a sentence on those of the named memories that exist but are withheld, or ""."""
    memories = context.daemon.memories
    withheld = {each.id for each in await memories.trust.withheld(place.roots)} if named else set[str]()
    there = [each for each in named if each in withheld]
    why = memories.state.trust.doubt or "not used until you allow it"
    return f"{why}: {', '.join(there)}" if there else ""


def _reply_status(view: View, found: bool) -> str:
    """Return ok if something was found, not_ready before the first build, else empty."""
    if found:
        return "ok"
    return "not_ready" if view.waiting else "empty"


def _matching_rows(
    maps: Sequence[VectorMap], request: wire.ListMemories, since: float
) -> list[tuple[VectorMap, list[int]]]:
    """Return for each map the rows that match a request's filters."""
    homes = (home for home in maps if not request.scope or home.scope == request.scope)
    return [
        (
            home,
            [
                row
                for row, found in home.numbered()
                if (not request.category or found.category == request.category)
                and (found.stale or not request.stale)
                and home.created[row] >= int(since)
                and found.session_id.startswith(request.session_id)
                and (not request.origin or (found.origin or Origin.FILE) == request.origin)
                and (request.all_versions or home.chains.is_head(found.id))
            ],
        )
        for home in homes
    ]


async def _maps_of_all_roots(context: Context, place: Workplace) -> tuple[VectorMap, ...]:
    """Return a map of each root of the workplace and of all known repositories, read from disk."""
    await context.daemon.trust.wait_until_open()
    roots = dict.fromkeys(place.roots)
    for top in await context.daemon.trust.known_tops():
        roots |= dict.fromkeys(await _roots_at(context, top))
    return tuple([await _map_from_disk(context, root) for root in roots])


async def _roots_at(context: Context, top: str) -> tuple[Root, ...]:
    """Return the roots of a workplace at a top; none if its folder is gone or memory is off there."""
    try:
        place = await context.daemon.resolver.resolve(top)
    except ForgedError as error:
        logger.debug("left out of a list top=%s error=%s", top, error)
        return ()
    if place.off:
        return ()
    named = await asyncio.to_thread(repo_root, top)
    return place.roots if named in place.roots or not named.in_git else (named, *place.roots)


async def _map_from_disk(context: Context, root: Root) -> VectorMap:
    """Return a map, without vectors, of the memories admitted from a root's current files."""
    _, admitted = await context.daemon.trust.look(root)
    memories = await asyncio.to_thread(_with_staleness, root, admitted.memories)
    part = MapPart(memories, None, None, await asyncio.to_thread(Traits.of, memories))
    return VectorMap(root.top, root.scope, 0, memories, (part,), build_chains(memories))


def _with_staleness(root: Root, memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """Return memories, marked as stale if their evidence files changed."""
    if not root.has_files:
        return memories
    return EvidenceChecker(root.top).with_stale(memories, afresh=True, pause=lambda: None)
