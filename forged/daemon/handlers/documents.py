"""Handlers of imports and documents, between the wire and `forged.memories`.

Each returns its reply and the generation of it. Raises InvalidRequest, MemoryNotFound and StoreError.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.wire_types import check_words, page_of
from forged.errors import InvalidRequest
from forged.memories import PATIENCE_S, MemoryParts, document_store, documents, imports, pruning
from forged.stores import Workplace
from forged_client import protocol as wire

_MOST_BATCH = 64
_Find = Callable[[MemoryParts, Workplace], Awaitable[document_store.FoundDocuments]]
_Remove = Callable[[MemoryParts, document_store.FoundDocuments], Awaitable[int]]


async def import_(context: Context, place: Workplace, request: wire.Import) -> tuple[wire.Imported, int]:
    """Import drafts as memories and report each outcome; with `preview` write nothing."""
    memories = context.daemon.memories
    own = request.own and not await context.doubt()
    terms = imports.ImportTerms(request.scope, own, request.allow_secret, request.allow_forgotten)
    job = await imports.prepare(memories, place, request.drafts, terms, check_words)
    outcomes, generation = job.outcomes(), job.index.generations.wanted
    planned = context.planned(wire.Imported)
    if not request.preview:
        if planned is None:
            planned = wire.Imported(outcomes=outcomes)
            await context.plan(planned)
        outcomes, generation = await imports.write(memories, job)
    if planned is not None:
        outcomes = tuple(map(imports.as_planned, outcomes, planned.outcomes))
    return wire.Imported(outcomes=outcomes, root=job.index.root.top, scope=job.index.root.scope), generation


async def ingest(context: Context, place: Workplace, request: wire.Ingest) -> tuple[wire.Ingested, int]:
    """Write new and changed documents in pieces, report outcomes; with `preview` write nothing."""
    outcomes, index, generation = await documents.ingest(
        context.daemon.memories,
        place,
        request.documents,
        documents.check_attributes(request.agent_id, request.metadata),
        only_shows=request.preview,
        allow_secret=request.allow_secret,
        allow_forgotten=request.allow_forgotten,
    )
    return wire.Ingested(outcomes=outcomes, root=index.root.top), generation


async def list_documents(
    context: Context, place: Workplace, request: wire.ListDocuments
) -> tuple[wire.Documents, int]:
    """Return a page of the documents in files and on the server, by source, and their number."""
    memories, problem = context.daemon.memories, ""
    if request.below:
        records, index = await pruning.ingested_documents(memories, place, request.below)
    else:
        records, problem, index = await document_store.list_documents(memories, place)
    page = tuple(page_of(records, request.offset, request.limit))
    reply = wire.Documents(
        status="ok" if page else "empty",
        reason=problem,
        documents=page,
        total=len(records),
        root=index.root.top,
    )
    return reply, index.generations.visible


async def remove_document(
    context: Context, place: Workplace, request: wire.RemoveDocument
) -> tuple[wire.DocumentRemoved, int]:
    """Remove all pieces of a named document; reply once no search finds any, or after 5 s."""
    find = partial(_find_named, context, request.name)
    return await _remove(context, place, find, document_store.remove_documents)


async def remove_documents(
    context: Context, place: Workplace, request: wire.RemoveDocuments
) -> tuple[wire.DocumentRemoved, int]:
    """Remove documents to the trash, or for good; reply once no search finds any, or after 5 s."""
    if request.erase:
        find = partial(pruning.find_to_erase, names=request.document_ids)
        return await _remove(context, place, find, document_store.remove_documents)
    if len(request.batch) > _MOST_BATCH or (request.batch and not request.batch.isalnum()):
        raise InvalidRequest(f"a batch is a name of up to {_MOST_BATCH} letters and digits")
    find = partial(pruning.find_ingested, ids=request.document_ids, below=request.below)
    prune = partial(pruning.prune, ids=request.document_ids, below=request.below, batch=request.batch)
    return await _remove(context, place, find, prune)


async def _find_named(
    context: Context, name: str, memories: MemoryParts, place: Workplace
) -> document_store.FoundDocuments:
    """Return the documents of a name. Raises MemoryNotFound, unless an earlier attempt removed them."""
    found = await pruning.find_to_erase(memories, place, (name,))
    if not found.records and context.planned(wire.DocumentRemoved) is None:
        raise found.not_found_error(name)
    return found


async def _remove(
    context: Context, place: Workplace, find: _Find, remove: _Remove
) -> tuple[wire.DocumentRemoved, int]:
    """Find documents and remove them, with the reply on record before the first of them goes."""
    await context.wait_until_resumed()
    memories, planned = context.daemon.memories, context.planned(wire.DocumentRemoved)
    await memories.trust.wait_until_open()
    async with memories.ingesting:
        found = await find(memories, place)
        if planned is None:
            pieces = sum(each.pieces for each in found.records)
            planned = wire.DocumentRemoved(documents=found.records, pieces=pieces)
            await context.plan(planned)
        generation = await remove(memories, found)
    await found.index.until_tried(generation, time.monotonic() + PATIENCE_S)
    waits = pruning.has_waiting_removal(memories, planned.documents)
    return replace(planned, waits=waits), max(generation, found.index.generations.visible)
