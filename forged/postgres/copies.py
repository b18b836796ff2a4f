"""Copies of the team's documents on this machine: a turn finds them offline and without a round trip.

`DocumentCopies.run` keeps the newest pieces within a size in step with the server: after each change there,
after each reconnect, and twice a minute. Texts are in a `CopyFolder`; vectors come from the server and stay
in memory. Documents of files here, and those that this machine has removed, have no copy. After an outage no
copy is shown until the server was read. All is erased when the role loses the right to read. Failures are
shown in `report`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from forged.errors import SharedError, StoreError
from forged.map import VectorMap
from forged.maps import BuildEvent, EmbeddingQueue, Indexer
from forged.memory import Memory, Scope
from forged.models import Vectors
from forged.postgres.connecting import login_digest
from forged.postgres.documents import ServerAsking, ServerDocuments
from forged.postgres.listening import OwnerChange
from forged.postgres.schema import CJK, MAIN
from forged.postgres.shared import SharedServer
from forged.postgres.values import Stored
from forged.state import CopyFolder, PieceCopy
from forged.stores import View
from forged_client.protocol import CopiesReport

ROOT = "documents of the team"
"""The root of every copy: no path, so that it equals no root of files."""

_EVERY_S, _AFTER_ERROR_S, _PAUSE_S = 30.0, 2.0, 1.0
_AT_ONCE = 50
_SEEN_KEPT = 200
_LOST = frozenset({"permission", "role"})

_ModelVector = tuple[Vectors | None, str]  # and the model that made it, main or second

LeftOut = Callable[[], Awaitable[frozenset[str]]]
"""Returns the ids of documents without a copy: those in files here, and removed ones."""


class DocumentCopies:
    """Copies of the newest documents of a team's server, as a map for searches; lives in the event loop."""

    name = ROOT

    def __init__(
        self,
        shared: SharedServer,
        indexer: Indexer,
        folder: str,
        *,
        most_bytes: int,
        left_out: LeftOut,
        own_root: str,
    ) -> None:
        """Take `most_bytes` of pieces, and `own_root`, the root of documents in files. Raises ConfigError."""
        self.has_more = False
        self.without = frozenset[str]()  # documents in files here, and removed ones
        self._shared, self._indexer = shared, indexer
        self._server, self.asking = ServerDocuments(shared), ServerAsking(shared)
        self._folder = CopyFolder(folder, login_digest(shared.settings))
        self._most_bytes, self._left_out, self._own_root = most_bytes, left_out, own_root
        self._pieces: dict[str, PieceCopy] = {}
        self._vectors: dict[str, _ModelVector] = {}
        self._map: VectorMap | None = None
        self._model = ""  # that the vectors of the map are of
        self._digest: str | None = None
        self._is_current, self._outages = False, 0
        self._problem, self._was_away = "", False
        self._unsaved = set[str]()  # documents with files that are to be written
        self._looked_at: float | None = None  # of the monotonic clock
        self._dropped = set[str]()  # documents and pieces removed here since a look began
        self._seen = OrderedDict[str, PieceCopy]()  # rows beyond the copies that an answer had
        self._wanted = asyncio.Event()
        self._storing = asyncio.Lock()

    # --- for searches -----------------------------------------------------------------------------------

    @property
    def map(self) -> VectorMap | None:
        """Return the map of all copies; None while the server may have removed some of them."""
        return self._map if self._is_current else None

    def find(self, memory_id: str) -> PieceCopy | None:
        """Return a copy, or a row beyond the copies that an answer had, by id; None if it is gone."""
        return (self._pieces.get(memory_id) or self._seen.get(memory_id)) if self._is_current else None

    async def map_beyond(self, rows: Sequence[Stored]) -> VectorMap:
        """Return a map of rows beyond the copies, which a repeated request of their turn finds again."""
        vectors = {row.id: (row.vector, row.model) for row in rows}

        def make() -> tuple[list[PieceCopy], VectorMap]:
            copies = [PieceCopy(row.as_memory()) for row in rows]
            return copies, self._make_map(copies, vectors, None)

        copies, home = await asyncio.to_thread(make)
        for each in copies:
            self._seen[each.memory.id] = each
            self._seen.move_to_end(each.memory.id)
        while len(self._seen) > _SEEN_KEPT:
            self._seen.popitem(last=False)
        return home

    def view(self, maps: tuple[VectorMap, ...]) -> View:
        """Return a view of maps of copies, with the baseline of the answering model."""
        learner = self._indexer.learner
        return View(
            maps=maps,
            baseline=learner.baseline,
            is_uncalibrated=learner.is_wanting,
            key=self._answering_model or None,
        )

    def report(self) -> CopiesReport:
        """Return number, size and age of the copies, for status."""
        pieces = self._pieces.values()
        return CopiesReport(
            documents=len({each.document_id for each in pieces}),
            pieces=len(pieces),
            size=sum(len(each.memory.content.encode()) for each in pieces),
            limit=self._most_bytes,
            has_more=self.has_more,
            is_shown=self._is_current,
            looked_s=None if self._looked_at is None else round(time.monotonic() - self._looked_at, 1),
            problem="" if self._was_away and not self._shared.is_failing else self._problem,
        )

    # --- in step with the server ------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the copies in step with the server until cancelled."""
        ends = (self._shared.listen(self._on_change), self._indexer.events.listen(self._on_build))
        try:
            await self._shared.state.wait_until_open()
            await self._open()
            while True:
                self._wanted.clear()
                await self._look()
                await asyncio.sleep(_PAUSE_S)  # a client that sends many documents notifies for each
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_AFTER_ERROR_S if self._problem else _EVERY_S):
                        await self._wanted.wait()
        finally:
            for end in ends:
                end()

    async def drop(self, ids: Collection[str]) -> None:
        """Remove the copies of documents or pieces that this machine removes, before it returns."""
        self._dropped.update(ids)
        self.without = self.without.union(ids)
        self._seen.clear()
        gone = [each for each, copy in self._pieces.items() if {each, copy.document_id} & self._dropped]
        if gone:
            self._remove(gone)
            await self._show()

    def _on_change(self, change: OwnerChange) -> None:
        """Look soon after a change of documents; show no copy before that after a reconnect."""
        if not change.scope:
            self._is_current = False
            self._outages += 1
        if change.scope in {"", Scope.ORG}:
            self._wanted.set()

    def _on_build(self, event: BuildEvent) -> None:
        """Look soon after a change of the documents in files here."""
        if event.kind == "swapped" and event.root == self._own_root:
            self._wanted.set()

    async def _open(self) -> None:
        """Load the copies of earlier runs; their vectors come with the first look."""
        try:
            self._pieces = {
                each.memory.id: each for each in await asyncio.to_thread(lambda: list(self._folder.load()))
            }
        except OSError as error:
            self._problem = f"copies cannot be read: {error.strerror}"
        await self._show()

    async def _look(self) -> None:
        """Compare the copies with the server once, and follow it; record the problem if that fails."""
        outages = self._outages
        try:
            await self._follow()
        except SharedError as error:
            self._problem, self._was_away = str(error), error.is_away
            if error.reason in _LOST or await asyncio.to_thread(self._folder.is_expired):
                await self._erase()
            elif error.is_away and not self._shared.listening.is_connected:
                self._is_current = True  # offline, where the copies are all there is
        except (StoreError, OSError) as error:
            self._problem = f"copies cannot be written: {getattr(error, 'strerror', None) or error}"
            self._was_away = False
        else:
            self._problem, self._looked_at = "", time.monotonic()
            self._is_current = self._is_current or outages == self._outages
            await asyncio.to_thread(self._folder.note_contact)

    async def _follow(self) -> None:
        """Fetch changed pieces and drop those that are gone. Raises SharedError, OSError."""
        self._dropped = set()
        without = await self._left_out()
        self.without = without | self._dropped
        digest, self.has_more = await self._server.newest_digest(without, self._most_bytes)
        if digest == self._digest and self._model == self._answering_model and not self._unsaved:
            return
        versions = await self._server.newest_versions(without, self._most_bytes)
        self._seen.clear()
        self._remove([each for each in self._pieces if each not in versions])
        await self._show()
        wanted = [each for each, version in versions.items() if not self._has(each, version)]
        try:
            for start in range(0, len(wanted), _AT_ONCE):
                await self._take(await self._server.pieces(wanted[start : start + _AT_ONCE]))
        finally:
            if wanted:
                await self._show()
        self._digest = digest

    def _has(self, memory_id: str, version: str) -> bool:
        """Return True if a piece has a copy of this version, and its vector was read."""
        copy = self._pieces.get(memory_id)
        return copy is not None and copy.version == version and memory_id in self._vectors

    async def _take(self, rows: Mapping[str, tuple[str, Stored]]) -> None:
        """Take rows of the server as copies, but those that this machine has removed meanwhile."""
        made = await asyncio.to_thread(
            lambda: [PieceCopy(row.as_memory(), version) for version, row in rows.values()]
        )
        for copy in made:
            memory_id = copy.memory.id
            if not {memory_id, copy.document_id} & self._dropped:
                self._vectors[memory_id] = (rows[memory_id][1].vector, rows[memory_id][1].model)
                if self._pieces.get(memory_id) != copy:
                    self._pieces[memory_id] = copy
                    self._unsaved.add(copy.document_id)

    def _remove(self, ids: Iterable[str]) -> None:
        """Remove copies by the ids of their pieces, until `_show` still from the map and the disk."""
        for each in ids:
            self._unsaved.add(self._pieces.pop(each).document_id)
            self._vectors.pop(each, None)

    async def _show(self) -> None:
        """Make the map of all copies anew, and write the files of changed documents. Raises OSError."""
        async with self._storing:
            self._model = self._answering_model
            pieces, vectors = list(self._pieces.values()), dict(self._vectors)
            self._map = await asyncio.to_thread(self._make_map, pieces, vectors, self._map)
            unsaved, self._unsaved = self._unsaved, set()
            files: dict[str, list[PieceCopy]] = {each: [] for each in unsaved}
            for each in self._pieces.values():
                if each.document_id in files:
                    files[each.document_id].append(each)
            try:
                await asyncio.to_thread(self._folder.store, files)
            except OSError:
                self._unsaved |= unsaved
                raise

    async def _erase(self) -> None:
        """Erase all copies, on disk and in memory."""
        self._pieces, self._vectors, self._digest, self._unsaved = {}, {}, None, set()
        self._seen.clear()
        async with self._storing:
            self._map = None
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._folder.erase)

    # --- the map ----------------------------------------------------------------------------------------

    @property
    def _answering_model(self) -> str:
        """Return the key of the model that answers queries, "" without one."""
        identity = self._indexer.identity
        return identity.key if identity is not None else ""

    def _make_map(
        self, pieces: Sequence[PieceCopy], vectors: Mapping[str, _ModelVector], before: VectorMap | None
    ) -> VectorMap:
        """Return the map of pieces with vectors of the server."""
        memories, vector_of = [each.memory for each in pieces], partial(self._vector_of, vectors)
        return self._indexer.map_of(ROOT, Scope.ORG, memories, vector_of, before=before)

    def _vector_of(
        self, vectors: Mapping[str, _ModelVector], queue: EmbeddingQueue, memory: Memory
    ) -> Vectors | None:
        """Return the vector of a piece by the model of a queue, None if it is of another model or length."""
        vector, model = vectors.get(memory.id, (None, MAIN))
        dimension = queue.identity.dimension
        is_its = model == (CJK if queue is self._indexer.second else MAIN)
        is_usable = is_its and self._shared.vectors.is_usable(model)
        return vector if is_usable and vector is not None and dimension in {0, len(vector)} else None
