"""Handlers of the verbs on memories, between the wire and `forged.memories`.

Each returns its reply and the generation of it: for a write the one that shows it. Before the first step that
a kill could interrupt, the reply is recorded, and a repeated request gets it. Raises MemoryNotFound,
InvalidRequest, SecretFound, ForgottenText, NotReady, Conflict and StoreError.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from forged import memory
from forged.attributes import FactsPatch, metadata_problem
from forged.daemon.handlers.recall import is_this_user
from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.wire_types import fitting, token_of
from forged.errors import InvalidRequest, MemoryNotFound, NotReady
from forged.files import MemoryStore
from forged.memories import PATIENCE_S, ids, pruning, removal, versions, write
from forged.memories import restore as restoring
from forged.memory import Memory, Related, Scope, Trigger
from forged.stores import FIRST_BUILD, View, Workplace
from forged.writing import RemovalTerms, TrashEntry, Written, new_batch
from forged_client import protocol as wire
from forged_client.private_spans import without_private

_MOST_NAME = 200
_UNREACHABLE = ("copies in version control history, clones and backups",)


# --- write --------------------------------------------------------------------------------------------


async def remember(
    context: Context, place: Workplace, request: wire.Remember
) -> wire.Remembered | tuple[wire.Remembered, int]:
    """Write a memory to a root's files, or keep it for its session; reply when that is done."""
    daemon = context.daemon
    if request.scope == Scope.USER and not is_this_user(daemon.config, request.user_id):
        raise InvalidRequest("the files here belong to one user; leave user_id out, or give that user")
    origin, doubt = await context.origin_of(request.origin)
    wanted = Memory(
        id="",
        content=request.content,
        created_at="",
        updated_at="",
        version=1,
        scope=request.scope,
        category=request.category,
        session_id=request.session_id,
        trigger=Trigger.EXPLICIT,
        supersedes=request.supersedes or None,
        related=_related(request.related),
        origin=origin,
        cues=request.cues,
    )
    names = _attribute_texts(request)
    written, reason = await write.remember(
        daemon.memories,
        place,
        wanted,
        partial(_attributes_in, request, names),
        agent_id=request.agent_id,
        evidence=request.evidence,
        names=names,
        allow_secret=request.allow_secret,
        key=request.key,
    )
    reply = _write_reply(written, reason, doubt)
    return reply if request.scope == Scope.SESSION else (reply, written.generation)


def _attributes_in(request: wire.Remember, names: Sequence[str], scope: str) -> FactsPatch:
    """Return the attributes that a request sets. Raises InvalidRequest for bad or private values."""
    for name in (request.agent_id, request.user_id):
        if len(name) > _MOST_NAME or not name.isprintable():
            raise InvalidRequest(f"{name[:64]!r} is no id; use up to {_MOST_NAME} printable characters")
    patch = FactsPatch(
        memory_type=request.memory_type or None,
        importance=request.importance,
        metadata=request.metadata or None,
        agent_id=None if scope == Scope.AGENT else request.agent_id or None,
        user_id=request.user_id or None,
    )
    if problem := patch.problem(scope):
        raise InvalidRequest(problem)
    if any(without_private(text) != text for text in names):
        raise InvalidRequest("metadata contains text that is marked private; leave it out")
    return patch


def _attribute_texts(request: wire.Remember) -> tuple[str, ...]:
    """Return a request's agent and user ids and metadata, as texts to check for secrets."""
    metadata = ""
    if request.metadata:
        if problem := metadata_problem(request.metadata):
            raise InvalidRequest(problem)
        metadata = msgspec.json.encode(request.metadata).decode()
    return tuple(filter(None, (request.agent_id, request.user_id, metadata)))


async def edit(context: Context, place: Workplace, request: wire.Edit) -> tuple[wire.Remembered, int]:
    """Write a new version of a memory with another text, category, cues, evidence or links."""
    origin, doubt = request.origin, ""
    if request.content is not None:
        origin, doubt = await context.origin_of(origin)
    change = versions.Revision(
        content=request.content,
        category=request.category,
        cues=request.cues,
        evidence=request.evidence,
        relate=_related(request.relate),
        unrelate=request.unrelate,
        origin=origin,
        base=request.base,
    )
    written, reason = await versions.edit(
        context.daemon.memories,
        place,
        request.memory_id,
        change,
        scope=request.scope,
        agent_id=request.agent_id,
        allow_secret=request.allow_secret,
        key=request.key,
    )
    return _write_reply(written, reason, doubt), written.generation


def _related(given: Sequence[wire.Edge]) -> tuple[Related, ...]:
    return tuple(Related(edge.id, edge.relationship) for edge in given)


def _write_reply(written: Written, reason: str, doubt: str) -> wire.Remembered:
    """Return the reply to a write: the memory's id, version and path, and if it existed or replaced any."""
    return wire.Remembered(
        memory_id=written.memory.id,
        version=written.memory.version,
        path=written.path,
        replaced=written.replaced,
        base_moved=written.base_moved,
        existed=written.existed,
        scope=written.memory.scope,
        category=written.memory.category,
        reason="; ".join(filter(None, ("" if written.existed else doubt, reason))),
    )


# --- remove, move, restore --------------------------------------------------------------------------------


async def forget(context: Context, place: Workplace, request: wire.Forget) -> tuple[wire.Forgotten, int]:
    """Move a memory (all versions, or one) to the trash or erase it, and cut its text from messages."""
    memories = context.daemon.memories
    if request.scope in {"", Scope.SESSION}:
        cut = await removal.forget_in_session(memories, request.memory_id)
        if cut is not None:
            whole = (request.memory_id,)
            return wire.Forgotten(ids=whole, cut_sentences=cut.sentences, cut_events=cut.events), 0
    await context.wait_until_resumed()
    place = await ids.place_of_scope(memories, place, request.scope, request.agent_id)
    planned = context.planned(wire.Forgotten)
    taking = RemovalTerms(erase=request.erase_now, whole=not request.version_only)
    try:
        index, named = await removal.removal_targets(
            memories,
            place,
            request.memory_id,
            request.scope,
            version_only=request.version_only,
            erase=taking.erase,
        )
    except MemoryNotFound:
        if planned is not None:  # a repetition after a kill: the start finished it
            return planned, 0
        raise
    if planned is None:
        trash = "" if taking.erase else memories.writer.trash.path
        planned = wire.Forgotten(ids=named, trash=trash, unreachable=_UNREACHABLE)
        await context.plan(planned)
    gone, cut, generation = await removal.remove_memories(memories, index, planned.ids, taking, purge=True)
    memories.metrics.forgotten += len(gone)
    return replace(planned, cut_sentences=cut.sentences, cut_events=cut.events), generation


async def undo(
    context: Context, place: Workplace, request: wire.Undo
) -> wire.Undone | tuple[wire.Undone, int]:
    """Take back the newest turn: trash its memories, or restore one that it had forgotten; or list them."""
    await context.wait_until_resumed()
    memories = context.daemon.memories
    view = await context.view(place, token_of(context.daemon.epoch, sys.maxsize // 2))
    if view.waiting:  # a newer turn may be in a root that is not read yet
        raise NotReady(FIRST_BUILD)
    planned = context.planned(wire.Undone)
    if planned is None and (back := await _forgotten_by_prompt(context, place, request.session_id, view)):
        return await _undo_forgetting(context, place, request, view, back)
    if planned is not None and planned.restored:
        return await _redo_restoring(context, place, planned)
    if planned is not None:
        batch = [item for each in planned.memories for item in view.find(each.id, each.scope)]
        if not batch or (context.keyed is not None and context.keyed.is_given):
            return await _undo_reply(context, planned), 0
    else:
        batch = removal.newest_batch(view, request.session_id)
    records = fitting([context.memory_record(*item) for item in batch])
    if request.ids and set(request.ids) != {found.id for _, found in batch}:
        raise InvalidRequest("something else was captured meanwhile; run the command again")
    if not batch or request.preview:
        reason = "" if batch else "no captured memory to undo"
        return wire.Undone(status="ok" if batch else "empty", reason=reason, memories=records)
    if planned is None:
        planned = wire.Undone(memories=records, trash=memories.writer.trash.path)
        await context.plan(planned)
    taking, generation = RemovalTerms(why="undo", batch=_batch_name(context)), 0
    for home in view.maps:
        if gone := tuple(found.id for at, found in batch if at is home):
            index = memories.indexer.open(next(root for root in place.roots if root.top == home.root))
            *_, generation = await removal.remove_memories(memories, index, gone, taking, purge=False)
    memories.metrics.undone += len(batch)
    return await _undo_reply(context, planned), generation


async def _forgotten_by_prompt(
    context: Context, place: Workplace, session_id: str, view: View
) -> tuple[TrashEntry, ...]:
    """Return the versions of the memory that a prompt had forgotten last, if no captured turn is newer."""
    memories = context.daemon.memories
    trash, log = await restoring.find_restorable(memories, place), memories.state.capture_log.listed()
    of_session = {each.memory_id for each in log if not session_id or each.session_id == session_id}
    gone = (each.note for each in trash.here if each.note.why == removal.BY_PROMPT)
    last = next((note for note in gone if note.id in of_session), None)
    times = [memory.time_ns(each.created_at) for _, each in removal.newest_batch(view, session_id)]
    if last is None or last.taken_at * 1e9 <= max(times, default=0):
        return ()
    return trash.entries_of(last.id, last.scope)


async def _undo_forgetting(
    context: Context, place: Workplace, request: wire.Undo, view: View, back: Sequence[TrashEntry]
) -> wire.Undone | tuple[wire.Undone, int]:
    """Restore a memory that a prompt had forgotten, or with `preview` name it."""
    newest = back[-1]
    if request.ids and set(request.ids) != {newest.note.id}:
        raise InvalidRequest("something else was captured meanwhile; run the command again")
    homes = [home for home in view.maps if home.root == newest.note.top]
    records = fitting([context.memory_record(home, newest.memory) for home in homes])
    reply = wire.Undone(memories=records, restored=True)
    if request.preview:
        return reply
    await context.plan(reply)
    memories = context.daemon.memories
    generation = await restoring.restore(memories, place, back)
    memories.metrics.undone += 1
    return reply, generation


async def _redo_restoring(
    context: Context, place: Workplace, planned: wire.Undone
) -> tuple[wire.Undone, int]:
    """Restore the rest of a memory whose restoring was interrupted; return the planned reply."""
    trash, generation = await restoring.find_restorable(context.daemon.memories, place), 0
    for each in planned.memories:
        if back := trash.entries_of(each.id, each.scope):
            generation = await restoring.restore(context.daemon.memories, place, back)
    return planned, generation


def _batch_name(context: Context) -> str:
    """Return the name for all removals of one undo; a repeated request has the same."""
    if context.keyed is None:
        return new_batch()
    return hashlib.blake2b(context.keyed.key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


async def _undo_reply(context: Context, planned: wire.Undone) -> wire.Undone:
    """Return the planned reply with the removed memories' texts, which are in the trash."""
    held = await asyncio.to_thread(context.daemon.memories.writer.trash.held, time.time())
    texts = {(each.note.top, each.note.id): each.memory for each in reversed(held)}
    records = (
        replace(each, content=found.content, cues=found.cues)
        if not each.content and (found := texts.get((each.root, each.id))) is not None
        else each
        for each in planned.memories
    )
    return replace(planned, memories=tuple(records))


async def move(context: Context, place: Workplace, request: wire.Move) -> tuple[wire.Moved, int]:
    """Move a memory to another scope as a new memory; its versions here go to the trash."""
    await context.wait_until_resumed()
    memories, planned = context.daemon.memories, context.planned(wire.Moved)
    try:
        moving = await restoring.plan_move(
            memories,
            place,
            request.memory_id,
            request.to,
            scope=request.scope,
            agent_id=request.agent_id,
            allow_secret=request.allow_secret,
            new_id=planned.memory_id if planned is not None else "",
        )
    except MemoryNotFound:
        if planned is not None:  # a repetition after a kill: the start finished it
            return planned, 0
        raise
    # An agent that widens a scope does not speak for the person.
    origin, doubt = await context.origin_of(moving.new.origin)
    moving = replace(moving, new=replace(moving.new, origin=origin))
    if planned is None:
        planned = wire.Moved(
            memory_id=moving.new.id,
            path=MemoryStore(moving.target.root).path_of(moving.new.id),
            scope=request.to,
            category=moving.new.category,
            ids=moving.ids,
            trash=memories.writer.trash.path,
            unlinked=moving.unlinked,
        )
        await context.plan(planned)
    written, generation = await restoring.move(memories, moving)
    reply = replace(
        planned,
        memory_id=written.memory.id,
        path=written.path,
        category=written.memory.category,
        reason="the same text was there already" if written.memory.id != moving.new.id else doubt,
    )
    return reply, generation


async def restore(context: Context, place: Workplace, request: wire.Restore) -> tuple[wire.Restored, int]:
    """Restore a memory, and those removed with it, from the trash; without an id list the trash."""
    await context.wait_until_resumed()
    memories = context.daemon.memories
    place = await ids.place_of_scope(memories, place, request.scope, request.agent_id)
    if not request.scope:
        place = await pruning.with_documents(memories, place)
    trash = await restoring.find_restorable(memories, place)
    if not request.memory_id:
        listed = tuple(map(_trashed_record, trash.batches(request.scope)))
        return wire.Restored(status="ok" if listed else "empty", restorable=fitting(listed)), 0
    planned = context.planned(wire.Restored)
    if planned is not None and context.keyed is not None and context.keyed.is_given:
        return await _restore_reply(context, place, planned, 0)
    meant = trash.entries_of(request.memory_id, request.scope)
    if not meant and planned is not None:  # a repetition after a kill: the start finished it
        return await _restore_reply(context, place, planned, 0)
    if not meant:
        trash.check_here(request.memory_id, request.scope)
        await restoring.check_exists(memories, place, request.memory_id, request.scope)
        return wire.Restored(status="empty", reason="it is there already"), 0
    meant, replaced_since = await pruning.restorable(memories, place, meant)
    if planned is None:
        named = (wire.Trashed(id=each.note.id, scope=each.note.scope, root=each.note.top) for each in meant)
        planned = wire.Restored(restorable=tuple(named), reason=replaced_since)
        await context.plan(planned)
    generation = await restoring.restore(memories, place, meant)
    return await _restore_reply(context, place, planned, generation)


async def _restore_reply(
    context: Context, place: Workplace, planned: wire.Restored, generation: int
) -> tuple[wire.Restored, int]:
    """Return the reply about restored memories, as they are now; `planned` names them."""
    named = [(each.id, each.scope) for each in planned.restorable]
    named += [(each.id, each.scope) for each in planned.memories]
    view = await place.files.view(generation, time.monotonic() + PATIENCE_S)
    found = [(memory_id, view.find(memory_id, scope)) for memory_id, scope in named]
    shown = fitting([context.memory_record(*item) for _, items in found for item in items])
    missing = ", ".join(memory_id for memory_id, items in found if not items)
    notes = (planned.reason, f"restored, but not used yet: {missing}" if missing else "")
    return wire.Restored(memories=shown, reason="; ".join(filter(None, notes))), generation


def _trashed_record(group: Sequence[TrashEntry]) -> wire.Trashed:
    """Return what is restored together as a wire record: versions of one memory, or pruned documents."""
    newest, first_line = group[0], group[0].memory.first_line
    if newest.note.why == removal.PRUNED:
        newest = min(group, key=removal.trashed_source)
        others = len({removal.trashed_source(each) for each in group}) - 1
        first_line = removal.trashed_source(newest) + (f" and {others:,} more" if others else "")
    return wire.Trashed(
        id=removal.trashed_id(newest),
        ids=tuple(dict.fromkeys(removal.trashed_id(each) for each in reversed(group))),
        scope=newest.note.scope,
        root=newest.note.top,
        why=newest.note.why,
        taken_at=memory.utc(newest.note.taken_at),
        until=memory.utc(newest.note.until),
        first_line=first_line,
    )
