"""The verbs that show memories, and `forget`: `get`, `list` and `history`.

Each returns its reply and the generation that it speaks of: for a write the one that shows it. Raised are
MemoryNotFound, InvalidRequest, NotReady and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Sequence

import msgspec

from forged import fair_queue
from forged.daemon.handlers.attributes import full_record
from forged.daemon.handlers.context import PATIENCE_S, Context, Daemon
from forged.daemon.handlers.convert import fitting, seconds_of, with_entities
from forged.daemon.handlers.everywhere import everywhere
from forged.daemon.handlers.forgetting import forget_in_session, of_session, with_sessions
from forged.daemon.handlers.forgetting import purge as purge_texts
from forged.daemon.handlers.naming import begun_by, in_view, is_whole, on_disk, the_one, unseen, within
from forged.daemon.handlers.refusals import InvalidRequest, NotReady
from forged.daemon.handlers.shared_documents import forget_pieces
from forged.daemon.handlers.trust import in_reply
from forged.errors import MemoryNotFound, StoreError
from forged.map import VectorMap, link, newest
from forged.maps import RootIndex
from forged.memory import Memory, Origin, Scope
from forged.scopes import FIRST_BUILD, View, Workplace
from forged.state import CutCount, Rewrite
from forged.writing import UNREACHABLE, Gone, Taking, Trashed
from forged_client import protocol as wire

_MOST_IN_REPLY = 1000


async def forget(context: Context, place: Workplace, request: wire.Forget) -> tuple[wire.Forgotten, int]:
    """Take a chain (or one version) away, and answer when no retrieve can find it any more."""
    if (in_session := await forget_in_session(context, request)) is not None:
        return in_session, 0
    await context.resumed()
    place = await within(context, place, request.scope, request.agent_id)
    planned = context.planned(wire.Forgotten)
    try:
        index, ids = await _meant(context, place, request)
    except MemoryNotFound:
        if planned is not None:  # a kill came, and what was begun was brought to its end
            return planned, 0
        raise
    taking = Taking(erase=request.erase_now, whole=not request.version_only)
    if planned is None:
        planned = receipt(context.daemon, ids, taking)
        await context.plan(planned)
    gone, cut, generation = await put_away(context, index, planned.ids, taking, purge=True)
    context.daemon.metrics.forgotten += len(gone.ids)
    reply = msgspec.structs.replace(planned, cut_sentences=cut.sentences, cut_events=cut.events)
    return reply, generation


def receipt(daemon: Daemon, ids: tuple[str, ...], taking: Taking) -> wire.Forgotten:
    """The receipt of memories that go, but for what is cut out of events."""
    return wire.Forgotten(
        ids=ids, trash="" if taking.erase else daemon.writer.trash.path, unreachable=UNREACHABLE
    )


async def _meant(
    context: Context, place: Workplace, request: wire.Forget
) -> tuple[RootIndex, tuple[str, ...]]:
    """Return the root and the ids of what is to go; what is to be erased may lie in the trash already.

    An id that is named whole and lies there is meant before one on disk that only begins so.
    """
    try:
        at, memory_id = await on_disk(context, place, request.memory_id, request.scope)
    except (MemoryNotFound, InvalidRequest) as error:
        if found := await _in_trash(context, place, request, whole=isinstance(error, InvalidRequest)):
            return found
        raise
    if not is_whole(request.memory_id, memory_id) and (
        found := await _in_trash(context, place, request, whole=True)
    ):
        return found
    if request.version_only:
        return at.index, (memory_id,)
    return at.index, await context.daemon.writer.chain(at.index, memory_id)


async def _in_trash(
    context: Context, place: Workplace, request: wire.Forget, *, whole: bool
) -> tuple[RootIndex, tuple[str, ...]] | None:
    """Return the root and the ids of what went into the trash with a memory; None if it is not there.

    `whole`: only if it is named by its whole id. Raises MemoryNotFound if it is not to be erased.
    """
    held = await asyncio.to_thread(context.daemon.writer.trash.held, time.time())
    if whole and not any(is_whole(request.memory_id, each.memory.id) for each in held):
        return None
    together = went_with(held, place.tops, request.memory_id, request.scope)
    if not together:
        return None
    if not request.erase_now:
        raise MemoryNotFound(
            f"{request.memory_id[:80]!r} lies in the trash already; --now (erase_now) erases it there"
        )
    first, root = together[0], next(each for each in place.roots if each.top == together[0].note.top)
    chain = link([each.memory for each in together if each.note.top == root.top]).chain(first.memory.id)
    return context.daemon.indexer.open(root), chain if not request.version_only else (first.memory.id,)


def went_with(held: Sequence[Trashed], tops: Collection[str], wanted: str, scope: str) -> tuple[Trashed, ...]:
    """The memory that is named and behind it all that went with it, of several times the last time.

    Raises InvalidRequest for the beginning of several ids.
    """
    seen = [each for each in held if each.note.top in tops and scope in {"", each.note.scope}]
    meant = begun_by([each.memory.id for each in seen], wanted)
    if not meant:
        return ()
    first = next(each for each in seen if each.memory.id == meant)
    return (first, *(each for each in held if each.note.batch == first.note.batch and each is not first))


async def put_away(
    context: Context,
    index: RootIndex,
    ids: tuple[str, ...],
    taking: Taking,
    *,
    purge: bool,
    earlier: Sequence[Rewrite] = (),
) -> tuple[Gone, CutCount, int]:
    """Remove memories so that no retrieve finds them any more.

    Returns the receipt, what was cut out of events and the generation. What they say is not captured again
    from what was heard before. With `purge` the sentences of events that wait or were given up go too, if
    they hold such a text. Raises StoreError.
    """
    daemon, cut = context.daemon, CutCount()
    contents = await _announce(context, index, ids)
    if purge and taking.erase:  # after a kill nobody would know these texts any more
        cut = await purge_texts(daemon, contents)
    gone = await daemon.writer.remove(index, ids, with_rows(daemon, index, ids, taking), earlier)
    generation = index.mark()
    try:
        await daemon.state.forgotten.add(index.root.top, gone.contents, ids)
        await daemon.state.removal.forgotten(await daemon.trust.ids(index.root.top), ids, gone.contents)
        if index.root.scope is Scope.ORG:
            await forget_pieces(daemon, ids)
        if purge:
            cut += await purge_texts(daemon, gone.contents)
        else:
            await daemon.state.erase_traces()
        await daemon.writer.finish(gone)
    finally:  # the files are gone, whatever else could not be done
        await index.until_tried(generation, time.monotonic() + PATIENCE_S)
        daemon.retriever.turns.forget(index.root.top, ids)
    return gone, cut, generation


async def forgotten_elsewhere(daemon: Daemon, index: RootIndex, ids: tuple[str, ...]) -> None:
    """Do here what the same user has had done on another machine. Raises StoreError."""
    await daemon.state.intents.resumed.wait()
    await put_away(Context(daemon, time.monotonic()), index, ids, Taking(), purge=True)


def with_rows(daemon: Daemon, index: RootIndex, ids: tuple[str, ...], taking: Taking) -> Taking:
    """What is known of the memories goes with them, and comes back with them."""
    return msgspec.structs.replace(taking, rows=daemon.state.removal.trashed(index.root.top, ids))


async def _announce(context: Context, index: RootIndex, ids: tuple[str, ...]) -> list[str]:
    """Make known what is about to be forgotten: a capture that comes between would write it again.

    Returns the texts.
    """
    snapshot, _ = await context.daemon.trust.look(index.root)
    contents = [found.content for found in snapshot.memories if found.id in ids]
    with contextlib.suppress(StoreError):  # known at once; that it is on disk is seen to afterwards
        await context.daemon.state.forgotten.add(index.root.top, contents, ids)
    return contents


async def get(context: Context, place: Workplace, request: wire.GetMemories) -> tuple[wire.Memories, int]:
    """Memories by id, in the order asked, two where two roots have it; ids that are not visible are named."""
    place = await within(context, place, request.scope, request.agent_id, sessions=True)
    view = await context.view(place, request.min_generation)
    view = with_sessions(context, view, request.ids[:_MOST_IN_REPLY], request.scope)
    await fair_queue.turn()
    found = [(wanted, in_view(view, wanted, request.scope)) for wanted in request.ids[:_MOST_IN_REPLY]]
    items = [item for _, holders in found for item in holders]
    missing = tuple(wanted for wanted, holders in found if not holders)
    reply = wire.Memories(
        status=_status(view, bool(items)),
        reason=FIRST_BUILD if view.waiting else await _why_missing(context, place, missing),
        memories=fitting([with_entities(full_record(context, *item), item[1]) for item in items]),
        total=len(items),
        missing=missing,
    )
    return reply, view.generation


async def _why_missing(context: Context, place: Workplace, ids: tuple[str, ...]) -> str:
    """A sentence on those of the ids that are there and withheld, or nothing."""
    withheld = {each.id for each in await context.daemon.trust.withheld(place.roots)} if ids else set[str]()
    there = [each for each in ids if each in withheld]
    why = context.daemon.state.trust.doubt() or "withheld until you decide"
    return f"{why}: {', '.join(there)}" if there else ""


async def list_page(
    context: Context, place: Workplace, request: wire.ListMemories
) -> tuple[wire.Memories, int]:
    """One page of what the workspace sees, newest first."""
    place = await within(context, place, request.scope, request.agent_id, sessions=True)
    since = seconds_of("since", request.since)
    view = await context.view(place, request.min_generation)
    view = of_session(context, view, request)
    maps = view.maps if not request.all_repos else await everywhere(context, place)
    await fair_queue.turn()
    chosen = _chosen(maps, request, since)
    start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_IN_REPLY)
    rows = newest(chosen, start, count)
    told = [full_record(context, *item) for item in rows]
    if request.entities:
        told = await asyncio.to_thread(_with_entities, told, [found for _, found in rows])
    page = fitting(told)
    reply = wire.Memories(
        status=_status(view, bool(page)),
        reason=FIRST_BUILD if view.waiting else view.problem or ("" if page else view.left_out()),
        memories=page,
        total=sum(len(rows) for _, rows in chosen),
        notice=await in_reply(context, place),
    )
    return reply, view.generation


def _with_entities(told: list[wire.MemoryRecord], memories: list[Memory]) -> list[wire.MemoryRecord]:
    return list(map(with_entities, told, memories))


def _status(view: View, found: bool) -> str:
    if found:
        return "ok"
    return "not_ready" if view.waiting else "empty"


def _chosen(
    maps: Sequence[VectorMap], request: wire.ListMemories, since: float
) -> list[tuple[VectorMap, list[int]]]:
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


async def history(context: Context, place: Workplace, request: wire.History) -> tuple[wire.Chain, int]:
    """A memory's version chain, oldest first, with what is odd about it."""
    place = await within(context, place, request.scope, request.agent_id, sessions=True)
    view = await context.view(place, request.min_generation)
    view = with_sessions(context, view, (request.memory_id,), request.scope)
    found = in_view(view, request.memory_id, request.scope)
    if not found and view.waiting:
        raise NotReady(FIRST_BUILD)
    if not found:
        raise await unseen(context, place, request.memory_id, request.scope)
    home, meant = the_one(found, request.memory_id, request.scope)
    head = home.chains.head(meant.id)
    reply = wire.Chain(
        memories=fitting([full_record(context, home, version) for version in view.chain(home, head)]),
        flags=home.chains.flags.get(head, ()),
    )
    return reply, view.generation
