"""Every way in which memories go, and everything that a removal cleans.

A memory is forgotten (or undone, which leaves waiting messages alone), a piece of a document is taken away, a
moved one lives on elsewhere, and an absent one has had no file for too long. For each of them this module has
one function: files and trash by the writer, rows by `state.removal`, the forgotten texts, messages that wait,
memories of sessions, the server, answers of turns. Raises MemoryNotFound, InvalidRequest and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec.structs import replace

from forged.attributes import UNKNOWN
from forged.errors import ForgedError, InvalidRequest, MemoryNotFound, StoreError
from forged.files import Root, Snapshot, agent_ids, agent_root, org_root, root_at, scan
from forged.map import VectorMap, link
from forged.maps import RootIndex
from forged.memories.ids import is_whole, on_disk, resolve_prefix
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.write import BY_HAND
from forged.memory import Memory, Origin, Scope, Trigger, time_ns
from forged.state import Became, CutCount, Document, Rewrite, RootIds, RootLook
from forged.stores import SessionMemory, View, Workplace, root_of_session
from forged.text.forgetting import without_sentences, words_of
from forged.writing import Taking, Trashed

logger = logging.getLogger(__name__)

_CAPTURED = frozenset({Trigger.CADENCE, Trigger.COMPACTION})
# The first look for absent files comes after a start has done its work.
_AFTER_S, _DAY_S = 600.0, 24 * 3600.0
# While a scan goes on, requests share the interpreter with it.
_PAUSE_S = 0.0005


# --- forgotten -----------------------------------------------------------------------------------------


async def put_away(
    memories: MemoryParts,
    index: RootIndex,
    ids: tuple[str, ...],
    taking: Taking,
    *,
    purge: bool,
    earlier: Sequence[Rewrite] = (),
) -> tuple[tuple[str, ...], CutCount, int]:
    """Remove memories so that no retrieve finds them, and no capture writes their texts again.

    With `purge` sentences with such a text go from all that waits or was given up, too. Returns the ids,
    what was cut out of events, and the generation without them.
    """
    state, top, cut = memories.state, index.root.top, CutCount()
    contents = await _announce(memories, index, ids)
    if purge and taking.erase:  # after a kill nobody would know these texts any more
        cut = await purge_texts(memories, contents)

    async def clean(gone: Sequence[str], root: RootIds) -> None:
        nonlocal cut
        await state.forgotten.add(top, gone, ids)
        await state.removal.forgotten(root, ids, gone)
        if index.root.scope is Scope.ORG and ids and (server := memories.documents_server) is not None:
            await server.remove(Scope.ORG, "", ids)
        if purge:
            cut += await purge_texts(memories, gone)
        else:
            await state.erase_traces()

    taking = _with_rows(memories, top, ids, taking)
    gone, generation = await _remove(memories, index, ids, taking, clean, earlier=earlier)
    return gone, cut, generation


async def forgotten_elsewhere(memories: MemoryParts, index: RootIndex, ids: tuple[str, ...]) -> None:
    """Do here what the same user has had done on another machine."""
    await memories.state.intents.resumed.wait()
    await put_away(memories, index, ids, Taking(), purge=True)


async def forget_in_session(memories: MemoryParts, memory_id: str) -> CutCount | None:
    """Forget a memory of a session, by its whole id; None if no session has it. It was never on a disk."""
    row = memories.session_memories.remove(memory_id)
    if row is None:
        return None
    contents = (row.memory.content,)
    for top in row.tops:
        await memories.state.forgotten.add(top, contents)
    await _drop_of_session(memories, row, contents)
    cut = await purge_texts(memories, contents)
    memories.metrics.forgotten += 1
    return cut


async def purge_texts(memories: MemoryParts, contents: Collection[str]) -> CutCount:
    """Take texts out of all that waits to become a memory, and out of the memories of sessions."""
    texts = await asyncio.to_thread(lambda: [words for words in map(words_of, contents) if words])
    await memories.sessions.held.cut(texts)
    for row in memories.session_memories.remove_saying(lambda text: without_sentences(text, texts)[1] > 0):
        await _drop_of_session(memories, row, contents)
    cut = await memories.capture.purge(texts)
    await memories.state.erase_traces()
    return cut


async def drop_proposals(memories: MemoryParts, drop: Sequence[Document]) -> None:
    """Keep no byte of proposals that waited and were refused."""
    if drop:
        await memories.state.to_review.remove([each.memory.id for each in drop])
        await memories.state.judged.forget((), [each.memory.content for each in drop])
        await memories.state.erase_traces()


async def _announce(memories: MemoryParts, index: RootIndex, ids: tuple[str, ...]) -> list[str]:
    """Make known what is about to be forgotten: a capture that comes between would write it again.

    Returns the texts.
    """
    snapshot, _ = await memories.trust.look(index.root)
    contents = [found.content for found in snapshot.memories if found.id in ids]
    with contextlib.suppress(StoreError):  # known at once; that it is on disk is seen to afterwards
        await memories.state.forgotten.add(index.root.top, contents, ids)
    return contents


async def _drop_of_session(memories: MemoryParts, row: SessionMemory, contents: Collection[str]) -> None:
    top = root_of_session(row.session_id)
    await memories.state.removal.forgotten(RootIds(top), (row.id,), contents)
    memories.sessions.forget(top, (row.id,))


# --- moved, and pieces of documents --------------------------------------------------------------------


async def leave(
    memories: MemoryParts, index: RootIndex, ids: tuple[str, ...], taking: Taking, became: Became
) -> int:
    """Take away what has been copied to another root; its text may be captured again."""

    async def clean(_: Sequence[str], root: RootIds) -> None:
        await memories.state.removal.moved(root, ids, became)

    taking = _with_rows(memories, index.root.top, ids, taking)
    return (await _remove(memories, index, ids, taking, clean))[1]


async def remove_pieces(memories: MemoryParts, index: RootIndex, ids: Sequence[str]) -> int:
    """Erase pieces of documents; return the generation without them, which is not waited for.

    Nothing of them counts as forgotten: the same text may come back at any time.
    """
    details = memories.state.attributes
    is_known = any(details.of(index.root.top, each) != UNKNOWN for each in ids)

    async def clean(_: Sequence[str], root: RootIds) -> None:
        await memories.state.removal.forgotten(root, ids)
        if is_known:
            await memories.state.erase_traces()

    taking = Taking(erase=True, why="document")
    return (await _remove(memories, index, tuple(ids), taking, clean, waits=False))[1]


def _with_rows(memories: MemoryParts, top: str, ids: tuple[str, ...], taking: Taking) -> Taking:
    """Have the rows of the memories go into the trash with them."""
    return replace(taking, rows=memories.state.removal.trashed(top, ids))


async def _remove(
    memories: MemoryParts,
    index: RootIndex,
    ids: tuple[str, ...],
    taking: Taking,
    clean: Callable[[Sequence[str], RootIds], Awaitable[None]],
    *,
    earlier: Sequence[Rewrite] = (),
    waits: bool = True,
) -> tuple[tuple[str, ...], int]:
    """Remove files, then what `clean` does of their texts, then the intent; return ids and the generation."""
    gone = await memories.writer.remove(index, ids, taking, earlier)
    generation = index.mark()
    try:
        await clean(gone.contents, await memories.trust.ids(index.root.top))
        await memories.state.intents.end(gone.intent)
    finally:  # the files are gone, whatever else could not be done
        if waits:
            await index.until_tried(generation, time.monotonic() + PATIENCE_S)
        memories.sessions.forget(index.root.top, ids)
    return gone.ids, generation


# --- which memories a request means --------------------------------------------------------------------


async def meant_to_go(
    memories: MemoryParts, place: Workplace, wanted: str, scope: str, *, version_only: bool, erase: bool
) -> tuple[RootIndex, tuple[str, ...]]:
    """Return the root and the ids that are to go; those to be erased may lie in the trash already.

    An id that is named whole and lies there is meant before one on disk that only begins so.
    """

    async def in_trash(*, whole: bool) -> tuple[RootIndex, tuple[str, ...]] | None:
        held = await asyncio.to_thread(memories.writer.trash.held, time.time())
        if whole and not any(is_whole(wanted, each.memory.id) for each in held):
            return None
        together = went_with(held, place.tops, wanted, scope)
        if not together:
            return None
        if not erase:
            raise MemoryNotFound(
                f"{wanted[:80]!r} lies in the trash already; --now (erase_now) erases it there"
            )
        first, root = together[0], next(each for each in place.roots if each.top == together[0].note.top)
        chain = link([each.memory for each in together if each.note.top == root.top]).chain(first.memory.id)
        return memories.indexer.open(root), (first.memory.id,) if version_only else chain

    try:
        at, memory_id = await on_disk(memories, place, wanted, scope)
    except (MemoryNotFound, InvalidRequest) as error:
        if found := await in_trash(whole=isinstance(error, InvalidRequest)):
            return found
        raise
    if not is_whole(wanted, memory_id) and (found := await in_trash(whole=True)):
        return found
    if version_only:
        return at.index, (memory_id,)
    return at.index, await memories.writer.chain(at.index, memory_id)


def went_with(held: Sequence[Trashed], tops: Collection[str], wanted: str, scope: str) -> tuple[Trashed, ...]:
    """Return the memory that is named and behind it all that went with it, of several times the last time.

    Raises InvalidRequest for the beginning of several ids.
    """
    seen = [each for each in held if each.note.top in tops and scope in {"", each.note.scope}]
    meant = resolve_prefix([each.memory.id for each in seen], wanted)
    if not meant:
        return ()
    first = next(each for each in seen if each.memory.id == meant)
    return (first, *(each for each in held if each.note.batch == first.note.batch and each is not first))


def newest_batch(view: View, session_id: str) -> list[tuple[VectorMap, Memory]]:
    """Return the memories of the newest captured turn, without those that a later turn has replaced.

    Without it the chain would break, and what it had replaced would count as true again.
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
    """Return True if it came out of a conversation; undo leaves what was remembered on request alone."""
    if found.trigger == Trigger.EXPLICIT:
        return found.origin == Origin.EXPLICIT and found.session_id != BY_HAND
    return found.trigger in _CAPTURED


def _batch(found: Memory) -> tuple[str, str]:
    """Return the turn that a memory came of: captured memories are as old as the turn."""
    return found.session_id, found.created_at


# --- absent --------------------------------------------------------------------------------------------


async def follow_absent(memories: MemoryParts) -> None:
    """Sweep once a day, until cancelled. Raises nothing."""
    wait_s = _AFTER_S
    while True:
        await asyncio.sleep(wait_s)
        await sweep_absent(memories, time.time())
        wait_s = _DAY_S


async def sweep_absent(memories: MemoryParts, now: float) -> None:
    """Count the day of a time (Unix seconds) for what is missing anywhere, and forget what is due.

    A day counts if the root is the one at which its memories were seen last, and all of its folders could be
    listed: so an unplugged disk is never swept.
    """
    await memories.state.opened()
    if memories.state.problem:
        return
    home, swept = memories.resolver.home, 0
    known = memories.state.removal.known()
    tops = known.keys() | set(await asyncio.to_thread(_own_tops, home))
    for top in sorted(tops):
        try:
            root = await asyncio.to_thread(root_at, top, home)
            swept += await _sweep(memories, root, known.get(top, set()), now) if root.top == top else 0
        except (ForgedError, OSError) as error:
            logger.info("absent memories not counted root=%s error=%s", top, error)
    if swept:
        logger.info("rows of absent memories swept count=%d", swept)
        try:
            await memories.state.erase_traces()
        except ForgedError as error:
            logger.warning("traces not erased error=%s", error)


async def _sweep(memories: MemoryParts, root: Root, known: set[str], now: float) -> int:
    """Look at one root; return how many memories it has lost for good."""
    removal, ids = memories.state.removal, await memories.trust.ids(root.top)
    known = known | removal.known_as(ids.identities)
    look = await asyncio.to_thread(_look, root, ids, memories.indexer.snapshot(root), now) if known else None
    if look is None:
        return 0
    await removal.noticed(look, known)
    due = removal.due(look, await memories.trust.tracked(root, removal.in_question(look)))
    if due:
        await removal.forgotten(ids, due)
        memories.sessions.forget(root.top, due)
    return len(due)


def _own_tops(home: str) -> list[str]:
    """Return the user's own roots, and those of agents."""
    agents = [agent_root(home, each).top for each in agent_ids(home)]
    return [os.path.realpath(home), org_root(home).top, *agents]


def _look(root: Root, ids: RootIds, before: Snapshot | None, now: float) -> RootLook | None:
    """Look at the files of a root; None where that is not possible. Blocks for the disk."""
    place = _place(root, ids)
    if not place:
        return None
    snapshot = scan(root, before, pause=lambda: time.sleep(_PAUSE_S))
    if any(listing.reason for listing in snapshot.listings) or _place(root, ids) != place:
        return None
    read = [(name, seen) for listing in snapshot.listings for name, seen in listing.files.items()]
    return RootLook(
        root=ids,
        place=place,
        day=time.strftime("%Y-%m-%d", time.gmtime(now)),
        seen=frozenset(seen.memory.id for _, seen in read if seen.memory is not None),
        unread=frozenset(os.path.splitext(name)[0] for name, seen in read if seen.memory is None),
    )


def _place(root: Root, ids: RootIds) -> str:
    """Return a root's identity with the device that its folders lie on, or nothing if it is not there."""
    try:
        path = os.path.join(root.top, root.folders[0])
        while not os.path.isdir(path) and path != root.top:
            path = os.path.dirname(path)
        device = os.stat(path).st_dev
    except OSError:
        return ""
    return f"{ids.identities[0]} {device if os.major(device) else 0:x}" if ids.identities else ""
