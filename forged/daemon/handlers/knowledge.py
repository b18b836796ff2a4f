"""Documents that all agents of the user may search: `ingest`, `list_documents`, `remove_document`.

A document is written as memory files, one for each of its pieces, in the root of scope org. What it says
passes what `remember` passes: private spans are left out, and a secret is refused, unless somebody insists.
Of a text that changed all new pieces are there before the old ones go. No state is kept of how far that came:
ids of pieces say which text they are of, so asking again after a kill does what is left. One document is
written at a time. What somebody forgot of a document in the last 7 days is not written again. Where documents
are shared a team's server has them as well, and takes part in all three verbs.

Raised are InvalidRequest, MemoryNotFound and StoreError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from forged import documents, memory
from forged.attributes import UNKNOWN, Facts, FactsPatch, metadata_problem
from forged.config import KnowledgeConfig
from forged.daemon.handlers.context import PATIENCE_S, Context, Daemon
from forged.daemon.handlers.naming import look
from forged.daemon.handlers.refusals import InvalidRequest
from forged.daemon.handlers.shared_documents import bring, held, take_away
from forged.errors import MemoryNotFound, StoreError
from forged.files import AGENT_ID
from forged.maps import RootIndex
from forged.memory import Memory, Scope, one_form
from forged.scopes import Workplace
from forged.text.private import without_private
from forged.text.redaction import shapes_in
from forged.writing import Draft, Taking, Written
from forged_client import protocol as wire

if TYPE_CHECKING:
    from forged.postgres import ServerDocument

_MOST_SOURCE = 1024
_MOST_LISTED = 1000
_LOOK = "`forgectl ingest --list` shows what is there"

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

    def fate(self, written: int) -> wire.DocumentFate:
        return wire.DocumentFate(
            source=self.source,
            became=self.became,
            document_id=_document_of(self.pieces[0]),
            pieces=len(self.pieces),
            written=written,
            forgotten=len(self.forgotten),
        )


async def ingest(context: Context, place: Workplace, request: wire.Ingest) -> tuple[wire.Ingested, int]:
    """Write what is not there yet, document by document; with `look` only tell what would become of them."""
    said = _said(request)
    await context.daemon.trust.opened()
    index = await _index(context, place, make=not request.look)
    fates: list[wire.DocumentFate] = []
    generation = index.generations.wanted
    tops = tuple(dict.fromkeys((index.root.top, *place.tops)))
    async with context.daemon.ingesting:
        there = await _there(context, index)
        for each in request.documents:
            made = await asyncio.to_thread(_made, context, tops, request, each, there)
            if isinstance(made, wire.DocumentFate) or request.look:
                fates.append(made if isinstance(made, wire.DocumentFate) else made.fate(len(made.missing)))
                continue
            fate, seen = await _written(context, index, made, said)
            fates.append(fate)
            generation = max(generation, seen)
            if fate.became != "refused":
                there[made.source] = {piece.id: piece for piece in made.pieces}
    if any(fate.became == "replaced" for fate in fates) and not request.look:
        await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    return wire.Ingested(fates=tuple(fates), root=index.root.top), generation


def _said(request: wire.Ingest) -> FactsPatch:
    """What is known of each piece beside its file. Raises InvalidRequest."""
    if request.agent_id and AGENT_ID.fullmatch(request.agent_id) is None:
        raise InvalidRequest(f"{request.agent_id[:80]!r} is no agent's id")
    if problem := metadata_problem(request.metadata):
        raise InvalidRequest(problem)
    if found := shapes_in(msgspec.json.encode(request.metadata).decode()):
        raise InvalidRequest(
            f"the metadata holds what looks like a secret ({', '.join(found)}); leave it out"
        )
    return FactsPatch(metadata=request.metadata or None, agent_id=request.agent_id or None)


async def _index(context: Context, place: Workplace, *, make: bool = False) -> RootIndex:
    (root,) = (await context.daemon.resolver.within(place, Scope.ORG, make=make)).roots
    return context.daemon.indexer.open(root)


async def _there(context: Context, index: RootIndex) -> _There:
    """What lies on disk, where everything is that was ever acknowledged."""
    seen = await look(context, index)
    found: _There = {}
    for each in seen.admitted.memories:
        if each.piece is not None:
            found.setdefault(each.piece.source, {})[each.id] = each
    return found


def _made(
    context: Context, tops: Sequence[str], request: wire.Ingest, asked: wire.Document, there: _There
) -> _Made | wire.DocumentFate:
    """What is to be written of a document, or what becomes of it instead."""
    if problem := _problem(asked):
        return wire.DocumentFate(source=asked.source[:_MOST_SOURCE], became="refused", reason=problem)
    text = without_private(asked.text)
    secrets = tuple(dict.fromkeys((*shapes_in(text), *shapes_in(asked.source))))
    if secrets and not request.allow_secret:
        told = f"it holds what looks like a secret ({', '.join(secrets)})"
        return wire.DocumentFate(source=asked.source, became="secret", reason=told)
    pieces = _pieces(asked, text, context.daemon.config.knowledge)
    if not pieces:
        told = "nothing is left of it without what is marked private"
        return wire.DocumentFate(source=asked.source, became="refused", reason=told)
    forgotten = context.daemon.state.forgotten

    def is_forgotten(text: str) -> bool:
        return not request.allow_forgotten and forgotten.since(tops, text) is not None

    return _of(asked.source, pieces, there, is_forgotten, insisted=bool(secrets))


def _problem(asked: wire.Document) -> str:
    """Why a document cannot be one, or nothing."""
    source = asked.source
    if not source.strip() or len(source) > _MOST_SOURCE or not source.isprintable():
        return f"its source is not a line of 1 to {_MOST_SOURCE:,} printable characters"
    return "it is empty" if not asked.text.strip() else ""


def _pieces(asked: wire.Document, text: str, how: KnowledgeConfig) -> tuple[Memory, ...]:
    return documents.pieces(
        asked.source, text, size=how.chunk_size, overlap=how.overlap, is_markdown=asked.is_markdown,
        now=memory.utc_now(),
    )  # fmt: skip


def _of(
    source: str,
    pieces: tuple[Memory, ...],
    there: _There,
    is_forgotten: Callable[[str], bool],
    *,
    insisted: bool,
) -> _Made:
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
        insisted=insisted,
    )


async def _written(
    context: Context, index: RootIndex, made: _Made, said: FactsPatch
) -> tuple[wire.DocumentFate, int]:
    """Write what is missing, then take away what it replaces; and the generation that shows it."""
    drafts = [Draft(each, insisted=made.insisted, again=True, said=said) for each in made.missing]
    done = await context.daemon.writer.add_all(index, drafts)
    written = [each for each in done if isinstance(each, Written)]
    context.daemon.metrics.remembered += sum(not each.existed for each in written)
    generation = max((each.generation for each in written), default=index.generations.wanted)
    failed = next((each for each in done if isinstance(each, StoreError)), None)
    if failed is not None:
        refused = {"became": "refused", "reason": str(failed), "code": failed.code}
        return msgspec.structs.replace(made.fate(len(written)), **refused), generation
    there = await bring(context.daemon, made.kept, made.older_documents, said)
    if made.older:
        generation = await take_files_away(context.daemon, index, made.older)
    return msgspec.structs.replace(made.fate(len(written)), shared=there), generation


async def take_files_away(daemon: Daemon, index: RootIndex, ids: Sequence[str]) -> int:
    """Remove pieces for good; the generation that is without them.

    Nothing of it counts as forgotten: the same text may come back at any time.
    """
    gone = await daemon.writer.remove(index, tuple(ids), Taking(erase=True, why="document"))
    generation = index.mark()
    is_known = any(daemon.state.attributes.of(index.root.top, each) != UNKNOWN for each in ids)
    try:
        await daemon.state.removal.forgotten(await daemon.trust.ids(index.root.top), ids)
        if is_known:
            await daemon.state.erase_traces()
        await daemon.writer.finish(gone)
    finally:
        daemon.retriever.turns.forget(index.root.top, ids)
    return generation


# --- what is there -------------------------------------------------------------------------------------


async def list_documents(
    context: Context, place: Workplace, request: wire.ListDocuments
) -> tuple[wire.Documents, int]:
    """A page of the documents, by their sources."""
    index = await _index(context, place)
    server, problem = await held(context.daemon)
    records = _with_shared(_records(context, index, await documents_there(context, index)), server)
    start, count = max(request.offset, 0), min(max(request.limit, 0), _MOST_LISTED)
    page = tuple(records[start : start + count])
    reply = wire.Documents(
        status="ok" if page else "empty",
        reason=problem,
        documents=page,
        total=len(records),
        root=index.root.top,
    )
    return reply, index.generations.visible


async def documents_there(context: Context, index: RootIndex) -> dict[str, list[Memory]]:
    """The pieces of each; while a text takes the place of another, one source has two documents."""
    found: dict[str, list[Memory]] = {}
    for some in (await _there(context, index)).values():
        for each in some.values():
            found.setdefault(_document_of(each), []).append(each)
    return found


def _document_of(memory: Memory) -> str:
    return memory.piece.document_id if memory.piece is not None else ""


def _records(
    context: Context, index: RootIndex, found: Mapping[str, Sequence[Memory]]
) -> list[wire.DocumentRecord]:
    facts = context.daemon.state.attributes
    records = [
        _record(document_id, some, facts.of(index.root.top, some[0].id))
        for document_id, some in found.items()
    ]
    return sorted(records, key=lambda each: (each.source, each.created_at))


def _with_shared(
    records: Sequence[wire.DocumentRecord], server: Sequence[ServerDocument]
) -> list[wire.DocumentRecord]:
    """What is in files and what the server has as one list, each document once."""
    theirs = {each.document_id: each for each in server}
    here = [msgspec.structs.replace(each, shared=each.document_id in theirs) for each in records]
    known = {each.document_id for each in records}
    there = [
        wire.DocumentRecord(
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
        if each.document_id not in known
    ]
    return sorted((*here, *there), key=lambda each: (each.source, each.created_at))


def _record(document_id: str, some: Sequence[Memory], facts: Facts) -> wire.DocumentRecord:
    piece = some[0].piece
    assert piece is not None, "it was found by its piece"
    return wire.DocumentRecord(
        document_id=document_id,
        source=piece.source,
        pieces=len(some),
        of=piece.of,
        created_at=min(each.created_at for each in some),
        agent_id=facts.agent_id,
        metadata=facts.metadata,
    )


async def remove_document(
    context: Context, place: Workplace, request: wire.RemoveDocument
) -> tuple[wire.DocumentRemoved, int]:
    """Take every piece of a document away, and answer when no search can find one any more."""
    await context.resumed()
    index, daemon = await _index(context, place), context.daemon
    planned = context.planned(wire.DocumentRemoved)
    await daemon.trust.opened()
    async with daemon.ingesting:
        there = await documents_there(context, index)
        found = {each: some for each, some in there.items() if _is_named(request.name, some[0])}
        server, problem = await held(daemon, request.name)
        records = _with_shared(_records(context, index, found), server)
        if not records and planned is not None:
            return planned, index.generations.visible
        if not records:
            raise MemoryNotFound(
                "; ".join(filter(None, (f"no document {request.name[:80]!r}", problem or _LOOK)))
            )
        ids = [each.id for some in found.values() for each in some]
        pieces = sum(each.pieces for each in records)
        if planned is None:
            planned = wire.DocumentRemoved(documents=tuple(records), pieces=pieces)
            await context.plan(planned)
        waits = await take_away(daemon, [each.document_id for each in records], server)
        generation = await take_files_away(daemon, index, ids) if ids else index.generations.visible
    await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    return msgspec.structs.replace(planned, waits=waits), generation


def _is_named(name: str, piece: Memory) -> bool:
    if piece.piece is None:
        return False
    return one_form(name) in {piece.piece.document_id, one_form(piece.piece.source)}
