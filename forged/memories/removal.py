"""Remove memories: forgotten, undone or moved; see also `document_removal` and `absent`.

Each way has one function, which cleans everything: files and trash (the writer), rows (`state.removal`),
forgotten texts, pending messages (except for undo), memories of sessions, the server, cached turns. Raises
MemoryNotFound, InvalidRequest and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec.structs import replace

from forged.errors import InvalidRequest, MemoryNotFound, StoreError
from forged.files import Root
from forged.map import VectorMap, build_chains
from forged.maps import RootIndex
from forged.memories.ids import find_on_disk, is_complete_id, resolve_prefix
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.write import BY_HAND
from forged.memory import OF_PERSON, Memory, Origin, Scope, Trigger, one_form, time_ns
from forged.state import CutCount, DecidedMemory, MoveTarget, Rewrite, RootIds
from forged.stores import SessionMemory, View, Workplace, root_of_session
from forged.text.forgetting import without_sentences, words_of
from forged.writing import RemovalTerms, TrashEntry

_CAPTURED = frozenset({Trigger.CADENCE, Trigger.COMPACTION})
# Reasons of removals in the notes of the trash: a person's prompt; documents whose files are gone.
BY_PROMPT, PRUNED = "prompt", "prune"
# Scopes and origins of memories that a person's prompt may forget.
_FORGOTTEN_AS_SAID = frozenset({Scope.REPO, Scope.USER})
_OWN_WORDS = OF_PERSON | {Origin.AGREED}


async def remove_memories(
    memories: MemoryParts,
    index: RootIndex,
    ids: tuple[str, ...],
    taking: RemovalTerms,
    *,
    purge: bool,
    earlier: Sequence[Rewrite] = (),
) -> tuple[tuple[str, ...], CutCount, int]:
    """Trash or erase memories with their rows and traces, so that no capture writes them again.

    With `purge`, sentences with such a text are also removed from pending and failed events. Returns the ids,
    the numbers of removed sentences, and the generation without the memories.
    """
    state, top, cut = memories.state, index.root.top, CutCount()
    contents = await _mark_forgotten(memories, index, ids)
    if purge and taking.erase:  # after a kill these texts would be unknown
        cut = await purge_texts(memories, contents)

    async def clean(gone: Sequence[str], root: RootIds) -> None:
        """Mark the texts as forgotten, and remove all traces of the memories but their files."""
        nonlocal cut
        await state.forgotten.add(top, gone, ids)
        await state.removal.forget(root, ids, gone)
        if index.root.scope is Scope.ORG and ids:
            await memories.remove_from_server("chain", ids)
        if purge:
            cut += await purge_texts(memories, gone)
        else:
            await state.erase_traces()

    taking = with_rows(memories, top, ids, taking)
    gone, generation = await remove_files(memories, index, ids, taking, clean, earlier=earlier)
    return gone, cut, generation


async def forget_as_said(memories: MemoryParts, root: Root, named: Memory) -> bool:
    """Move a memory to the trash because a person's prompt means it; return False if a command must.

    It must be on record here as the person's own words, in a root of the user or a repository, and in no
    file that git may bring back. Messages keep its text, as one of them asks to forget it.
    """
    if root.scope not in _FORGOTTEN_AS_SAID or named.origin not in _OWN_WORDS or named.piece is not None:
        return False
    await memories.state.intents.resumed.wait()
    index = memories.indexer.open(root)
    chain = await memories.writer.chain(index, named.id)
    if not chain or await memories.trust.tracked(root, chain):
        return False
    gone, *_ = await remove_memories(
        memories, index, chain, RemovalTerms(why=BY_PROMPT, whole=True), purge=False
    )
    memories.metrics.forgotten += len(gone)
    return bool(gone)


async def apply_remote_forget(memories: MemoryParts, index: RootIndex, ids: tuple[str, ...]) -> None:
    """Trash memories that the same user forgot on another machine, and remove their traces."""
    await memories.state.intents.resumed.wait()
    await remove_memories(memories, index, ids, RemovalTerms(), purge=True)


async def forget_in_session(memories: MemoryParts, memory_id: str) -> CutCount | None:
    """Remove a session's memory and its text everywhere; return what was cut, None if unknown."""
    row = memories.session_memories.remove(memory_id)
    if row is None:
        return None
    contents = (row.memory.content,)
    for top in row.tops:
        await memories.state.forgotten.add(top, contents)
    await _drop_session_memory(memories, row, contents)
    cut = await purge_texts(memories, contents)
    memories.metrics.forgotten += 1
    return cut


async def purge_texts(memories: MemoryParts, contents: Collection[str]) -> CutCount:
    """Remove texts from pending events, proposals, session memories; return counts of cuts."""
    texts = await asyncio.to_thread(lambda: [words for words in map(words_of, contents) if words])
    await memories.sessions.buffer.cut(texts)
    for row in memories.session_memories.remove_saying(lambda text: without_sentences(text, texts)[1] > 0):
        await _drop_session_memory(memories, row, contents)
    cut = await memories.capture.purge(texts)
    await memories.state.erase_traces()
    return cut


async def drop_proposals(memories: MemoryParts, drop: Sequence[DecidedMemory]) -> None:
    """Erase proposals from the review list, and their texts from the capture log."""
    if drop:
        await memories.state.to_review.remove([each.memory.id for each in drop])
        await memories.state.capture_log.forget((), [each.memory.content for each in drop])
        await memories.state.erase_traces()


async def _mark_forgotten(memories: MemoryParts, index: RootIndex, ids: tuple[str, ...]) -> list[str]:
    """Mark memories' texts as forgotten, so that no capture writes them again; return the texts."""
    snapshot, _ = await memories.trust.look(index.root)
    contents = [found.content for found in snapshot.memories if found.id in ids]
    with contextlib.suppress(StoreError):  # in force at once; durable later
        await memories.state.forgotten.add(index.root.top, contents, ids)
    return contents


async def _drop_session_memory(memories: MemoryParts, row: SessionMemory, contents: Collection[str]) -> None:
    """Erase a session's memory from database tables and from the sessions' last replies."""
    top = root_of_session(row.session_id)
    await memories.state.removal.forget(RootIds(top), (row.id,), contents)
    memories.sessions.forget(top, (row.id,))


async def remove_moved(
    memories: MemoryParts, index: RootIndex, ids: tuple[str, ...], taking: RemovalTerms, became: MoveTarget
) -> int:
    """Remove memories that were copied to another root, and move their rows; return the generation."""

    async def clean(_: Sequence[str], root: RootIds) -> None:
        await memories.state.removal.move_rows(root, ids, became)

    taking = with_rows(memories, index.root.top, ids, taking)
    return (await remove_files(memories, index, ids, taking, clean))[1]


def with_rows(memories: MemoryParts, top: str, ids: tuple[str, ...], taking: RemovalTerms) -> RemovalTerms:
    """Return the terms of a removal with the memories' table rows, which the trash keeps."""
    return replace(taking, rows=memories.state.removal.rows_for_trash(top, ids))


async def remove_files(
    memories: MemoryParts,
    index: RootIndex,
    ids: tuple[str, ...],
    taking: RemovalTerms,
    clean: Callable[[Sequence[str], RootIds], Awaitable[None]],
    *,
    earlier: Sequence[Rewrite] = (),
    waits: bool = True,
) -> tuple[tuple[str, ...], int]:
    """Remove files, then call `clean` for their texts, then drop the intent; return ids and generation."""
    gone = await memories.writer.remove(index, ids, taking, earlier)
    generation = index.mark()
    try:
        await clean(gone.contents, await memories.trust.ids(index.root.top))
        await memories.state.intents.end(gone.intent)
    finally:  # the files are gone even if the cleanup fails
        if waits:
            await index.until_tried(generation, time.monotonic() + PATIENCE_S)
        memories.sessions.forget(index.root.top, ids)
    return gone.ids, generation


async def removal_targets(
    memories: MemoryParts, place: Workplace, wanted: str, scope: str, *, version_only: bool, erase: bool
) -> tuple[RootIndex, tuple[str, ...]]:
    """Return root and ids of a memory to remove, of all versions or one; for an erase also in the trash.

    A complete id in the trash wins over a prefix of one on disk.
    """

    async def in_trash(*, whole: bool) -> tuple[RootIndex, tuple[str, ...]] | None:
        """Return root and ids of a memory in the trash, or None; raise if there without `erase`."""
        held = await asyncio.to_thread(memories.writer.trash.held, time.time())
        if whole and not any(is_complete_id(wanted, each.memory.id) for each in held):
            return None
        together = removed_together(held, place.tops, wanted, scope)
        if not together:
            return None
        if not erase:
            raise MemoryNotFound(f"{wanted[:80]!r} is in the trash already; --now (erase_now) erases it")
        first, root = together[0], next(each for each in place.roots if each.top == together[0].note.top)
        chain = build_chains([each.memory for each in together if each.note.top == root.top]).chain(
            first.memory.id
        )
        return memories.indexer.open(root), (first.memory.id,) if version_only else chain

    try:
        at, memory_id = await find_on_disk(memories, place, wanted, scope)
    except (MemoryNotFound, InvalidRequest) as error:
        if found := await in_trash(whole=isinstance(error, InvalidRequest)):
            return found
        raise
    if not is_complete_id(wanted, memory_id) and (found := await in_trash(whole=True)):
        return found
    if version_only:
        return at.index, (memory_id,)
    return at.index, await memories.writer.chain(at.index, memory_id)


def removed_together(
    held: Sequence[TrashEntry], tops: Collection[str], wanted: str, scope: str
) -> tuple[TrashEntry, ...]:
    """Return the trash entries of a memory and of all removed with it; of several removals the last.

    A document is meant by its id or its source. Raises InvalidRequest for an ambiguous prefix.
    """
    seen = [each for each in held if each.note.top in tops and scope in {"", each.note.scope}]
    meant, source = resolve_prefix(map(trashed_id, seen), wanted), one_form(wanted)
    first = next(
        (each for each in seen if meant == trashed_id(each) or source == one_form(trashed_source(each))), None
    )
    if first is None:
        return ()
    return (first, *(each for each in held if each.note.batch == first.note.batch and each is not first))


def trashed_id(entry: TrashEntry) -> str:
    """Return the id by which a trash entry is restored: of the memory, or of a pruned document."""
    piece = entry.memory.piece
    return entry.memory.id if piece is None or entry.note.why != PRUNED else piece.document_id


def trashed_source(entry: TrashEntry) -> str:
    """Return the source of a pruned document by one of its trash entries, "" for another memory."""
    piece = entry.memory.piece
    return "" if piece is None or entry.note.why != PRUNED else piece.source


def newest_batch(view: View, session_id: str) -> list[tuple[VectorMap, Memory]]:
    """Return, for an undo, the unreplaced memories of the newest captured turn that has any.

    Removing replaced ones would break the chain and revive what they had replaced.
    """
    standing = [
        (home, found)
        for home in view.maps
        for found in home.memories
        if _was_captured(found)
        and (not session_id or found.session_id == session_id)
        and (head := home.find(home.chains.head(found.id))) is not None
        and _batch(head) == _batch(found)
    ]
    newest = max(standing, key=lambda item: (time_ns(item[1].created_at), item[1].id), default=None)
    return [item for item in standing if newest is not None and _batch(item[1]) == _batch(newest[1])]


def _was_captured(found: Memory) -> bool:
    """Return True if a memory was captured from a conversation; undo ignores requested ones."""
    if found.trigger == Trigger.EXPLICIT:
        return found.origin == Origin.EXPLICIT and found.session_id != BY_HAND
    return found.trigger in _CAPTURED


def _batch(found: Memory) -> tuple[str, str]:
    """Return the turn that a memory was captured in: its session and time."""
    return found.session_id, found.created_at
