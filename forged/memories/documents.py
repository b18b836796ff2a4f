"""Ingest documents for all agents of the user: one memory file for each piece, in the org root.

Texts pass the checks of every memory. All new pieces of a changed text, or of a renamed file, are written
before the old ones go. Ids of pieces are derived from the text, so a repetition after a kill completes the
work. One document is written at a time. Texts forgotten in the last 7 days are not written again. The files
are recorded at the end. Raises InvalidRequest, StoreError.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from forged import documents, memory
from forged.attributes import FactsPatch, metadata_problem, patch_of
from forged.config import KnowledgeConfig
from forged.errors import InvalidRequest, StoreError
from forged.files import AGENT_ID
from forged.maps import RootIndex
from forged.memories.document_removal import remove_pieces
from forged.memories.document_store import Pieces, document_id_of, org_index, pieces_there, send_to_server
from forged.memories.parts import PATIENCE_S, MemoryParts
from forged.memories.write import find_secrets_blocking
from forged.memory import Memory
from forged.state import IngestedFile
from forged.stores import Workplace
from forged.text.redaction import shapes_in
from forged.writing import WriteRequest, Written
from forged_client.private_spans import without_private
from forged_client.protocol import Document, DocumentOutcome

logger = logging.getLogger(__name__)
_MOST_SOURCE = 1024


class _PlannedDocument(msgspec.Struct, frozen=True):
    """Plan of one document's ingestion: all pieces, those to write, ids to remove or forgotten.

    `older` are pieces of another text of the source, or of the same text of the source `moved_from`.
    """

    source: str
    pieces: tuple[Memory, ...]
    missing: tuple[Memory, ...]
    older: tuple[str, ...]
    older_documents: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    insisted: bool = False
    moved_from: str = ""

    @property
    def kept(self) -> tuple[Memory, ...]:
        """All pieces of the document but those whose text was forgotten."""
        return tuple(each for each in self.pieces if each.id not in self.forgotten)

    @property
    def result(self) -> str:
        """The outcome as a word: moved, replaced, new, completed, or exists if nothing is to be done."""
        if self.moved_from:
            return "moved"
        if self.older:
            return "replaced"
        if not self.missing:
            return "exists"
        return "new" if len(self.missing) == len(self.pieces) else "completed"

    def outcome(self, written: int) -> DocumentOutcome:
        """Return the outcome to report after so many pieces were written."""
        return DocumentOutcome(
            source=self.source,
            result=self.result,
            document_id=document_id_of(self.pieces[0]),
            pieces=len(self.pieces),
            written=written,
            forgotten=len(self.forgotten),
            moved_from=self.moved_from,
        )


async def ingest(
    memories: MemoryParts,
    place: Workplace,
    asked: Sequence[Document],
    patch: FactsPatch,
    *,
    only_shows: bool = False,
    allow_secret: bool = False,
    allow_forgotten: bool = False,
) -> tuple[tuple[DocumentOutcome, ...], RootIndex, int]:
    """Write new and changed documents as pieces, one by one; with `only_shows` only return the plan.

    Returns their fates, the root, and the generation that shows them.
    """
    await memories.trust.wait_until_open()
    index = await org_index(memories, place, make=not only_shows)
    outcomes: list[DocumentOutcome] = []
    generation = index.generations.wanted
    tops = tuple(dict.fromkeys((index.root.top, *place.tops)))
    since = memories.state.forgotten.forgotten_at

    def is_forgotten(text: str) -> bool:
        return not allow_forgotten and since(tops, text) is not None

    async with memories.ingesting:
        there = await pieces_there(memories, index)
        files: dict[str, IngestedFile | None] = {}
        for each in asked:
            cut = partial(_plan_document, how=memories.config.knowledge, allow_secret=allow_secret)
            made = await asyncio.to_thread(cut, each, there, is_forgotten)
            if isinstance(made, DocumentOutcome):
                outcomes.append(made)
                continue
            made = _as_move(memories, made, each, there)
            if only_shows:
                outcomes.append(made.outcome(len(made.missing)))
                continue
            outcome, seen = await _write_document(memories, index, made, patch, there)
            outcomes.append(outcome)
            generation = max(generation, seen)
            if outcome.result != "refused":
                there[made.source] = {piece.id: piece for piece in made.pieces}
                files |= _file_rows(made, each, there)
        await _record_files(memories, files)
    if any(outcome.result in {"replaced", "moved"} for outcome in outcomes) and not only_shows:
        await index.until_tried(generation, time.monotonic() + PATIENCE_S)
    return tuple(outcomes), index, generation


def _as_move(
    memories: MemoryParts, made: _PlannedDocument, asked: Document, there: Pieces
) -> _PlannedDocument:
    """Return the plan as that of a move, if the file was ingested before under its former source alone."""
    known, old = memories.state.ingested, memories.state.ingested.get(asked.moved_from)
    if old is None or asked.file is None or asked.source in known or made.older:
        return made
    if old.digest != documents.text_digest(asked.text):
        return made
    older = (
        each for each in there.get(asked.moved_from, {}).values() if document_id_of(each) == old.document_id
    )
    return replace(
        made,
        moved_from=asked.moved_from,
        older=tuple(each.id for each in older),
        older_documents=frozenset({old.document_id}),
    )


def _file_rows(made: _PlannedDocument, asked: Document, there: Pieces) -> dict[str, IngestedFile | None]:
    """Return the rows of the table of ingested files that an ingested document changes, by source."""
    there.pop(made.moved_from, None)
    if asked.file is None:
        return {}
    path, disk, digest = asked.file.path, asked.file.disk, documents.text_digest(asked.text)
    fresh = IngestedFile(document_id_of(made.pieces[0]), digest, path, disk)
    return ({made.moved_from: None} if made.moved_from else {}) | {made.source: fresh}


async def _record_files(memories: MemoryParts, files: Mapping[str, IngestedFile | None]) -> None:
    """Record which files are documents, all at once; without a record, a prune leaves a document alone."""
    known = memories.state.ingested
    changed = {source: row for source, row in files.items() if known.get(source) != row}
    try:
        await known.store(changed)
    except StoreError as error:
        logger.warning("files of documents are not recorded count=%d error=%s", len(changed), error)


def check_attributes(agent_id: str, metadata: dict[str, Any]) -> FactsPatch:
    """Check agent id and metadata (also for secrets); return a patch. Raises InvalidRequest."""
    if agent_id and AGENT_ID.fullmatch(agent_id) is None:
        raise InvalidRequest(f"{agent_id[:80]!r} is no agent's id")
    if problem := metadata_problem(metadata):
        raise InvalidRequest(problem)
    if found := shapes_in(msgspec.json.encode(metadata).decode()):
        raise InvalidRequest(f"the metadata seems to contain a secret ({', '.join(found)}); leave it out")
    return FactsPatch(metadata=metadata or None, agent_id=agent_id or None)


def _plan_document(
    asked: Document,
    there: Pieces,
    is_forgotten: Callable[[str], bool],
    *,
    how: KnowledgeConfig,
    allow_secret: bool,
) -> _PlannedDocument | DocumentOutcome:
    """Check and plan a document; return the plan, or the outcome if it is refused."""
    source, text = asked.source, without_private(asked.text)
    if problem := _refusal(asked):
        return DocumentOutcome(source=source[:_MOST_SOURCE], result="refused", reason=problem)
    secrets = find_secrets_blocking(text, (source,))
    if secrets and not allow_secret:
        reason = f"it seems to contain a secret ({', '.join(secrets)})"
        return DocumentOutcome(source=source, result="secret", reason=reason)
    pieces = documents.pieces(
        source, text, size=how.chunk_size, overlap=how.overlap, is_markdown=asked.is_markdown,
        now=memory.utc_now(),
    )  # fmt: skip
    if not pieces:
        reason = "nothing is left without the text that is marked private"
        return DocumentOutcome(source=source, result="refused", reason=reason)
    there_now, ids = there.get(source, {}), {each.id for each in pieces}
    absent = [each for each in pieces if each.id not in there_now]
    forgotten = frozenset(each.id for each in absent if is_forgotten(each.content))
    older = tuple(each for each in there_now if each not in ids)
    return _PlannedDocument(
        source,
        pieces,
        missing=tuple(each for each in absent if each.id not in forgotten),
        older=older,
        older_documents=frozenset(document_id_of(there_now[each]) for each in older),
        forgotten=forgotten,
        insisted=bool(secrets),
    )


def _refusal(asked: Document) -> str:
    """Return why the source or text of a document is refused, or ""."""
    source = asked.source
    if not source.strip() or len(source) > _MOST_SOURCE or not source.isprintable():
        return f"its source is not a line of 1 to {_MOST_SOURCE:,} printable characters"
    return "it is empty" if not asked.text.strip() else ""


async def _write_document(
    memories: MemoryParts, index: RootIndex, made: _PlannedDocument, patch: FactsPatch, there: Pieces
) -> tuple[DocumentOutcome, int]:
    """Write a document's missing pieces; if none failed, share all, remove old; return outcome."""
    top, state = index.root.top, memories.state
    if made.moved_from and made.older:
        patch = patch_of(patch.apply(state.attributes.of(top, made.older[0])))
    drafts = [WriteRequest(each, insisted=made.insisted, again=True, patch=patch) for each in made.missing]
    done = await memories.writer.add_all(index, drafts)
    written = [each for each in done if isinstance(each, Written)]
    memories.metrics.remembered += sum(not each.existed for each in written)
    generation = max((each.generation for each in written), default=index.generations.wanted)
    failed = next((each for each in done if isinstance(each, StoreError)), None)
    if failed is not None:
        refused = {"result": "refused", "reason": str(failed), "code": failed.code}
        return replace(made.outcome(len(written)), **refused), generation
    if made.moved_from:
        former = {there[made.moved_from][each].content: each for each in made.older}
        same = {former[each.content]: each.id for each in made.kept if each.content in former}
        await state.removal.copy_counts(top, same)
    shared = await send_to_server(memories, made.kept, made.older_documents, patch)
    if made.older:
        generation = await remove_pieces(memories, index, made.older)
    return replace(made.outcome(len(written)), shared=shared), generation
