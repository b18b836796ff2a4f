"""Documents that all agents of the user may search: ingested, listed, removed, followed on a team's server.

A document is written as memory files, one for each of its pieces, in the root of scope org. Its text passes
the checks of every memory. Of a text that changed all new pieces are there before the old ones go. Ids of
pieces say which text they are of, so a repetition after a kill does what is left. One document is written at
a time. What was forgotten of a document in the last 7 days is not written again.

Where documents are shared, the server says which ones there are; files are what this machine has brought. A
removed document, or one whose source has another text by now, leaves a mark there, by which its files go on
every machine. A server that cannot be asked holds up nothing and is named in what is returned.

Raises InvalidRequest, MemoryNotFound and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from forged import documents, memory
from forged.attributes import Facts, FactsPatch, metadata_problem
from forged.config import KnowledgeConfig
from forged.errors import ForgedError, InvalidRequest, MemoryNotFound, SharedError, StoreError
from forged.files import AGENT_ID, org_root
from forged.maps import RootIndex
from forged.memories.ids import look
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.removal import remove_pieces
from forged.memories.write import secrets_now
from forged.memory import Memory, Scope, one_form, time_ns
from forged.stores import Workplace
from forged.text.private import without_private
from forged.text.redaction import shapes_in
from forged.writing import Draft, Written
from forged_client.protocol import Document, DocumentFate, DocumentRecord

if TYPE_CHECKING:
    from forged.postgres import ServerDocument, ServerDocuments, Shared, Stored

logger = logging.getLogger(__name__)

THERE, WAITS = "there", "waits"
_MOST_SOURCE = 1024
_LOOK = "`forgectl ingest --list` shows what is there"
_AGAIN_S, _PAUSE_S = 60.0, 0.1
_TICK = timedelta(microseconds=1)

_There = dict[str, dict[str, Memory]]
"""The pieces that are there, by their source and id."""


class _Made(msgspec.Struct, frozen=True):
    """A document as it is to be written: all its pieces, those that are missing, ids that they replace."""

    source: str
    pieces: tuple[Memory, ...]
    missing: tuple[Memory, ...]
    older: tuple[str, ...]
    older_documents: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    insisted: bool = False

    @property
    def kept(self) -> tuple[Memory, ...]:
        """The pieces that are there in the end."""
        return tuple(each for each in self.pieces if each.id not in self.forgotten)

    @property
    def became(self) -> str:
        if self.older:
            return "replaced"
        if not self.missing:
            return "there"
        return "new" if len(self.missing) == len(self.pieces) else "completed"

    def fate(self, written: int) -> DocumentFate:
        return DocumentFate(
            source=self.source,
            became=self.became,
            document_id=_document_of(self.pieces[0]),
            pieces=len(self.pieces),
            written=written,
            forgotten=len(self.forgotten),
        )


async def ingest(
    memories: MemoryParts,
    place: Workplace,
    asked: Sequence[Document],
    said: FactsPatch,
    *,
    only_shows: bool = False,
    allow_secret: bool = False,
    allow_forgotten: bool = False,
) -> tuple[tuple[DocumentFate, ...], RootIndex, int]:
    """Write what is not there yet, document by document; with `only_shows` only say what would be done.

    Returns their fates, the root, and the generation that shows them.
    """
    await memories.trust.opened()
    index = await _index(memories, place, make=not only_shows)
    fates: list[DocumentFate] = []
    generation = index.generations.wanted
    tops = tuple(dict.fromkeys((index.root.top, *place.tops)))
    since = memories.state.forgotten.since

    def is_forgotten(text: str) -> bool:
        return not allow_forgotten and since(tops, text) is not None

    async with memories.ingesting:
        there = await _there(memories, index)
        for each in asked:
            cut = partial(_made, how=memories.config.knowledge, allow_secret=allow_secret)
            made = await asyncio.to_thread(cut, each, there, is_forgotten)
            if isinstance(made, DocumentFate) or only_shows:
                fates.append(made if isinstance(made, DocumentFate) else made.fate(len(made.missing)))
                continue
            fate, seen = await _written(memories, index, made, said)
            fates.append(fate)
            generation = max(generation, seen)
            if fate.became != "refused":
                there[made.source] = {piece.id: piece for piece in made.pieces}
    if any(fate.became == "replaced" for fate in fates) and not only_shows:
        await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    return tuple(fates), index, generation


def attributes_of(agent_id: str, metadata: dict[str, Any]) -> FactsPatch:
    """Return what is known of each piece beside its file. Raises InvalidRequest."""
    if agent_id and AGENT_ID.fullmatch(agent_id) is None:
        raise InvalidRequest(f"{agent_id[:80]!r} is no agent's id")
    if problem := metadata_problem(metadata):
        raise InvalidRequest(problem)
    if found := shapes_in(msgspec.json.encode(metadata).decode()):
        raise InvalidRequest(
            f"the metadata holds what looks like a secret ({', '.join(found)}); leave it out"
        )
    return FactsPatch(metadata=metadata or None, agent_id=agent_id or None)


async def _index(memories: MemoryParts, place: Workplace, *, make: bool = False) -> RootIndex:
    (root,) = (await memories.resolver.within(place, Scope.ORG, make=make)).roots
    return memories.indexer.open(root)


async def _there(memories: MemoryParts, index: RootIndex) -> _There:
    """Return the pieces on disk, where everything is that was ever acknowledged."""
    seen = await look(memories, index)
    found: _There = {}
    for each in seen.admitted.memories:
        if each.piece is not None:
            found.setdefault(each.piece.source, {})[each.id] = each
    return found


def _made(
    asked: Document,
    there: _There,
    is_forgotten: Callable[[str], bool],
    *,
    how: KnowledgeConfig,
    allow_secret: bool,
) -> _Made | DocumentFate:
    """Return a document as it is to be written, or its fate instead."""
    source, text = asked.source, without_private(asked.text)
    if problem := _problem(asked):
        return DocumentFate(source=source[:_MOST_SOURCE], became="refused", reason=problem)
    secrets = secrets_now(text, (source,))
    if secrets and not allow_secret:
        told = f"it holds what looks like a secret ({', '.join(secrets)})"
        return DocumentFate(source=source, became="secret", reason=told)
    pieces = documents.pieces(
        source, text, size=how.chunk_size, overlap=how.overlap, is_markdown=asked.is_markdown,
        now=memory.utc_now(),
    )  # fmt: skip
    if not pieces:
        told = "nothing is left of it without what is marked private"
        return DocumentFate(source=source, became="refused", reason=told)
    there_now, ids = there.get(source, {}), {each.id for each in pieces}
    absent = [each for each in pieces if each.id not in there_now]
    forgotten = frozenset(each.id for each in absent if is_forgotten(each.content))
    older = tuple(each for each in there_now if each not in ids)
    return _Made(
        source,
        pieces,
        missing=tuple(each for each in absent if each.id not in forgotten),
        older=older,
        older_documents=frozenset(_document_of(there_now[each]) for each in older),
        forgotten=forgotten,
        insisted=bool(secrets),
    )


def _problem(asked: Document) -> str:
    """Return why a document cannot be one, or nothing."""
    source = asked.source
    if not source.strip() or len(source) > _MOST_SOURCE or not source.isprintable():
        return f"its source is not a line of 1 to {_MOST_SOURCE:,} printable characters"
    return "it is empty" if not asked.text.strip() else ""


async def _written(
    memories: MemoryParts, index: RootIndex, made: _Made, said: FactsPatch
) -> tuple[DocumentFate, int]:
    """Write what is missing, then take away what it replaces; return the generation that shows it, too."""
    drafts = [Draft(each, insisted=made.insisted, again=True, said=said) for each in made.missing]
    done = await memories.writer.add_all(index, drafts)
    written = [each for each in done if isinstance(each, Written)]
    memories.metrics.remembered += sum(not each.existed for each in written)
    generation = max((each.generation for each in written), default=index.generations.wanted)
    failed = next((each for each in done if isinstance(each, StoreError)), None)
    if failed is not None:
        refused = {"became": "refused", "reason": str(failed), "code": failed.code}
        return replace(made.fate(len(written)), **refused), generation
    there = await _bring(memories, made.kept, made.older_documents, said)
    if made.older:
        generation = await remove_pieces(memories, index, made.older)
    return replace(made.fate(len(written)), shared=there), generation


# --- what is there -------------------------------------------------------------------------------------


async def list_documents(
    memories: MemoryParts, place: Workplace
) -> tuple[list[DocumentRecord], str, RootIndex]:
    """Return all documents by their sources, why the server could not be asked, and the root."""
    index = await _index(memories, place)
    server, problem = await _held(memories)
    found = await _documents_there(memories, index)
    return _records(memories, index, found, server), problem, index


async def _documents_there(memories: MemoryParts, index: RootIndex) -> dict[str, list[Memory]]:
    """Return the pieces of each; while a text takes the place of another, one source has two documents."""
    found: dict[str, list[Memory]] = {}
    for some in (await _there(memories, index)).values():
        for each in some.values():
            found.setdefault(_document_of(each), []).append(each)
    return found


def _document_of(memory: Memory) -> str:
    return memory.piece.document_id if memory.piece is not None else ""


def _records(
    memories: MemoryParts,
    index: RootIndex,
    found: Mapping[str, Sequence[Memory]],
    server: Sequence[ServerDocument],
) -> list[DocumentRecord]:
    """Return documents in files and on the server as one list by their sources, each once."""
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
        assert piece is not None, "it was found by its piece"
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


class Named(msgspec.Struct, frozen=True):
    """Documents of one name: in files, by the `ids` of their pieces, and on the server."""

    index: RootIndex
    ids: tuple[str, ...]
    records: tuple[DocumentRecord, ...]
    server: Sequence[ServerDocument]
    problem: str

    def not_found(self, name: str) -> MemoryNotFound:
        return MemoryNotFound("; ".join(filter(None, (f"no document {name[:80]!r}", self.problem or _LOOK))))


async def named(memories: MemoryParts, place: Workplace, name: str) -> Named:
    """Return the documents with this source or id."""
    index = await _index(memories, place)
    there = await _documents_there(memories, index)
    found = {each: some for each, some in there.items() if _is_named(name, some[0])}
    server, problem = await _held(memories, name)
    records = _records(memories, index, found, server)
    ids = tuple(each.id for some in found.values() for each in some)
    return Named(index, ids, tuple(records), server, problem)


async def remove_documents(memories: MemoryParts, found: Named) -> tuple[bool, int]:
    """Take away every piece; return whether that waits for the server, and the generation without them."""
    waits = await _take_away(memories, [each.document_id for each in found.records], found.server)
    if not found.ids:
        return waits, found.index.generations.visible
    return waits, await remove_pieces(memories, found.index, found.ids)


def _is_named(name: str, piece: Memory) -> bool:
    if piece.piece is None:
        return False
    return one_form(name) in {piece.piece.document_id, one_form(piece.piece.source)}


# --- on a team's server ----------------------------------------------------------------------------------


def _stock_of(shared: Shared) -> ServerDocuments:
    from forged.postgres import ServerDocuments  # noqa: PLC0415 - what it needs is an extra

    return ServerDocuments(shared)


async def _bring(
    memories: MemoryParts, pieces: Sequence[Memory], older: Collection[str], said: FactsPatch
) -> str:
    """Have the server hold these pieces of one document, and then no other document of their source.

    `older` are such that are known here. Returns what the server has now: there, waits, or why not.
    """
    shared = memories.documents_server
    if shared is None or not pieces:
        return ""
    try:
        return await _brought(shared, pieces, older, said)
    except (SharedError, StoreError) as error:
        return str(error)


async def _brought(shared: Shared, pieces: Sequence[Memory], older: Collection[str], said: FactsPatch) -> str:
    first = pieces[0].piece
    assert first is not None, "it was cut out of a document"
    document, waiting = first.document_id, shared.outbox.pieces_of(first.document_id)
    others: dict[str, datetime | None] = dict.fromkeys(older)
    held: frozenset[str] = frozenset()
    since = None
    try:
        stock = _stock_of(shared)
        held = await stock.pieces(document)
        since = (await stock.gone([document])).get(document)
        others |= {each.document_id: each.newest for each in await stock.named(first.source)}
    except SharedError as error:
        if not error.is_away and error.reason != "unusable":
            raise
    lacking = [each for each in pieces if each.id not in held and each.id not in waiting]
    if lacking:
        await shared.put([_row(each, said, since) for each in lacking])
    for other in others.keys() - {document}:
        await shared.remove_document(other, newest=others[other])
    return WAITS if shared.outbox.pieces_of(document) else THERE


def _row(memory: Memory, said: FactsPatch, since: datetime | None) -> Stored:
    """Return a piece as a row that is newer than the mark of when its document was taken away before."""
    from forged.postgres import Stored  # noqa: PLC0415 - as above

    assert memory.piece is not None
    created = datetime.fromisoformat(memory.created_at)
    return Stored(
        scope=Scope.ORG,
        owner="",
        id=memory.id,
        content=memory.content,
        facts=said.apply(Facts(source=memory.piece.source)),
        created_at=created if since is None else max(created, since + _TICK),
        document_id=memory.piece.document_id,
        chunk_index=memory.piece.index,
    )


async def _held(memories: MemoryParts, name: str = "") -> tuple[list[ServerDocument], str]:
    """Return documents on the server, all or those of a name, and why it could not be asked."""
    shared = memories.documents_server
    if shared is None:
        return [], ""
    try:
        stock = _stock_of(shared)
        found = await (stock.named(name) if name else stock.all())
    except SharedError as error:
        return [], f"the shared server was not asked: {error}"
    leaving = shared.outbox.documents_leaving
    return [each for each in found if each.document_id not in leaving], ""


async def _take_away(
    memories: MemoryParts, documents: Collection[str], known: Sequence[ServerDocument]
) -> bool:
    """Take documents from the server, durably; return whether that waits for it. Raises StoreError."""
    shared = memories.documents_server
    if shared is None:
        return False
    newest = {each.document_id: each.newest for each in known}
    for each in documents:
        await shared.remove_document(each, newest=newest.get(each))
    return bool(shared.outbox.documents_leaving & set(documents))


async def follow_documents(memories: MemoryParts) -> None:
    """Remove files of documents that went elsewhere, until cancelled: on changes, and once a minute.

    A document that was brought anew since is newer than the mark of its removal, and stays. Raises nothing.
    """
    shared, wanted = memories.documents_server, asyncio.Event()
    if shared is None:
        return
    end = shared.listen(lambda change: wanted.set() if change.scope in {"", Scope.ORG} else None)
    try:
        while True:
            wanted.clear()
            try:
                await _step(memories)
            except ForgedError as error:
                logger.info("documents are not in step with the shared server error=%s", type(error).__name__)
            await asyncio.sleep(_PAUSE_S)  # a client that brings many documents tells of each
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await wanted.wait()
    finally:
        end()


async def _step(memories: MemoryParts) -> None:
    shared, root = memories.documents_server, org_root(memories.resolver.home)
    if shared is None or not await asyncio.to_thread(os.path.isdir, root.directories[0]):
        return
    await memories.trust.opened()
    async with memories.ingesting:
        index = memories.indexer.open(root)
        there = await _documents_there(memories, index)
        names = [name for document, some in there.items() for name in (document, *(each.id for each in some))]
        gone = await _stock_of(shared).gone(names)
        if dead := tuple(_dead(there, gone)):
            await remove_pieces(memories, index, dead)


def _dead(there: Mapping[str, list[Memory]], gone: Mapping[str, datetime]) -> Iterator[str]:
    for document, some in there.items():
        for each in some:
            marks = (at for at in (gone.get(document), gone.get(each.id)) if at is not None)
            if any(at.timestamp() * 1e9 >= time_ns(each.created_at) for at in marks):
                yield each.id
