"""The current vector map of every root, and how it is replaced.

Readers keep the map they got: maps are frozen and a rebuild swaps in a new one, so no reader ever waits for a
build that it did not ask for or sees half of one. Each root has a single builder that coalesces: whatever
happened since the last build is one more build, so an old slow build can never replace a newer one. The disk
is the truth: the watcher and every writer only mark, and a scan tells what changed. Nothing is raised for
what is on disk or for an endpoint: a build that fails is tried again, and the map before serves meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from forged.counters import Metrics
from forged.errors import ForgedError, ProviderError
from forged.files import MemoryStore, Root, Snapshot
from forged.maps import malloc_trim
from forged.maps.baseline_learner import BaselineLearner
from forged.maps.builder import Builder, Draft
from forged.maps.identity import Identity, Remembered
from forged.maps.retrying import retry_after
from forged.maps.root_index import RootIndex
from forged.models import Embedder, Health
from forged.text.tokens import estimate
from forged.trust import Trust

logger = logging.getLogger(__name__)

# A map is never older than 30 s: this is less by what the build of a large root takes.
RECONCILE_S = 25.0
UNLOAD_AFTER_S = 24 * 3600.0
# A map is swapped in without the vectors that are still missing when they take longer than this.
_PATIENCE_S = 0.05
_UNSETTLED_S = 0.1
_LONG_BUILD_MS = 500.0
_FOLLOW_S = 5.0


class BuildEvent(msgspec.Struct, frozen=True):
    """Something that a person who waits for a rebuild wants to see."""

    kind: str
    root: str
    done: int = 0
    total: int = 0
    generation: int = 0


class Indexer:
    """All roots that are in use."""

    def __init__(
        self,
        *,
        embedder: Embedder | None,
        lexical: bool,
        metrics: Metrics,
        on_roots: Callable[[frozenset[Root]], None] = lambda _: None,
        gated: bool = False,
        health: Health | None = None,
        remembered: Remembered | None = None,
        affords: Callable[[int], str] = lambda _: "",
        refusal: Callable[[tuple[str, ...]], Awaitable[str]] | None = None,
        trust: Trust | None = None,
        reconcile_s: float = RECONCILE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`lexical` off (weight 0) and no embedder leaves maps that can be listed but not searched.

        `on_roots` is told of all roots when one comes or goes. `gated`: somebody needs the baseline of the
        embedder's model. `trust` says what of a root counts; without it everything does. `remembered` is
        what an earlier indexer of this process knew of models; `affords` says why so many tokens may not be
        embedded now, or nothing. `health` is that of the endpoint that embeds, `refusal` its door's.
        """
        self._embedder = embedder
        self._lexical = lexical
        self._metrics = metrics
        self._on_roots = on_roots
        self._trust = trust
        self._reconcile_s = reconcile_s
        self._roots: dict[Root, RootIndex] = {}
        self._counter = 0
        self._listeners: set[Callable[[BuildEvent], None]] = set()
        self._health = health or Health()
        self._affords = affords
        self._refusal = refusal if embedder is not None and embedder.replaceable else None
        self.identity = None
        if embedder is not None:
            obstacle, renew = self._obstacle, self._renew
            self.identity = Identity(embedder, remembered, clock=clock, obstacle=obstacle, on_change=renew)
        self.learner = BaselineLearner(self.identity, self._health, needed=gated)

    def _obstacle(self) -> str:
        """Why not all that is in use may be embedded anew now, or nothing."""
        maps = (index.map for index in self._roots.values() if index.map is not None)
        return self._affords(estimate(*(memory.content for each in maps for memory in each.memories)))

    def _renew(self) -> None:
        self.mark_all()
        self.learner.learn()

    def open(self, root: Root) -> RootIndex:
        """The index of a root; the first call starts its first build, and nobody waits for it here."""
        index = self._roots.get(root)
        if index is None:
            store = MemoryStore(root)
            admit = self._trust.admit if self._trust is not None else None
            builder = Builder(store, self.identity, lexical=self._lexical, admit=admit)
            index = self._roots[root] = RootIndex(root, builder, self._next_generation)
            self._on_roots(frozenset(self._roots))
            index.task = asyncio.create_task(self._keep_current(index), name=f"build {root.scope}")
        index.used_at = time.monotonic()
        return index

    def forget_vectors(self, index: RootIndex) -> None:
        """The next build of this root embeds everything anew, by whatever model answers: `rebuild --full`."""
        index.builder.forget_vectors()
        if self.identity is not None:
            self.identity.renew()

    def mark(self, top: str, files: frozenset[str] = frozenset()) -> None:
        """Something under this top may have changed: these files, or anything."""
        for root, index in self._roots.items():
            if root.top == top:
                index.mark(files)

    def mark_all(self) -> None:
        """Text may leave again, and what was in doubt may hold again: look at everything."""
        for index in self._roots.values():
            index.mark()

    async def run(self) -> None:
        """Reconcile with the disk every 25 s, and tidy it; unload what nobody used for a day."""
        while True:
            await asyncio.sleep(self._reconcile_s)
            idle_since = time.monotonic() - UNLOAD_AFTER_S
            for root, index in list(self._roots.items()):
                if index.used_at < idle_since:
                    await self._unload(root)
                else:
                    index.mark()
                    await asyncio.to_thread(index.builder.store.sweep_temps)
            if self.identity is not None:
                self.identity.tick()
            if any(index.map is not None and index.map.dense is not None for index in self._roots.values()):
                self.learner.learn()  # where the endpoint refused them at first

    async def close(self) -> None:
        await self.learner.close()
        if self.identity is not None:
            await self.identity.close()
        for root in list(self._roots):
            await self._unload(root)

    def snapshot(self, root: Root) -> Snapshot | None:
        """The files of a root as they were last scanned, if it is in use."""
        index = self._roots.get(root)
        return None if index is None else index.builder.snapshot

    async def follow(self, top: str) -> None:
        """Have what is known of a root's files in its map, as far as five seconds allow."""
        for root, index in list(self._roots.items()):
            if root.top == top:
                await index.until_tried(index.mark(), time.monotonic() + _FOLLOW_S)

    def indexes(self) -> tuple[RootIndex, ...]:
        return tuple(self._roots.values())

    def listen(self, listener: Callable[[BuildEvent], None]) -> Callable[[], None]:
        """Have `listener` called for every event; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _next_generation(self) -> int:
        self._counter += 1
        return self._counter

    async def _unload(self, root: Root) -> None:
        index = self._roots.pop(root)
        self._on_roots(frozenset(self._roots))
        if index.task is not None:
            index.task.cancel()
            await asyncio.gather(index.task, return_exceptions=True)

    async def _keep_current(self, index: RootIndex) -> None:
        """The single builder of a root: build when marked; after a failure also when the back-off ends."""
        if self._trust is not None:
            await self._trust.opened()
        await asyncio.to_thread(index.builder.store.sweep_temps)
        retry_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(retry_s):
                    await index.marked.wait()
            except TimeoutError:
                pass
            error = await self._attempt(index, index.take_marks())
            retry_s = retry_after(error, retry_s) if error is not None else None

    async def _attempt(self, index: RootIndex, files: frozenset[str]) -> Exception | None:
        """One build; why it must be tried again, if so. What was served before is served on."""
        started = time.monotonic()
        try:
            await self._build(index, files)
        except (ForgedError, OSError) as error:
            if isinstance(error, ProviderError) and error.reason == "paused":
                self._held(index, error)
                return None
            self._failed(index, error)
            return error
        except Exception as error:
            logger.exception("build broke root=%s", index.root.top)
            self._failed(index, error)
            return error
        progress, reached = index.progress, index.generations
        progress.state, progress.error, progress.held = "ready", "", ""
        progress.build_ms = (time.monotonic() - started) * 1000
        reached.visible = max(reached.visible, reached.building)
        reached.tried = max(reached.tried, reached.building)
        reached.ended = reached.building
        index.notify_waiters()
        if progress.build_ms > _LONG_BUILD_MS:
            await asyncio.to_thread(malloc_trim.give_back)
        logger.debug("build done root=%s took_ms=%.1f", index.root.top, progress.build_ms)
        return None

    def _failed(self, index: RootIndex, error: BaseException) -> None:
        goal = index.generations.building
        reason = f"{error.reason}: {error}" if isinstance(error, ProviderError) else f"{error}"
        if index.progress.error != reason:  # once per change, not once per retry
            logger.warning(
                "build failed root=%s texts=%d embedder=%s error=%s",
                index.root.top,
                index.progress.to_embed,
                " ".join(self._embedder.key.split()) if self._embedder is not None else "none",
                reason,
            )
        index.progress.state, index.progress.error, index.progress.held = "failed", reason, ""
        index.generations.tried = index.generations.ended = goal
        self._metrics.rebuild_failures += 1
        self._tell(BuildEvent("failed", index.root.top, generation=goal))
        index.notify_waiters()

    def _held(self, index: RootIndex, error: ProviderError) -> None:
        """Nothing may leave, which is no failure: till `resumed`, words find what has no vector."""
        progress, reached = index.progress, index.generations
        progress.state, progress.held = "paused", str(error)
        progress.error = "" if index.map is not None else str(error)
        reached.tried = reached.ended = reached.building
        index.notify_waiters()

    async def _build(self, index: RootIndex, files: frozenset[str]) -> None:
        """Scan, draft, embed, swap. Raises ProviderError when vectors are missing at the end."""
        if not index.progress.error:  # what failed is shown as failed until it has gone well
            index.progress.state = "building" if index.map is not None else "loading"
        self._tell(BuildEvent("scanning", index.root.top, generation=index.generations.building))
        draft = await self._draft(index, files)
        if draft is None:
            return
        if draft.missing:
            await self._embed_and_swap(index, draft)
        else:
            await self._swap(index, draft)

    async def _draft(self, index: RootIndex, files: frozenset[str]) -> Draft | None:
        draft = await asyncio.to_thread(index.builder.draft, files)
        if self._trust is not None:
            await self._trust.save()
        if index.builder.unsettled:
            asyncio.get_running_loop().call_later(_UNSETTLED_S, index.mark)
        return draft

    async def _embed_and_swap(self, index: RootIndex, draft: Draft) -> None:
        goal = index.generations.building
        index.progress.embedded, index.progress.to_embed = 0, len(draft.missing)
        if (obstacle := await self._why_not(index)) is not None:
            await self._swap(index, draft)
            raise obstacle

        def progressed(count: int) -> None:
            index.progress.embedded += count
            self._metrics.texts_embedded += count
            self._tell(
                BuildEvent(
                    "embedding", index.root.top, index.progress.embedded, index.progress.to_embed, goal
                )
            )

        self.learner.learn()
        run = asyncio.create_task(index.builder.embed(draft, progressed))
        try:
            if self._lexical:
                # Ready at once, better soon: the lexical leg needs no model.
                await asyncio.wait({run}, timeout=_PATIENCE_S if index.map is not None else 0)
                if not run.done():
                    await self._swap(index, draft)
                    index.progress.state = "failed" if index.progress.error else "building"
            while await index.marked_before(run):
                draft = await self._follow(index, draft)
            error = await run
        finally:
            run.cancel()
        await self._swap(index, draft)
        if error is not None:
            raise error
        if not index.builder.complete:  # what changed meanwhile is still to be embedded
            index.generations.building = goal
            index.marked.set()

    async def _why_not(self, index: RootIndex) -> ProviderError | None:
        """Why nothing is asked for this root's texts now, not even what model answers."""
        if self._refusal is not None and (why := await self._refusal((index.root.top,))):
            return ProviderError(why, reason="paused")
        trouble = self._health.trouble()
        return trouble.error() if trouble is not None and trouble.wait_s else None

    async def _follow(self, index: RootIndex, draft: Draft) -> Draft:
        """Show what changed on disk while texts are on their way, which may take minutes.

        What is removed goes at once; what is new has words, and waits for its vector without them.
        """
        before = index.builder.snapshot
        newer = await self._draft(index, index.take_marks())
        if newer is None or index.builder.snapshot is before:
            self._shown_by_words(index)
            return draft
        await self._swap(index, newer)
        return newer

    async def _swap(self, index: RootIndex, draft: Draft) -> None:
        """Replace the map, by one assignment."""
        goal = index.generations.building
        new = await asyncio.to_thread(index.builder.finish, draft, goal, self.learner.baseline)
        if new is None:
            return
        index.map = new
        index.progress.built_at = time.monotonic()
        self._shown_by_words(index)
        self._metrics.rebuilds += 1
        self._tell(BuildEvent("swapped", index.root.top, len(new.memories), len(new.memories), goal))
        logger.info("map swapped root=%s memories=%d generation=%d", index.root.top, len(new.memories), goal)

    def _shown_by_words(self, index: RootIndex) -> None:
        """What was drafted can be found by its words, be its vectors there or not."""
        if self._lexical:
            index.generations.visible = index.generations.tried = index.generations.building
        index.notify_waiters()

    def _tell(self, event: BuildEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
