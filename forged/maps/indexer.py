"""The current vector map of every root, and how it is replaced.

Readers take a view and keep what they got: maps are frozen and a rebuild swaps in a new one, so no reader
ever waits for a build that it did not ask for or sees half of one. Each root has a single builder that
coalesces: whatever happened since the last build is one more build, so an old slow build can never replace
a newer one (bug 8). A mark hands out a generation; it is visible when a build that began after it has
ended. The disk is the truth: the watcher and every writer only mark, and a scan tells what changed
(design.md D7, D12, D13; seeds 001 and 002).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from forged.counters import Metrics
from forged.errors import ForgedError, ProviderError
from forged.files.roots import Root
from forged.files.store import MemoryStore
from forged.map.baseline import LEAST_DIMENSION, Baseline
from forged.map.vector_map import View
from forged.maps import malloc_trim
from forged.maps.builder import Builder, Draft
from forged.maps.root_index import RootIndex
from forged.models import Embedder
from forged.text.everyday import MESSAGES

logger = logging.getLogger(__name__)

# Design D13 says 30 s; this is less by what a large build takes, so that the map is never older than that.
RECONCILE_S = 25.0
UNLOAD_AFTER_S = 24 * 3600.0
_RETRY_S, _RETRY_MOST_S = 1.0, 60.0
# Whoever asks for more patience than this is asked again all the same.
_PAUSE_MOST_S = 300.0
# A map is swapped in without the vectors that are still missing when they take longer than this.
_PATIENCE_S = 0.05
_UNSETTLED_S = 0.1
_LONG_BUILD_MS = 500.0


# In parts, so that a query that comes meanwhile waits for one of them and not for all.
_PARTS = tuple(list(MESSAGES[at : at + 4]) for at in range(0, len(MESSAGES), 4))


class Event(msgspec.Struct, frozen=True):
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
        reconcile_s: float = RECONCILE_S,
    ) -> None:
        """`lexical` off (weight 0) and no embedder leaves maps that can be listed but not searched.

        `gated`: somebody needs the background of the embedder's model.
        """
        self._embedder = embedder
        self._lexical = lexical
        self._metrics = metrics
        self._on_roots = on_roots
        self._reconcile_s = reconcile_s
        self._roots: dict[Root, RootIndex] = {}
        self._counter = 0
        self._listeners: set[Callable[[Event], None]] = set()
        self._gated = gated
        self._background: Baseline | None = None
        self._outdated = False  # the background is to be learned again; until then the old one serves
        self._learning: asyncio.Task[None] | None = None
        self._not_learned = ""
        self._refusal: ProviderError | None = None  # the last one that named a time,
        self._silent_until = 0.0  # and until when nothing more is asked

    @property
    def gate(self) -> tuple[str, str]:
        """By what requests are judged: off, words, learning, vectors or failing; and why it is failing.

        While it is learning or failing to, the words decide.
        """
        if not self._gated:
            return "off", ""
        if self._background is not None or self._learning is None:
            return "words" if self._background is None else "vectors", ""
        return ("failing", self._not_learned) if self._learning.done() else ("learning", "")

    def open(self, root: Root) -> RootIndex:
        """The index of a root; the first call starts its first build (B24, D7)."""
        index = self._roots.get(root)
        if index is None:
            store = MemoryStore(root)
            builder = Builder(root.top, root.scope, store, self._embedder, lexical=self._lexical)
            index = self._roots[root] = RootIndex(root, builder, self._next_generation)
            self._on_roots(frozenset(self._roots))
            index.task = asyncio.create_task(self._keep_current(index), name=f"build {root.scope}")
        index.used_at = time.monotonic()
        return index

    def forget_vectors(self, index: RootIndex) -> None:
        """The next build of this root embeds everything anew, everyday messages as well: `rebuild --full`."""
        index.builder.forget_vectors()
        self._outdated = True

    def end_silence(self) -> None:
        """Ask an endpoint that wanted patience at once: a person who rebuilds may have mended the cause."""
        self._silent_until = 0.0

    def mark(self, top: str, files: frozenset[str] = frozenset()) -> None:
        """Something under this top may have changed: these files, or anything."""
        for root, index in self._roots.items():
            if root.top == top:
                index.mark(files)

    async def view(self, roots: Iterable[Root], generation: int, deadline: float) -> View:
        """What is visible of `roots`, after waiting for `generation` (0: a first build) or `deadline`."""
        indexes = [self.open(root) for root in roots]
        for index in indexes:
            if not index.has(generation):
                await index.reach(generation, deadline)
        stale = next((i.progress.error for i in indexes if i.visible < min(generation, i.wanted)), "")
        broken = next((i.progress.error for i in indexes if i.map is None and i.attempted), "")
        return View(
            maps=tuple(i.map for i in indexes if i.map is not None),
            generation=_shown_by_all(indexes),
            waiting=any(i.map is None and not i.attempted for i in indexes),
            problem=broken or (f"stale: {stale}" if stale else ""),
            baseline=self._background,
        )

    async def run(self) -> None:
        """Reconcile with the disk every 25 s; unload what nobody used for a day (design.md D13)."""
        while True:
            await asyncio.sleep(self._reconcile_s)
            idle_since = time.monotonic() - UNLOAD_AFTER_S
            for root, index in list(self._roots.items()):
                if index.used_at < idle_since:
                    await self._unload(root)
                else:
                    index.mark()
            if any(index.map is not None and index.map.dense is not None for index in self._roots.values()):
                self._learn_background()  # where the endpoint refused them at first

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)
        for root in list(self._roots):
            await self._unload(root)

    def indexes(self) -> tuple[RootIndex, ...]:
        return tuple(self._roots.values())

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
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
        await asyncio.to_thread(index.builder.store.sweep_temps)
        retry_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(retry_s):
                    await index.dirty.wait()
            except TimeoutError:
                pass
            index.dirty.clear()
            error = await self._attempt(index)
            retry_s = _pause(error, retry_s) if error is not None else None

    async def _attempt(self, index: RootIndex) -> Exception | None:
        """One build; why it must be tried again, if so. What was served before is served on (B43)."""
        index.goal, started = index.wanted, time.monotonic()
        try:
            await self._build(index, index.goal)
        except (ForgedError, OSError) as error:
            self._failed(index, error, index.goal)
            return error
        except Exception as error:
            logger.exception("build broke root=%s", index.root.top)
            self._failed(index, error, index.goal)
            return error
        index.progress.state, index.progress.error = "ready", ""
        index.progress.build_ms = (time.monotonic() - started) * 1000
        index.visible, index.attempted = max(index.visible, index.goal), max(index.attempted, index.goal)
        index.ended = index.goal
        index.moved()
        if index.progress.build_ms > _LONG_BUILD_MS:
            await asyncio.to_thread(malloc_trim.give_back)
        logger.debug("build done root=%s took_ms=%.1f", index.root.top, index.progress.build_ms)
        return None

    def _failed(self, index: RootIndex, error: BaseException, goal: int) -> None:
        reason = f"{error.reason}: {error}" if isinstance(error, ProviderError) else f"{error}"
        if index.progress.error != reason:  # once per change, not once per retry
            logger.warning(
                "build failed root=%s texts=%d embedder=%s error=%s",
                index.root.top,
                index.progress.to_embed,
                " ".join(self._embedder.key.split()) if self._embedder is not None else "none",
                reason,
            )
        index.progress.state, index.progress.error = "failed", reason
        index.attempted = index.ended = goal
        self._metrics.rebuild_failures += 1
        self._tell(Event("failed", index.root.top, generation=goal))
        index.moved()

    async def _build(self, index: RootIndex, goal: int) -> None:
        """Scan, draft, embed, swap. Raises ProviderError when vectors are missing at the end."""
        if not index.progress.error:  # what failed is shown as failed until it has gone well
            index.progress.state = "building" if index.map is not None else "loading"
        self._tell(Event("scanning", index.root.top, generation=goal))
        draft = await asyncio.to_thread(index.builder.draft, index.marked())
        if index.builder.unsettled:
            asyncio.get_running_loop().call_later(_UNSETTLED_S, index.mark)
        if draft is None:
            return
        if not draft.missing:
            await self._swap(index, draft, goal)
            return
        await self._embed_and_swap(index, draft, goal)

    async def _embed_and_swap(self, index: RootIndex, draft: Draft, goal: int) -> None:
        index.progress.embedded, index.progress.to_embed = 0, len(draft.missing)
        if (refusal := self._still_refused()) is not None:
            await self._swap(index, draft, goal)
            raise refusal

        def progressed(count: int) -> None:
            index.progress.embedded += count
            self._metrics.texts_embedded += count
            self._tell(
                Event("embedding", index.root.top, index.progress.embedded, index.progress.to_embed, goal)
            )

        self._learn_background()
        run = asyncio.create_task(index.builder.embed(draft, progressed))
        try:
            if self._lexical:
                # Ready at once, better soon: the lexical leg needs no model (design.md D18).
                await asyncio.wait({run}, timeout=_PATIENCE_S if index.map is not None else 0)
                if not run.done():
                    await self._swap(index, draft, goal)
                    index.progress.state = "failed" if index.progress.error else "building"
            while await _marked_before(run, index):
                draft = await self._follow(index, draft)
            error = await run
        finally:
            run.cancel()
        await self._swap(index, draft, index.goal)
        if error is not None:
            self._be_silent(error)
            raise error
        if not index.builder.complete:  # what changed meanwhile is still to be embedded
            index.goal = goal
            index.dirty.set()

    async def _follow(self, index: RootIndex, draft: Draft) -> Draft:
        """Show what changed on disk while texts are on their way, which may take minutes.

        What is removed goes at once; what is new has words, and waits for its vector without them.
        """
        index.dirty.clear()
        index.goal, before = index.wanted, index.builder.snapshot
        newer = await asyncio.to_thread(index.builder.draft, index.marked())
        if index.builder.unsettled:
            asyncio.get_running_loop().call_later(_UNSETTLED_S, index.mark)
        if newer is None or index.builder.snapshot is before:
            self._words_shown(index, index.goal)
            return draft
        await self._swap(index, newer, index.goal)
        return newer

    async def _swap(self, index: RootIndex, draft: Draft, goal: int) -> None:
        """Replace the map by one assignment (B27)."""
        new = await asyncio.to_thread(index.builder.finish, draft, goal, self._background)
        if new is None:
            return
        index.map = new
        if new.dense is not None and self._background is not None and not self._background.fits(new.dense):
            self._outdated = True  # the model was replaced behind its name
            self._learn_background()
        index.progress.built_at = time.monotonic()
        self._words_shown(index, goal)
        self._metrics.rebuilds += 1
        self._tell(Event("swapped", index.root.top, len(new.memories), len(new.memories), goal))
        logger.info("map swapped root=%s memories=%d generation=%d", index.root.top, len(new.memories), goal)

    def _learn_background(self) -> None:
        """Embed the everyday messages, once, beside the first texts that are embedded anyway.

        Until that has gone well the words decide; the next build that embeds tries again, or the next scan.
        """
        known = self._background is not None and not self._outdated
        if not self._gated or known or self._embedder is None or self._still_refused() is not None:
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn(self._embedder), name="background")

    async def _learn(self, embedder: Embedder) -> None:
        try:
            asked = [await embedder.embed(part, "query") for part in _PARTS]
            noted = [await embedder.embed(part, "passage") for part in _PARTS]
        except ProviderError as error:
            if error.reason != self._not_learned:  # once per change, not once per retry
                logger.warning("background not embedded, the gate goes by words reason=%s", error.reason)
            self._not_learned = error.reason
            self._be_silent(error)
            return
        self._outdated, self._not_learned = False, ""
        if asked[0].shape[1] < LEAST_DIMENSION:
            self._gated = False  # there is nothing to learn, however often it is tried
            return
        self._background = await asyncio.to_thread(
            Baseline.of, embedder.key, np.concatenate(asked), np.concatenate(noted)
        )

    def _be_silent(self, error: ProviderError) -> None:
        """Ask nothing for as long as an endpoint wants: edits and scans come sooner than a retry would."""
        if error.retry_after_s is not None:
            self._refusal = error
            self._silent_until = time.monotonic() + min(error.retry_after_s, _PAUSE_MOST_S)

    def _still_refused(self) -> ProviderError | None:
        """What the endpoint said when it asked for patience, while that time lasts."""
        error, left = self._refusal, self._silent_until - time.monotonic()
        if error is None or left <= 0:
            return None
        return ProviderError(str(error), reason=error.reason, status=error.status, retry_after_s=left)

    def _words_shown(self, index: RootIndex, goal: int) -> None:
        if self._lexical:
            index.visible = index.attempted = goal
        index.moved()

    def _tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)


def _pause(error: Exception, before: float | None) -> float:
    """Seconds until the next attempt: what the endpoint asks for, else twice as long as `before`."""
    asked = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked is not None:
        return min(max(asked, _RETRY_S), _PAUSE_MOST_S)
    return min((before or _RETRY_S / 2) * 2, _RETRY_MOST_S)


async def _marked_before(run: asyncio.Task[ProviderError | None], index: RootIndex) -> bool:
    """Whether the root is marked before the run is over."""
    marked = asyncio.create_task(index.dirty.wait())
    try:
        await asyncio.wait({run, marked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        marked.cancel()
    return not run.done()


def _shown_by_all(indexes: Sequence[RootIndex]) -> int:
    """Greatest generation of which nothing is missing: a root that lags behind holds the others back."""
    lagging = [index.visible for index in indexes if index.visible < index.wanted]
    return min(lagging) if lagging else max((index.visible for index in indexes), default=0)
