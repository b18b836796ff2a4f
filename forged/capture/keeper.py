"""What proposals come to: judged against what the maps show, and put in place by the one writer.

The worker proposes, the daemon commits. `heads` answers what the worker asks, `decide` makes documents of
proposals, `put` writes them. What is withheld is in no map, so it is neither compared with nor replaced. The
maps are waited for until they show what was written a moment ago; what one still lacks of our own counts all
the same. `put` may be tried again with the same documents: a file that is there already is one that is done.
What waits for a person is put beside the others, into the state and into no file.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from forged.capture.candidates import candidates, naming, nearest
from forged.capture.documents import decide
from forged.capture.forwarded import words_said
from forged.capture.likely import Likely
from forged.capture.off_record import words_to_forget
from forged.capture.promotion import Promotion
from forged.capture.rules.replacement import NO_ROWS, RowsOf
from forged.capture.rules.slots import opening
from forged.capture.values import Classified, KnownMemory, Tally
from forged.capture.vectors import VectorsOf, no_vectors
from forged.errors import MemoryExists, MemoryFormatError, MemoryNotFound, NoLongerWanted, StoreError
from forged.files import Root
from forged.maps import Indexer
from forged.memory import Memory, Scope, time_ns, utc_now
from forged.scopes import FileRoots, View
from forged.state import Document, Event, Forgotten, Said, ToReview
from forged.trust import is_same, stored_identity
from forged.writing import Draft, Writer, Written

logger = logging.getLogger(__name__)

# Of a disk: full, or in trouble.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
# For the maps to show what was written last, and for the very first build of a root.
_FRESH_S, _FIRST_S = 2.0, 60.0
# For the rows of all texts that are compared; of a proposal, and of all.
_ROWS_S, _MOST_NEAR, _MOST_COMPARED = 10.0, 24, 192
# Of the words of a sentence that asks to forget, what a memory must have to be meant.
_MEANT = 0.5
# Characters of a text that its row is of: as long as a statement that is kept, and 50 ms of a core.
_MOST_IN_ROW = 600

Documents = tuple[Document, ...]
_Result = Written | StoreError


class Put(msgspec.Struct, frozen=True):
    """How many documents were written, which no disk would take, and which wait for a person since now.

    `trouble` says why some are not in place yet, and `reason` in one word: `storage`, a disk is full or
    broken; `unwritten`, it takes some and not others; `gone`, no root that they would go to exists.
    """

    written: int = 0
    failed: tuple[str, ...] = ()
    reason: str = ""
    trouble: str = ""
    waiting: tuple[str, ...] = ()


class Keeper:
    """One for the daemon."""

    def __init__(
        self,
        indexer: Indexer,
        writer: Writer,
        forgotten: Forgotten,
        to_review: ToReview,
        vectors: VectorsOf = no_vectors,
        *,
        promotion: Promotion | None = None,
    ) -> None:
        """`vectors` are the local model's rows of some texts, by which one is found to replace another.

        `promotion` says what is worth it; without it all is, and the agents have no roots.
        """
        self._indexer = indexer
        self._writer = writer
        self._forgotten = forgotten
        self._to_review = to_review
        self._vectors = vectors
        self._promotion = promotion or Promotion()
        self._recent: list[tuple[Root, Written]] = []  # not in a map yet
        self._warned: set[str] = set()
        self._likely = Likely()

    async def heads(self, event: Event, names: Sequence[str]) -> tuple[KnownMemory, ...]:
        """The newest versions of memories that an event can see and that name something."""
        view = await self._see(event)

        def found() -> tuple[KnownMemory, ...]:
            return tuple(dict.fromkeys(each for home in view.maps for each in naming(home, names)))

        return await asyncio.to_thread(found)

    async def meant(self, roots: Sequence[Root], text: str) -> tuple[Root, Memory] | None:
        """Return the memory that a sentence asks to forget, None if none has half of its words."""
        view = await self._shown(FileRoots(self._indexer, roots))
        return await asyncio.to_thread(_meant, view, text)

    async def decide(self, event: Event, classified: Classified) -> tuple[Documents, Tally]:
        """What to write of a classifier's proposals, and what was left out."""
        if classified.proposals:
            event, classified = await asyncio.to_thread(self._promotion.promoted, event, classified)
        if not classified.proposals:
            return (), Tally(classified.malformed)
        view = await self._see(event)
        written = {root: (*self._just_written(root), *self._learned(event, root)) for root in event.roots}
        rows = await self._rows(event, classified, view, written)
        return await asyncio.to_thread(self._decided, event, classified, view, written, rows)

    def is_unwanted(self, document: Document, tops: Sequence[str]) -> bool:
        """Whether a text was forgotten, in its root or one of `tops`, since it was decided upon."""
        memory = document.memory
        since = self._forgotten.since((*tops, document.root.top), memory.content)
        return since is not None and since > time_ns(memory.created_at) / 1e9

    async def put(self, documents: Documents, tops: Sequence[str]) -> Put:
        """Put documents in place; one that cannot be keeps none of the others from it. Raises nothing.

        `tops` are where a text may have been forgotten meanwhile: then it is left out.
        """
        results: list[tuple[Document, _Result]] = []
        due = [document for document in documents if not document.waits]
        for root in dict.fromkeys(document.root for document in due):
            here = [document for document in due if document.root == root]
            results += await self._put_in(root, here, tops)
        waiting = [each for each in documents if each.waits and not self.is_unwanted(each, tops)]
        put = self._summed(results)
        try:
            return msgspec.structs.replace(put, waiting=await self._to_review.add(waiting))
        except StoreError as error:
            return msgspec.structs.replace(put, reason="storage", trouble=str(error))

    async def _see(self, event: Event) -> View:
        return await self._shown(FileRoots(self._indexer, event.roots))

    async def _shown(self, roots: FileRoots) -> View:
        view = await roots.see(sys.maxsize, time.monotonic() + _FRESH_S)
        return await roots.see(0, time.monotonic() + _FIRST_S) if view.waiting else view

    async def _rows(
        self, event: Event, classified: Classified, view: View, written: Mapping[Root, Sequence[Memory]]
    ) -> RowsOf:
        """The local model's rows of the proposals and of what comes nearest to them, by their openings.

        None at all where one cannot be had.
        """
        contents = list(dict.fromkeys(opening(each.content.strip()) for each in classified.proposals))
        try:
            async with asyncio.timeout(_ROWS_S):
                rows = await self._rows_of(contents)
                if len(rows) != len(contents):
                    return NO_ROWS
                texts = await asyncio.to_thread(_nearest, event, view, rows)
                texts += self._likely.texts(event.roots)
                texts += [each.content for memories in written.values() for each in memories]
                texts = list(dict.fromkeys(map(opening, texts)))
                found = await self._rows_of(texts)
                return rows | found if len(found) == len(texts) else NO_ROWS
        except TimeoutError:
            return NO_ROWS

    async def _rows_of(self, texts: Sequence[str]) -> dict[str, bytes]:
        """The rows of different texts, each by how its text begins; none where one cannot be had."""
        found = await self._vectors([opening(each, _MOST_IN_ROW) for each in texts])
        return dict(zip(texts, found, strict=True)) if len(found) == len(texts) else {}

    def _decided(
        self,
        event: Event,
        classified: Classified,
        view: View,
        written: Mapping[Root, Sequence[Memory]],
        rows: RowsOf,
    ) -> tuple[Documents, Tally]:
        session = event.session_id or "unknown"
        existing: dict[Root, tuple[Memory, ...]] = {}
        for root in event.roots:
            homes = (each for each in view.maps if (each.root, each.scope) == (root.top, root.scope))
            shown = [
                found for home in homes for found in candidates(home, session, classified.proposals, rows)
            ]
            existing[root] = tuple({each.id: each for each in (*written[root], *shown)}.values())
        # What past sessions come to must not depend on what this daemon heard since it started.
        likely = Likely() if event.kind == "learned" else self._likely
        since = self._forgotten.since
        documents, tally = decide(event, classified, existing, since, utc_now(), likely=likely, rows=rows)
        known = dict(event.stored_roots)
        # The agent's root is not one of those that the event was accepted with.
        identities = {
            root: known.get(root) or (stored_identity(root) if known else "") for root in event.roots
        }
        return tuple(_of_root(each, identities[each.root]) for each in documents), tally

    def _learned(self, event: Event, root: Root) -> list[Memory]:
        """What was proposed of other past sessions and waits: it counts as known for the next."""
        if event.kind != "learned":
            return []
        identity = dict(event.stored_roots).get(root, "")
        there = (each for each in self._to_review.of([root]) if is_same(each.identity, identity))
        return [each.memory for each in there if each.learned_at]

    def _just_written(self, root: Root) -> tuple[Memory, ...]:
        """What we wrote there and no map shows yet."""
        visible = self._indexer.open(root).generations.visible
        self._recent = [
            (where, done) for where, done in self._recent if where != root or done.generation > visible
        ]
        return tuple(done.memory for where, done in self._recent if where == root)

    async def _put_in(
        self, root: Root, documents: Sequence[Document], tops: Sequence[str]
    ) -> list[tuple[Document, _Result]]:
        index = self._indexer.open(root)

        def unwanted(memory: Memory) -> bool:
            return self.is_unwanted(Document(root, memory), tops)

        def draft(memory: Memory, said: Said) -> Draft:
            return Draft(memory, unwanted=unwanted, said=said)

        results = await self._writer.add_all(index, [draft(each.memory, each.said) for each in documents])
        done = list(zip(documents, results, strict=True))
        for place, (document, result) in enumerate(done):
            if isinstance(result, MemoryNotFound):  # what it replaces is gone: it stands alone
                alone = msgspec.structs.replace(document.memory, supersedes=None, version=1)
                (again,) = await self._writer.add_all(index, [draft(alone, document.said)])
                done[place] = (document, again)
        self._recent += [(root, result) for _, result in done if isinstance(result, Written)]
        return done

    def _summed(self, results: Sequence[tuple[Document, _Result]]) -> Put:
        """What was written, and what kind of trouble there was.

        What was acknowledged is not dropped: it is tried again, without end if the disk is at fault in a way
        that passes or for all of them, else a few times. Only what no disk would take is left out for good.
        """
        written = sum(_is_there(document, result) for document, result in results)
        failed = [
            (document, result)
            for document, result in results
            if isinstance(result, StoreError) and not isinstance(result, MemoryExists | NoLongerWanted)
        ]
        for document, error in failed:
            self._warn(document.memory.id, error)
        causes = [error.__cause__ for _, error in failed]
        troubles = [str(error) for _, error in failed if not _is_hopeless(error)]
        ids = tuple(document.memory.id for document, _ in failed)
        if not troubles:
            return Put(written, ids)
        if not any(os.path.isdir(document.root.top) for document, _ in results):
            return Put(written, ids, "gone", troubles[-1])
        whole = len(failed) == len(results) or any(map(_passes, causes))
        return Put(written, ids, "storage" if whole else "unwritten", troubles[-1])

    def _warn(self, memory_id: str, error: StoreError) -> None:
        """Once for each, however often it is tried."""
        if memory_id not in self._warned:
            logger.warning("memory not written memory=%s error=%s", memory_id, error)
            self._warned.add(memory_id)


def _nearest(event: Event, view: View, rows: RowsOf) -> list[str]:
    """The contents that come nearest to each of these texts, in its turn."""
    most = max(1, min(_MOST_NEAR, _MOST_COMPARED // len(rows)))
    homes = [home for home in view.maps if any(home.root == root.top for root in event.roots)]
    near = [each for home in homes for text, row in rows.items() for each in nearest(home, text, row, most)]
    return [each.content for each in near]


def _meant(view: View, text: str) -> tuple[Root, Memory] | None:
    """The newest version with most of the words of a sentence that asks to forget, of equals the newest."""
    wanted = words_to_forget(text)
    found = (
        (len(wanted & words_said((each.content,))), each.created_at, Root(home.root, Scope(home.scope)), each)
        for home in view.maps
        for each in nearest(home, text, b"", _MOST_NEAR)
        if home.chains.is_head(each.id)
    )
    best = max(found, key=lambda each: each[:2], default=None)
    return best[2:] if best is not None and wanted and best[0] >= _MEANT * len(wanted) else None


def _of_root(document: Document, identity: str) -> Document:
    return msgspec.structs.replace(document, identity=identity)


def _is_there(document: Document, result: _Result) -> bool:
    """Whether a document is a file, by this attempt or an earlier one; the same text may be there instead."""
    if isinstance(result, Written):
        return result.memory.id == document.memory.id
    return isinstance(result, MemoryExists)


def _is_hopeless(error: StoreError) -> bool:
    """Whether no disk would take it: nothing failed underneath."""
    return error.__cause__ is None or isinstance(error.__cause__, MemoryFormatError)


def _passes(cause: BaseException | None) -> bool:
    """Whether it is a disk in trouble, or the state; a directory that cannot be written to stays so."""
    return cause is not None and (not isinstance(cause, OSError) or cause.errno in _PASSING)
