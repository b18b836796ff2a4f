"""Existing documents, in files and on a team's server: list, remove, send, and follow.

The server knows all documents; files are those that this machine ingested. A document that was removed, or
whose source has a new text, leaves a mark on the server, by which its files are removed on every machine. An
unreachable server delays nothing and is named in the result. Raises MemoryNotFound and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from forged import memory
from forged.attributes import Facts, FactsPatch
from forged.errors import ForgedError, MemoryNotFound, SharedError, StoreError
from forged.files import org_root
from forged.map import VectorMap
from forged.maps import RootIndex
from forged.memories.document_removal import remove_from_server, remove_pieces
from forged.memories.ids import scan_root
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memory import Memory, Scope, one_form, time_ns
from forged.models import Vectors
from forged.state import DOCUMENTS
from forged.stores import Workplace
from forged.writing import TrashEntry
from forged_client.protocol import DocumentRecord

if TYPE_CHECKING:
    from forged.postgres import ServerDocument, ServerDocuments, SharedServer, Stored

logger = logging.getLogger(__name__)
THERE, WAITS = "there", "waits"
_LOOK = "`forgectl ingest --list` shows what is there"
_AGAIN_S, _AFTER_ERROR_S, _PAUSE_S = 60.0, 2.0, 0.1
_TICK = timedelta(microseconds=1)
_SAME = timedelta(milliseconds=50)  # two measured offsets of one clock may differ by so much
_ABSENT = WeakKeyDictionary[RootIndex, frozenset[str]]()
_IN_MAPS = WeakKeyDictionary[VectorMap, frozenset[str]]()
Pieces = dict[str, dict[str, Memory]]
"""Existing pieces by their source and id."""


async def org_index(memories: MemoryParts, place: Workplace, *, make: bool = False) -> RootIndex:
    """Open the root of scope org, which holds all documents; with `make` create its folders first."""
    (root,) = (await memories.resolver.within(place, Scope.ORG, make=make)).roots
    return memories.indexer.open(root)


async def pieces_there(memories: MemoryParts, index: RootIndex) -> Pieces:
    """Return the usable pieces on disk of all documents: for each source, its pieces by id."""
    seen = await scan_root(memories, index)
    found: Pieces = {}
    for each in seen.admitted.memories:
        if each.piece is not None:
            found.setdefault(each.piece.source, {})[each.id] = each
    return found


async def list_documents(
    memories: MemoryParts, place: Workplace
) -> tuple[list[DocumentRecord], str, RootIndex]:
    """Return all documents of disk and server, why the server was not asked, and the root."""
    index = await org_index(memories, place)
    server, problem = await _server_documents_named(memories)
    found = await documents_there(memories, index)
    return _records(memories, index, found, server), problem, index


async def documents_there(memories: MemoryParts, index: RootIndex) -> dict[str, list[Memory]]:
    """Return the pieces of each document on disk, by document id."""
    found: dict[str, list[Memory]] = {}
    for some in (await pieces_there(memories, index)).values():
        for each in some.values():
            found.setdefault(document_id_of(each), []).append(each)
    return found


def document_id_of(memory: Memory) -> str:
    """Return the id of the document that a piece belongs to, "" for another memory."""
    return memory.piece.document_id if memory.piece is not None else ""


def _records(
    memories: MemoryParts,
    index: RootIndex,
    found: Mapping[str, Sequence[Memory]],
    server: Sequence[ServerDocument],
) -> list[DocumentRecord]:
    theirs = {each.document_id: each for each in server}
    records = [
        DocumentRecord(
            document_id=each.document_id,
            source=each.source,
            pieces=each.pieces,
            of=each.pieces,
            created_at=memory.utc(each.created_at.timestamp()),
            agent_id=each.agent_id,
            metadata=dict(each.metadata),
            shared=True,
            here=False,
        )
        for each in server
        if each.document_id not in found
    ]
    for document_id, some in found.items():
        piece, detail = some[0].piece, memories.state.attributes.of(index.root.top, some[0].id)
        assert piece is not None, "it was found by its part"
        record = DocumentRecord(
            document_id=document_id,
            source=piece.source,
            pieces=len(some),
            of=piece.of,
            created_at=min(each.created_at for each in some),
            agent_id=detail.agent_id,
            metadata=detail.metadata,
            shared=document_id in theirs,
        )
        records.append(record)
    return sorted(records, key=lambda each: (each.source, each.created_at))


class FoundDocuments(msgspec.Struct, frozen=True):
    """Documents of some sources or ids: in files (`ids` of pieces), on the server, and pruned ones."""

    index: RootIndex
    ids: tuple[str, ...]
    records: tuple[DocumentRecord, ...]
    server: Sequence[ServerDocument]
    problem: str
    pruned: Sequence[TrashEntry] = ()

    def not_found_error(self, name: str) -> MemoryNotFound:
        return MemoryNotFound("; ".join(filter(None, (f"no document {name[:80]!r}", self.problem or _LOOK))))


async def find_documents(memories: MemoryParts, place: Workplace, names: Collection[str]) -> FoundDocuments:
    """Return the documents in files and on the server that have one of these sources or ids."""
    index = await org_index(memories, place)
    wanted = frozenset(map(one_form, names))
    there = await documents_there(memories, index)
    found = {each: some for each, some in there.items() if _is_named(wanted, some[0])}
    server, problem = await _server_documents_named(memories, names)
    ids = tuple(each.id for some in found.values() for each in some)
    return FoundDocuments(index, ids, tuple(_records(memories, index, found, server)), server, problem)


async def remove_documents(memories: MemoryParts, found: FoundDocuments) -> int:
    """Remove documents from disk, server and trash for good; return the generation without them."""
    await remove_from_server(memories, [each.document_id for each in found.records], found.server)
    await asyncio.to_thread(memories.writer.trash.drop, found.pruned)
    return await remove_pieces(memories, found.index, found.ids) if found.ids else 0


def _is_named(wanted: frozenset[str], piece: Memory) -> bool:
    of = piece.piece
    return of is not None and bool(wanted & {of.document_id, one_form(of.source)})


def _server_documents(shared: SharedServer) -> ServerDocuments:
    from forged.postgres import ServerDocuments  # noqa: PLC0415 - needs an extra

    return ServerDocuments(shared)


async def send_to_server(
    memories: MemoryParts, pieces: Sequence[Memory], older: Collection[str], patch: FactsPatch
) -> str:
    """Send a document's pieces to the team's server, remove older documents; return the state.

    The state is there, waits, or the reason of a failure; "" without a server.
    """
    shared = memories.documents_server
    if shared is None or not pieces:
        return ""
    try:
        return await _write_pieces(shared, pieces, older, patch)
    except (SharedError, StoreError) as error:
        return str(error)


async def _write_pieces(
    shared: SharedServer, pieces: Sequence[Memory], older: Collection[str], patch: FactsPatch
) -> str:
    """Write pieces that the server lacks, and remove older documents there; return the state."""
    first = pieces[0].piece
    assert first is not None, "it is part of a document"
    document, waiting = first.document_id, shared.outbox.pieces_of(first.document_id)
    others: dict[str, datetime | None] = dict.fromkeys(older)
    held: frozenset[str] = frozenset()
    since, vectors = None, dict[str, tuple[Vectors, str]]()
    try:
        stock = _server_documents(shared)
        since = (await stock.gone([document])).get(document)
        vectors = await stock.vectors(older)
        others |= {each.document_id: each.newest for each in await stock.named((first.source, *older))}
        if document not in shared.outbox.ids_to_remove and not _is_older(
            shared, others.get(document), pieces
        ):
            held = await stock.piece_ids(document)
    except SharedError as error:
        if not error.is_away and error.reason != "unusable":
            raise
    lacking = [each for each in pieces if each.id not in held and each.id not in waiting]
    await shared.state.replicas.record_sent(DOCUMENTS, {document: document})
    if lacking:
        rows = [_to_row(shared, each, patch, since) for each in lacking]
        await shared.put([_with_vector(row, vectors.get(row.content)) for row in rows])
    for other in others.keys() - {document}:
        await shared.remove_document(other, newest=others[other])
    await shared.state.replicas.drop(DOCUMENTS, others.keys() - {document})
    if not shared.outbox.pieces_of(document):
        return THERE
    reason = shared.outbox.reason_of(document)
    return f"{WAITS}: {reason}" if reason else WAITS


def _is_older(shared: SharedServer, newest: datetime | None, pieces: Sequence[Memory]) -> bool:
    """Return True if rows are older than these pieces: a removal that is still on its way may take them."""
    return newest is not None and max(_created(shared, each) for each in pieces) - newest > _SAME


def _created(shared: SharedServer, memory: Memory) -> datetime:
    """Return when a piece was written, by the clock of the server."""
    offset = timedelta(seconds=shared.state.server_clock.offset_s)
    return datetime.fromisoformat(memory.created_at) + offset


def _to_row(
    shared: SharedServer,
    memory: Memory,
    patch: FactsPatch,
    since: datetime | None,
) -> Stored:
    """Return a piece as a server row that is newer than any earlier removal mark of its document."""
    from forged.postgres import Stored  # noqa: PLC0415 - needs an extra

    assert memory.piece is not None
    created = _created(shared, memory)
    return Stored(
        scope=Scope.ORG,
        owner="",
        id=memory.id,
        content=memory.content,
        facts=patch.apply(Facts(source=memory.piece.source)),
        created_at=created if since is None else max(created, since + _TICK),
        document_id=memory.piece.document_id,
        chunk_index=memory.piece.index,
    )


def _with_vector(row: Stored, known: tuple[Vectors, str] | None) -> Stored:
    """Return a row with the vector and model of the same text in another document, if that is known."""
    return row if known is None else msgspec.structs.replace(row, vector=known[0], model=known[1])


async def _server_documents_named(
    memories: MemoryParts, names: Collection[str] | None = None
) -> tuple[list[ServerDocument], str]:
    """Return documents on the server, all or those of some names, and why it could not be asked."""
    shared = memories.documents_server
    if shared is None:
        return [], ""
    try:
        stock = _server_documents(shared)
        found = await (stock.all() if names is None else stock.named(names))
    except SharedError as error:
        return [], f"the shared server was not asked: {error}"
    leaving = shared.outbox.ids_to_remove
    return [each for each in found if each.document_id not in leaving], ""


def hidden_documents(memories: MemoryParts) -> frozenset[str]:
    """Return the ids of documents and pieces that no answer has: removal pending, or files missing here."""
    return memories.state.outbox.ids_to_remove | absent_documents(memories)


async def documents_without_copy(memories: MemoryParts) -> frozenset[str]:
    """Return the ids of documents in files here, and of those that no answer has; waits for the map."""
    index = memories.indexer.open(org_root(memories.resolver.home))
    await index.until_tried(1, time.monotonic() + PATIENCE_S)
    here = _documents_in(index.map) if index.map is not None else frozenset[str]()
    return here | hidden_documents(memories)


def absent_documents(memories: MemoryParts) -> frozenset[str]:
    """Return the ids of documents that this machine sent to the server and that are in no file here.

    While the map lacks files that were just written, those of the last complete map.
    """
    index = memories.indexer.open(org_root(memories.resolver.home))
    met = memories.state.replicas.of(DOCUMENTS)
    if not met or index.map is None:
        return frozenset()
    if index.generations.tried < index.generations.wanted:
        return _ABSENT.get(index, frozenset()) & met.keys()
    _ABSENT[index] = frozenset(met.keys() - _documents_in(index.map))
    return _ABSENT[index]


def _documents_in(home: VectorMap) -> frozenset[str]:
    """Return the ids of the documents in a map; read once for each map."""
    found = _IN_MAPS.get(home)
    if found is None:
        found = _IN_MAPS[home] = frozenset(map(document_id_of, home.memories))
    return found


async def removal_times(memories: MemoryParts, ids: Sequence[str]) -> dict[str, datetime]:
    """Return when documents were removed from the server, by id and this machine's clock; none if offline."""
    with contextlib.suppress(SharedError):
        if (shared := memories.documents_server) is not None:
            offset = timedelta(microseconds=shared.state.server_clock.offset_us)
            gone = await _server_documents(shared).gone(ids)
            return {each: at - offset for each, at in gone.items()}
    return {}


async def follow_documents(memories: MemoryParts) -> None:
    """Remove files of documents that were removed elsewhere, until cancelled: on changes and each minute.

    After an error it looks again soon. A document that was ingested again is newer than the mark of its
    removal, and stays. After each connect, the newer of two documents of one source stays. Raises nothing.
    """
    shared, wanted, connected = memories.documents_server, asyncio.Event(), asyncio.Event()
    if shared is None:
        return
    ends = (
        shared.listen(lambda change: wanted.set() if change.scope in {"", Scope.ORG} else None),
        shared.listen(lambda change: None if change.scope else connected.set()),
    )
    try:
        while True:
            wanted.clear()
            again_s = _AGAIN_S
            try:
                await _remove_stale_files(memories)
                if connected.is_set() and not _has_unsent(shared):
                    connected.clear()
                    await _settle_sources(memories, shared)
                    continue
                again_s = _AFTER_ERROR_S if connected.is_set() else _AGAIN_S
            except ForgedError as error:
                connected.set()  # a settling may be unfinished
                again_s = _AFTER_ERROR_S
                logger.debug(
                    "documents are not in step with the shared server error=%s", type(error).__name__
                )
            await asyncio.sleep(_PAUSE_S)  # a client that sends many documents notifies for each
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(again_s):
                    await wanted.wait()
    finally:
        for end in ends:
            end()


def _has_unsent(shared: SharedServer) -> bool:
    """Return True if writes wait that the server has not refused yet."""
    waiting = shared.outbox.count(frozenset({"put", "remove", "document"}))
    return waiting > sum(shared.outbox.troubles.values())


async def _settle_sources(memories: MemoryParts, shared: SharedServer) -> None:
    """Remove all but the newest document of each source here: offline machines know of no other's."""
    there = await documents_there(memories, memories.indexer.open(org_root(memories.resolver.home)))
    sent = there.keys() & memories.state.replicas.of(DOCUMENTS)
    sources = {each.piece.source for document in sent for each in there[document] if each.piece}
    by_source: dict[str, list[ServerDocument]] = {}
    for each in await _server_documents(shared).named(sources) if sources else ():
        by_source.setdefault(each.source, []).append(each)
    for some in by_source.values():
        *older, _ = sorted(some, key=lambda each: (each.newest, each.document_id))
        for each in older:
            at = each.newest + _SAME  # it may be ingested again just now
            await shared.remove(Scope.ORG, "", (each.document_id,), kind="document", at=at)


async def _remove_stale_files(memories: MemoryParts) -> None:
    """Remove the files of all documents that were removed on another machine."""
    shared, root = memories.documents_server, org_root(memories.resolver.home)
    if shared is None or not await asyncio.to_thread(os.path.isdir, root.directories[0]):
        return
    await memories.trust.wait_until_open()
    async with memories.ingesting:
        index = memories.indexer.open(root)
        there = await documents_there(memories, index)
        names = [name for document, some in there.items() for name in (document, *(each.id for each in some))]
        gone = await _server_documents(shared).gone(names)
        dead = frozenset(_removed_pieces(there, gone, shared.state.server_clock.offset_us))
        if dead:
            whole = {each for each, some in there.items() if all(piece.id in dead for piece in some)}
            await memories.state.replicas.drop(DOCUMENTS, whole)  # first, or it would count as absent
            await remove_pieces(memories, index, sorted(dead))


def _removed_pieces(
    there: Mapping[str, list[Memory]], gone: Mapping[str, datetime], offset_us: int
) -> Iterator[str]:
    """Yield ids of pieces of documents that were removed later, by a clock that is `offset_us` ahead."""
    for document, some in there.items():
        for each in some:
            marks = (at for at in (gone.get(document), gone.get(each.id)) if at is not None)
            created_ns = time_ns(each.created_at) + offset_us * 1000
            if any(at.timestamp() * 1e9 >= created_ns for at in marks):
                yield each.id
