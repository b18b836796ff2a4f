"""Indexer: the current vector map of every root, replaced after each change.

Maps are frozen and a rebuild swaps in a new one, so no reader waits for a build or sees half of one. A root's
single builder applies all changes since the last build at once. Writers and the watcher only mark; a scan of
the disk finds the changes. Nothing is raised: a failed build is tried again, and the older map serves.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress

import numpy as np

from forged.counters import Metrics
from forged.fair_queue import log_failure
from forged.files import MemoryStore, Root, Snapshot, drop_lost_watches
from forged.map import MapPart, VectorMap, build_chains, build_dense
from forged.maps.builder import Builder
from forged.maps.builds import LARGE, BuildEvents, Builds, RootIndex, trim_memory
from forged.maps.embedding import BaselineLearner, EmbeddingQueue, Refusal
from forged.maps.model_identity import ModelCache
from forged.maps.rows import MapRows, RowMaker
from forged.maps.vector_pack import PackSource, UnusablePack, VectorPack, pack
from forged.memory import Memory, Scope
from forged.models import Embedder, Vectors
from forged.text.terms import is_cjk
from forged.text.tokens import estimate
from forged.trust import TrustRegistry

logger = logging.getLogger(__name__)

# A map is never older than 30 s: this leaves the time to build a large root.
RECONCILE_S = 25.0
UNLOAD_AFTER_S = 24 * 3600.0
_FOLLOW_S = 5.0

VectorOf = Callable[[EmbeddingQueue, Memory], Vectors | None]
"""Returns the vector of a memory by the model of a queue, None if it has none."""


class Indexer:
    """Vector maps of all roots in use: opens roots, rebuilds their maps after marks, and unloads them."""

    def __init__(
        self,
        *,
        embedder: Embedder | None,
        lexical: bool,
        metrics: Metrics,
        on_roots: Callable[[frozenset[Root]], None] = lambda _: None,
        gated: bool = False,
        model_cache: ModelCache | None = None,
        over_limit: Callable[[int], str] = lambda _: "",
        refusal: Refusal | None = None,
        trust: TrustRegistry | None = None,
        second: Embedder | None = None,
        reconcile_s: float = RECONCILE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an indexer without roots.

        `lexical` off (weight 0) and no embedder leave maps that can be listed but not searched. `on_roots`
        gets all roots whenever one comes or goes. `gated`: the embedder's baseline is needed. Without `trust`
        every memory on disk counts. `model_cache` is that of an earlier indexer. `over_limit` returns why
        so many tokens may not be embedded now, or "". `refusal` is that of the egress guard. The `second`
        model, if any, embeds texts in Chinese, Japanese and Korean.
        """
        self._lexical = lexical
        self._on_roots = on_roots
        self._trust = trust
        self._reconcile_s = reconcile_s
        self._roots: dict[Root, RootIndex] = {}
        self._next_generation = itertools.count(1).__next__
        self._over_limit = over_limit
        self.events = BuildEvents()
        self._remembered = model_cache or ModelCache()
        queue = partial(
            EmbeddingQueue, model_cache=self._remembered, gated=gated, refusal=refusal, clock=clock
        )
        self.queue = self.second = self.identity = None
        self.learner = BaselineLearner(None, needed=gated)
        if embedder is not None:
            made = self.queue = queue(embedder, obstacle=self._obstacle, on_change=self.mark_all)
            self.identity, self.learner = made.identity, made.learner
        if second is not None:
            self.second = queue(second, on_change=self.mark_all, takes=is_cjk)
        self.queues = tuple(each for each in (self.queue, self.second) if each is not None)
        self._maker = RowMaker(lexical=True, embedded=None, pause=lambda: None)
        self._builds = Builds(
            self.queues, lexical=lexical, metrics=metrics, events=self.events, main=self.queue, trust=trust
        )

    def queue_of(self, text: str) -> EmbeddingQueue | None:
        """Return the embedding queue of the model that embeds a text; None without a model."""
        return self.second if self.second is not None and self.second.takes(text) else self.queue

    def map_of(
        self,
        root: str,
        scope: str,
        memories: Sequence[Memory],
        vector_of: VectorOf,
        *,
        generation: int = 0,
        before: VectorMap | None = None,
    ) -> VectorMap:
        """Return a map of memories that are in no files of a root, in a part for each model.

        Words of equal texts are taken over from `before`, an earlier map of this kind. May run in a thread.
        """
        ordered = tuple(sorted(memories, key=lambda each: each.id))
        known = {part.second is not None: part for part in before.parts} if before is not None else {}
        is_own = [self.queue_of(each.content) is not self.second or self.second is None for each in ordered]
        theirs = tuple(each for each, own in zip(ordered, is_own, strict=True) if not own)
        own = tuple(compress(ordered, is_own))
        parts = [self._part_of(own, self.queue, vector_of, known.get(False))]
        parts += [self._part_of(theirs, self.second, vector_of, known.get(True))] if theirs else []
        if len(ordered) >= LARGE:
            trim_memory()
        return VectorMap(
            root=root,
            scope=scope,
            generation=generation,
            memories=ordered,
            parts=tuple(parts),
            chains=build_chains(ordered),
        )

    def _part_of(
        self,
        memories: tuple[Memory, ...],
        queue: EmbeddingQueue | None,
        vector_of: VectorOf,
        before: MapPart | None,
    ) -> MapPart:
        """Return the map part of one model's memories, with the vectors that exist."""
        known = None
        if before is not None and before.memories and before.cues is None:
            known = MapRows(before.memories, (b"",) * len(before.memories), before.lexical, before.traits)
        rows = self._maker.rows(memories, known)
        vectors = [vector_of(queue, each) for each in memories] if queue is not None else []
        dimension = next((len(each) for each in vectors if each is not None), 0)
        if queue is None or not dimension:
            return rows.with_vectors(None)
        stacked = np.zeros((len(memories), dimension), np.float32)
        for row, vector in enumerate(vectors):
            if vector is not None and len(vector) == dimension:
                stacked[row] = vector
        dense = build_dense(queue.identity.key, stacked)
        return rows.with_vectors(None, second=dense) if queue is self.second else rows.with_vectors(dense)

    def _obstacle(self) -> str:
        """Return the reason why not all memories in use may be embedded anew now, or ""."""
        maps = (index.map for index in self._roots.values() if index.map is not None)
        memories = (memory for each in maps for memory in each.memories)
        texts = (text for each in memories for text in (each.content, *each.search_cues))
        return self._over_limit(estimate(*texts))

    def open(self, root: Root) -> RootIndex:
        """Return a root's index and mark it as used; the first call starts its builds, without waiting."""
        index = self._roots.get(root)
        if index is None:
            store = MemoryStore(root)
            admit = self._trust.admit if self._trust is not None else None
            vector_pack = self._remembered.vector_packs.take(root)
            builder = Builder(
                store,
                self.queue,
                lexical=self._lexical,
                admit=admit,
                vector_pack=vector_pack,
                second=self.second,
            )
            index = self._roots[root] = RootIndex(root, builder, self._next_generation)
            self._on_roots(frozenset(self._roots))
            index.task = asyncio.create_task(self._builds.keep_current(index), name=f"build {root.scope}")
            index.task.add_done_callback(log_failure)
        index.used_at = time.monotonic()
        return index

    def forget_vectors(self, index: RootIndex) -> None:
        """Let a root's next build embed all texts anew, by any model that answers: `rebuild --full`."""
        index.builder.forget_vectors()
        for queue in self.queues:
            queue.identity.renew()

    def mark(self, top: str, files: frozenset[str] = frozenset()) -> None:
        """Ask for a rescan of these files, or of all, in those roots in use that are at a path."""
        for root, index in self._roots.items():
            if root.top == top:
                index.mark(files)

    def mark_all(self) -> None:
        """Ask for a rescan and a new map of all roots in use."""
        for index in self._roots.values():
            index.mark()

    async def run(self) -> None:
        """Every 25 s rescan roots, unload those gone or unused for a day, drop old packs, check models."""
        while True:
            await asyncio.sleep(self._reconcile_s)
            now = time.monotonic()
            for root, index in list(self._roots.items()):
                idle_s = now - index.used_at
                gone = root.scope is not Scope.USER and not await asyncio.to_thread(os.path.isdir, root.top)
                if idle_s > UNLOAD_AFTER_S or (gone and idle_s > _FOLLOW_S):
                    await self._unload(root)
                else:
                    index.mark()
                    await asyncio.to_thread(index.builder.store.sweep_temps)
            await asyncio.to_thread(drop_lost_watches)
            self._remembered.vector_packs.drop_old()
            has_vectors = any(index.map is not None and index.map.dense for index in self._roots.values())
            for queue in self.queues:
                queue.identity.tick()
                if has_vectors:
                    queue.learner.learn()  # after a refusal of the endpoint

    async def close(self) -> None:
        """End all embedding and builds, and unload all roots."""
        for queue in self.queues:
            await queue.close()
        for root in list(self._roots):
            await self._unload(root)

    def snapshot(self, root: Root) -> Snapshot | None:
        """Return the files of a root as they were last scanned, if it is in use."""
        index = self._roots.get(root)
        return None if index is None else index.builder.snapshot

    async def refresh(self, top: str) -> None:
        """Rescan roots in use at a path; wait up to 5 s for each until a build ends or shows it."""
        for root, index in list(self._roots.items()):
            if root.top == top:
                await index.until_tried(index.mark(), time.monotonic() + _FOLLOW_S)

    def indexes(self) -> tuple[RootIndex, ...]:
        return tuple(self._roots.values())

    async def pack(self) -> None:
        """Pack the vectors of all roots into the model cache, for the next indexer or another daemon."""
        for index in sorted(self._roots.values(), key=lambda index: index.used_at):
            if (vector_pack := await self.pack_root(index)) is not None:
                self._remembered.vector_packs.put(vector_pack)

    async def pack_root(self, index: RootIndex) -> VectorPack | None:
        """Pack the known vectors of a root; return None if there are none or packing fails."""
        pack_source = index.builder.pack_source()
        try:
            return (
                await asyncio.to_thread(pack, pack_source)
                if isinstance(pack_source, PackSource)
                else pack_source
            )
        except UnusablePack as error:
            logger.warning("vectors not packed error=%s", error)
            return None

    async def _unload(self, root: Root) -> None:
        """Drop a root's index, report the roots left, and cancel its builds."""
        index = self._roots.pop(root)
        self._on_roots(frozenset(self._roots))
        if index.task is not None:
            index.task.cancel()
            await asyncio.gather(index.task, return_exceptions=True)
