"""Move memories between scopes, restore them from the trash, and finish interrupted work.

A move copies first and removes afterwards: a kill in between leaves two copies. All memories that one request
removed come back together, for 7 days. Raises MemoryNotFound, InvalidRequest, SecretFound and StoreError.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from forged import memory
from forged.attributes import carried_over
from forged.errors import InvalidRequest, MemoryNotFound, StoreError
from forged.files import Root, root_at
from forged.map import build_chains
from forged.maps import RootIndex
from forged.memories.document_removal import ERASED, remove_pieces
from forged.memories.ids import check_changeable, check_scope, find_on_disk, place_of_scope
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.pruning import restore_documents, resume_prune
from forged.memories.removal import PRUNED, remove_memories, remove_moved, removed_together
from forged.memories.write import BY_HAND, fields_of, find_secrets, open_root, require_permission
from forged.memory import Memory, Scope, Trigger
from forged.state import Intent, MoveTarget
from forged.stores import Workplace
from forged.trust import elsewhere, stored_identity
from forged.writing import RemovalTerms, TrashEntry, Written, new_batch
from forged_client.private_spans import without_private

logger = logging.getLogger(__name__)


class PlannedMove(msgspec.Struct, frozen=True):
    """A planned move: the new memory, the `ids` of its old chain, the number of dropped links."""

    at: RootIndex
    target: RootIndex
    base: str
    new: Memory
    ids: tuple[str, ...]
    unlinked: int
    insisted: bool


async def plan_move(
    memories: MemoryParts,
    place: Workplace,
    memory_id: str,
    to: str,
    *,
    scope: str = "",
    agent_id: str = "",
    allow_secret: bool = False,
    new_id: str = "",
) -> PlannedMove:
    """Check and plan a move to scope `to`, without writing; the copy gets `new_id`, if given."""
    target, place = await _roots_of_move(memories, place, to, scope, agent_id)
    at, named = await find_on_disk(memories, place, memory_id, scope)
    if target is at.index:
        raise InvalidRequest(f"it has scope {to} already")
    base = at.base(named)
    source = at.file(base.id).memory
    new = replace(
        source,
        id=new_id or memory.new_id(),
        content=without_private(source.content),
        updated_at=memory.utc_now(),
        version=1,
        scope=to,
        session_id=BY_HAND,
        trigger=Trigger.EXPLICIT,
        origin=base.origin,
        # It has no earlier versions, and its links and evidence would lead nowhere.
        supersedes=None,
        related=(),
        evidence=(),
    )
    secrets = await find_secrets(new.content, fields_of(new))
    require_permission(secrets, allowed=allow_secret or base.id in at.admitted.insisted)
    ids = build_chains(at.admitted.memories).chain(base.id)
    return PlannedMove(at.index, target, base.id, new, ids, len(source.related), bool(secrets))


async def move(memories: MemoryParts, moving: PlannedMove) -> tuple[Written, int]:
    """Carry out a planned move: write the memory to its new root, put the old chain into the trash.

    Returns the generation that shows both, too.
    """
    at, target, new = moving.at, moving.target, moving.new
    intent = await asyncio.to_thread(_move_intent, moving)
    await memories.state.intents.begin(intent)
    try:
        patch = carried_over(memories.state.attributes.of(at.root.top, moving.base), new.scope)
        written = await memories.writer.add(target, new, insisted=moving.insisted, patch=patch)
        became = MoveTarget(written.memory.id, written.memory.version, target.root.top, target.root.scope)
        taking = RemovalTerms(why="move", became=became.id)
        generation = await remove_moved(memories, at, moving.ids, taking, became)
    finally:
        await memories.state.intents.drop(intent.key)
    return written, max(written.generation, generation)


async def _roots_of_move(
    memories: MemoryParts, place: Workplace, to: str, scope: str, agent_id: str
) -> tuple[RootIndex, Workplace]:
    """Return the target root, and the place to search in; one of them may be the named agent's."""
    check_scope(to)
    for each in (to, scope):
        check_changeable(each)
    if to != Scope.AGENT:
        return open_root(memories, place, to), await place_of_scope(memories, place, scope, agent_id)
    if scope == Scope.AGENT:
        raise InvalidRequest("it has scope agent already, and stays with its agent")
    there = await place_of_scope(memories, place, to, agent_id)
    if not there.roots:
        there = await memories.resolver.within(place, to, agent_id, make=True)
    return open_root(memories, there, to), place


def _move_intent(moving: PlannedMove) -> Intent:
    """Return the record of a move, by which an interrupted one is finished."""
    at, to = moving.at.root, moving.target.root
    return Intent(
        key=new_batch(),
        kind="move",
        top=at.top,
        scope=at.scope,
        ids=moving.ids,
        why="move",
        became=moving.new.id,
        to_top=to.top,
        identity=stored_identity(at),
        to_scope=to.scope,
        to_identity=stored_identity(to),
    )


class RestorableEntries(msgspec.Struct, frozen=True):
    """Trash entries of a place: `here` can be restored, of `others` the folder is gone or new."""

    here: tuple[TrashEntry, ...]
    others: tuple[TrashEntry, ...]
    gone: Mapping[tuple[Root, str], str]

    def entries_of(self, memory_id: str, scope: str) -> tuple[TrashEntry, ...]:
        """Return all entries removed with a memory, oldest versions first; of several removals the last."""
        return _removed_with(self.here, memory_id, scope)

    def check_here(self, memory_id: str, scope: str) -> None:
        """Refuse a memory whose folder is not at its path now. Raises InvalidRequest."""
        if meant := _removed_with(self.others, memory_id, scope):
            raise InvalidRequest(
                f"{memory_id[:80]!r} lay in another folder ({self.gone[_root_and_identity(meant[0])]}); "
                "restore it with a daemon that runs where that folder is, such as its container"
            )

    def batches(self, scope: str) -> list[list[TrashEntry]]:
        """Return trash entries of a scope in groups removed together from one root, the last group first."""
        groups = dict[tuple[str, str], list[TrashEntry]]()
        for each in sorted(self.here, key=lambda each: -each.note.taken_at):
            groups.setdefault((each.note.batch, each.note.top), []).append(each)
        found = [
            sorted(group, key=lambda each: each.memory.age_key, reverse=True) for group in groups.values()
        ]
        return [each for each in found if scope in {"", each[0].note.scope}]


async def find_restorable(memories: MemoryParts, place: Workplace) -> RestorableEntries:
    """Find a place's trash entries: restorable ones, and those whose folder is gone or new."""
    held = await asyncio.to_thread(memories.writer.trash.held, time.time())
    named = [each for each in held if each.note.top in place.tops]
    gone = await asyncio.to_thread(elsewhere, map(_root_and_identity, named))
    here = tuple(each for each in named if _root_and_identity(each) not in gone)
    return RestorableEntries(here, tuple(each for each in named if _root_and_identity(each) in gone), gone)


async def restore(memories: MemoryParts, place: Workplace, meant: Sequence[TrashEntry]) -> int:
    """Restore trash entries, with their table rows, to a place's roots; return the generation."""
    generation = 0
    for root in place.roots:
        if some := [each for each in meant if each.note.top == root.top]:
            back = restore_documents if some[0].note.why == PRUNED else _restore_root
            generation = max(generation, await back(memories, memories.indexer.open(root), some))
    return generation


async def check_exists(memories: MemoryParts, place: Workplace, memory_id: str, scope: str) -> None:
    """Raise MemoryNotFound, with advice on the trash, unless the memory is on disk."""
    try:
        await find_on_disk(memories, place, memory_id, scope)
    except MemoryNotFound as error:
        raise MemoryNotFound(
            f"no memory {memory_id[:80]!r} in the trash of this workspace; "
            "`forgectl restore` lists what can come back, for 7 days"
        ) from error


async def _restore_root(memories: MemoryParts, index: RootIndex, some: Sequence[TrashEntry]) -> int:
    """Restore a root's trash entries and rows, allow their texts again; return the generation."""
    rows = {each.note.id: each.note.rows for each in some}
    await memories.state.removal.restore_rows(index.root.top, rows)
    intent = await memories.writer.restore(index, some)
    generation = index.mark()
    texts = [each.memory.content for each in some]
    await memories.state.forgotten.withdraw(index.root.top, texts, rows)
    await memories.state.intents.end(intent)
    await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    memories.sessions.purge()
    return generation


def _root_and_identity(each: TrashEntry) -> tuple[Root, str]:
    """Return the root of a trash entry, with the identity that it had."""
    return Root(each.note.top, Scope(each.note.scope)), each.note.identity


def _removed_with(there: Sequence[TrashEntry], memory_id: str, scope: str) -> tuple[TrashEntry, ...]:
    """Return the entries removed with a memory, oldest version first; none if it is not there."""
    found = removed_together(there, {each.note.top for each in there}, memory_id, scope)
    return tuple(sorted(found, key=lambda each: each.memory.age_key))


async def resume(memories: MemoryParts) -> None:
    """Finish interrupted removals, moves and restores of an earlier daemon; new ones wait for that.

    Work that fails now, or belongs to a folder that is not at its path now, waits for the next start.
    """
    intents = memories.state.intents
    intents.resumed.clear()
    try:
        await memories.state.wait_until_open()
        for intent in tuple(intents.values()):
            await _resume_one(memories, intent)
    finally:
        intents.resumed.set()


async def _resume_one(memories: MemoryParts, intent: Intent) -> None:
    """Finish one interrupted removal, move or restore, unless its folder is gone or replaced."""
    intents = memories.state.intents
    if gone := await asyncio.to_thread(elsewhere, roots_of(intent)):
        logger.warning("waits for its folder kind=%s reason=%s", intent.kind, next(iter(gone.values())))
        return
    if not await asyncio.to_thread(os.path.isdir, intent.top) or intent.key not in intents:
        return  # the folder is missing, or a person dropped the intent
    try:
        await _finish_steps(memories, intent)
        await intents.drop(intent.key)
        logger.info("finished after a kill kind=%s ids=%d", intent.kind, len(intent.ids))
    except StoreError as error:
        logger.warning("cannot finish kind=%s error=%s", intent.kind, error)


def roots_of(intent: Intent) -> list[tuple[Root, str]]:
    """Return the roots of an interrupted removal, move or restore, with the identities that they had."""
    ends = ((intent.top, intent.scope, intent.identity), (intent.to_top, intent.to_scope, intent.to_identity))
    return [(Root(top, Scope(scope)), identity) for top, scope, identity in ends if top]


async def _finish_steps(memories: MemoryParts, intent: Intent) -> None:
    """Carry out the remaining steps of an interrupted removal, restore or move."""
    index = memories.indexer.open(await asyncio.to_thread(root_at, intent.top, memories.resolver.home))
    taking = RemovalTerms(intent.erase, intent.why, intent.batch, became=intent.became)
    if intent.kind == "remove" and intent.why == ERASED:
        await remove_pieces(memories, index, intent.ids)
    elif intent.kind == "remove" and intent.why == PRUNED:
        await resume_prune(memories, index, intent.ids, intent.batch)
    elif intent.kind == "remove" and any(
        each.kind == "move" and each.top == intent.top and set(each.ids) >= set(intent.ids)
        for each in memories.state.intents.values()
    ):
        return  # the move is finished as a whole
    elif intent.kind == "remove":
        purge = intent.why == "forget"
        await remove_memories(memories, index, intent.ids, taking, purge=purge, earlier=intent.rewrites)
    elif intent.kind == "restore":
        held = await asyncio.to_thread(memories.writer.trash.held, time.time())
        of_intent = (intent.batch, intent.top)
        if some := [each for each in held if (each.note.batch, each.note.top) == of_intent]:
            await _restore_root(memories, index, some)
    else:
        target = root_at(intent.to_top, memories.resolver.home)
        _, there = await memories.trust.look(target)
        for each in there.memories:
            if each.id == intent.became:
                became = MoveTarget(each.id, each.version, target.top, target.scope)
                await remove_moved(memories, index, intent.ids, taking, became)
