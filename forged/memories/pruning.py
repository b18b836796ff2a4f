"""List the documents of a folder, prune those whose file is gone, and restore these.

A prune takes only documents whose file this machine has recorded below the folder. Their pieces are in the
trash for 7 days. A restore writes them again, as newer than the marks that a prune leaves on a team's server.
Raises InvalidRequest and StoreError.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from forged import memory
from forged.attributes import patch_of
from forged.documents import document_of
from forged.errors import InvalidRequest, StoreError
from forged.files import org_root
from forged.maps import RootIndex
from forged.memories.document_removal import remove_from_server, trash_documents
from forged.memories.document_store import (
    FoundDocuments,
    document_id_of,
    documents_there,
    find_documents,
    org_index,
    pieces_there,
    removal_times,
    send_to_server,
)
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.removal import PRUNED, trashed_id, trashed_source
from forged.memory import Memory, one_form
from forged.stores import Workplace
from forged.writing import TrashEntry, WriteRequest, Written
from forged_client.protocol import DocumentRecord, LocalFile

_TICK_S = 1e-6


async def ingested_documents(
    memories: MemoryParts, place: Workplace, below: str
) -> tuple[list[DocumentRecord], RootIndex]:
    """Return the documents whose file this machine ingested from a folder, by source, and their root."""
    await memories.state.wait_until_open()
    index = await org_index(memories, place)
    there = await documents_there(memories, index)
    records = [
        DocumentRecord(
            document_id=each.document_id,
            source=source,
            pieces=len(some := there.get(each.document_id, [])),
            of=max((found.piece.of for found in some if found.piece is not None), default=0),
            file=LocalFile(each.path, each.disk),
            digest=each.digest,
            here=bool(some),
        )
        for source, each in memories.state.ingested.below(below).items()
    ]
    return sorted(records, key=lambda each: each.source), index


async def find_to_erase(memories: MemoryParts, place: Workplace, names: Collection[str]) -> FoundDocuments:
    """Return the documents of some sources or ids, with pruned ones, which are in the trash."""
    found = await find_documents(memories, place, names)
    wanted, top = frozenset(map(one_form, names)), found.index.root.top
    held = await asyncio.to_thread(memories.writer.trash.held, time.time())
    pruned = [each for each in held if each.note.top == top and each.note.why == PRUNED]
    pruned = [each for each in pruned if wanted & {trashed_id(each), one_form(trashed_source(each))}]
    counts = Counter((trashed_id(each), trashed_source(each)) for each in pruned)
    known = {each.document_id for each in found.records}
    records = (
        DocumentRecord(document_id=document, source=source, pieces=count, of=count, here=False)
        for (document, source), count in counts.items()
        if document not in known
    )
    return replace(found, records=(*found.records, *records), pruned=tuple(pruned))


async def find_ingested(
    memories: MemoryParts, place: Workplace, *, ids: Collection[str], below: str
) -> FoundDocuments:
    """Return those of these documents whose file was ingested from a folder. Raises InvalidRequest."""
    if not below:
        raise InvalidRequest("which folder? Only documents whose file was ingested from it can be pruned")
    await memories.state.wait_until_open()
    return await find_documents(memories, place, _ingested_ids(memories, ids, below))


async def prune(
    memories: MemoryParts, found: FoundDocuments, *, ids: Collection[str], below: str, batch: str = ""
) -> int:
    """Move documents of a folder to the trash, and remove them from the server; return the generation.

    Documents of one `batch` are restored together.
    """
    documents = _ingested_ids(memories, ids, below)
    send = partial(remove_from_server, memories, known=found.server)
    if not documents:
        return found.index.generations.visible
    return await trash_documents(memories, found.index, documents, found.ids, send=send, batch=batch)


def _ingested_ids(memories: MemoryParts, ids: Collection[str], below: str) -> tuple[str, ...]:
    """Return those of these ids of documents whose file was ingested from a folder."""
    wanted, rows = frozenset(ids), memories.state.ingested.below(below).values()
    return tuple(each.document_id for each in rows if each.document_id in wanted)


async def resume_prune(memories: MemoryParts, index: RootIndex, ids: Sequence[str], batch: str) -> None:
    """Finish a prune that a kill interrupted, by the ids of its pieces."""
    documents, send = frozenset(map(document_of, ids)), partial(remove_from_server, memories)
    await trash_documents(memories, index, documents, ids, send=send, batch=batch)


def replaced_sources(there: Mapping[str, Mapping[str, Memory]], entries: Iterable[TrashEntry]) -> set[str]:
    """Return the sources of pruned documents that have another document now."""
    pieces = [each.memory.piece for each in entries if each.memory.piece is not None]
    return {
        each.source
        for each in pieces
        if any(document_id_of(now) != each.document_id for now in there.get(each.source, {}).values())
    }


async def restorable(
    memories: MemoryParts, place: Workplace, entries: Sequence[TrashEntry]
) -> tuple[tuple[TrashEntry, ...], str]:
    """Return the trash entries to restore, and why others stay. Raises InvalidRequest if all stay."""
    if not any(each.note.why == PRUNED for each in entries):
        return tuple(entries), ""
    there = await pieces_there(memories, await org_index(memories, place))
    newer = replaced_sources(there, (each for each in entries if each.note.why == PRUNED))
    left = tuple(each for each in entries if trashed_source(each) not in newer)
    names = ", ".join(sorted(newer))
    why = f"not restored, because another text was ingested since: {names}" if newer else ""
    if not left:
        raise InvalidRequest(why)
    return left, why


async def restore_documents(memories: MemoryParts, index: RootIndex, entries: Sequence[TrashEntry]) -> int:
    """Write pruned documents again, with their rows, here and on the server; return the generation."""
    generation = index.generations.visible
    async with memories.ingesting:
        entries = await asyncio.to_thread(memories.writer.trash.still_there, entries)
        documents = dict[str, list[TrashEntry]]()
        for each in entries:
            documents.setdefault(document_id_of(each.memory), []).append(each)
        marks = await removal_times(memories, tuple(documents))
        for document, some in documents.items():
            created = memory.utc_now()
            if (mark := marks.get(document)) is not None:
                created = max(created, memory.utc(mark.timestamp() + _TICK_S))
            generation = max(generation, await _restore_document(memories, index, some, created))
            await asyncio.to_thread(memories.writer.trash.drop, some)
    await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    return generation


async def _restore_document(
    memories: MemoryParts, index: RootIndex, entries: Sequence[TrashEntry], created: str
) -> int:
    """Write one document's pieces from the trash as created at a time; return the generation."""
    pieces = [replace(each.memory, created_at=created, updated_at=created) for each in entries]
    patch, first = patch_of(entries[0].note.rows.facts), pieces[0].piece
    insisted = any(each.note.own is not None and each.note.own.insisted for each in entries)
    drafts = [WriteRequest(each, insisted=insisted, again=True, patch=patch) for each in pieces]
    done = await memories.writer.add_all(index, drafts)
    for each in done:
        if isinstance(each, StoreError):
            raise each
    rows = {each.note.id: each.note.rows for each in entries}
    await memories.state.removal.restore_rows(index.root.top, rows)
    if first is not None and (file := entries[0].note.rows.file) is not None:
        await memories.state.ingested.store({first.source: file})
    await send_to_server(memories, pieces, (), patch)
    return max(each.generation for each in done if isinstance(each, Written))


async def with_documents(memories: MemoryParts, place: Workplace) -> Workplace:
    """Return a place that has the root of documents, too, if it exists."""
    root = org_root(memories.resolver.home)
    if root in place.roots or not await asyncio.to_thread(os.path.isdir, root.top):
        return place
    return memories.resolver.of_roots(place, (*place.roots, root))


def has_waiting_removal(memories: MemoryParts, records: Sequence[DocumentRecord]) -> bool:
    """Return True if the server does not know yet that one of these documents was removed."""
    waiting = frozenset[str]() if memories.shared is None else memories.shared.outbox.ids_to_remove
    return any(each.document_id in waiting for each in records)
