"""Builds of one root's map: scan, draft, embed, swap, repeated after each mark.

A writer marks the root and gets a generation: the number of the map that will show the change. Marks during a
build lead to one more build. A reader of a generation waits until a build has *tried* to show it. Each root
has one task (`keep_current`), so its builds run one after another. Words find texts without vectors, and
changes on disk are shown without waiting for an embedding. Nothing is raised: a failure is in the root's
`progress` and in the log, and is tried again after a back-off, also for a second model.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from forged.counters import Metrics
from forged.errors import ForgedError, ProviderError
from forged.fair_queue import ignore_failure
from forged.files import Root
from forged.map import VectorMap
from forged.maps.builder import Builder, MapDraft
from forged.maps.embedding import EmbeddingQueue, EmbeddingRun
from forged.models import LONGEST_ASKED_S
from forged.trust import TrustRegistry

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A map is swapped in without the vectors that are still missing when they take longer than this.
_PATIENCE_S = 0.05
_UNSETTLED_S = 0.1
_LONG_BUILD_MS = 500.0
LARGE = 2000
_RETRY_S, _RETRY_MOST_S = 1.0, 60.0
# With new vectors a map is swapped in when there are twice as many, and not sooner than after so long.
_RICHER_S = 10.0

Errors = dict[EmbeddingQueue, ProviderError]
"""Errors because of which texts of these models have no vectors."""
Run = asyncio.Task[ProviderError | None]


class BuildEvent(msgspec.Struct, frozen=True):
    """A step of one root's build, for all listeners; `kind`: scanning, embedding, swapped, failed.

    `done` of `total` texts are embedded at `rate` a second, which takes `left_s` more seconds.
    """

    kind: str
    root: str
    done: int = 0
    total: int = 0
    generation: int = 0
    rate: float = 0.0
    left_s: float | None = None


class BuildEvents:
    """Publisher of build events: passes each event of any root to all registered listeners."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[BuildEvent], None]] = set()

    def listen(self, listener: Callable[[BuildEvent], None]) -> Callable[[], None]:
        """Call `listener` for every event; return a function that ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def publish(self, event: BuildEvent) -> None:
        """Call every listener with an event."""
        for listener in tuple(self._listeners):
            listener(event)


class BuildState(msgspec.Struct):
    """Progress of a root's builds, for status: counts, times, error, and why texts are `held` back."""

    state: str = "loading"
    embedded: int = 0
    to_embed: int = 0
    build_ms: float = 0.0
    built_at: float = 0.0
    error: str = ""
    held: str = ""


class Generations(msgspec.Struct):
    """Progress of one root: the greatest generation asked for, being built, visible, tried and so on.

    | field    | the greatest generation                                               |
    |----------|-----------------------------------------------------------------------|
    | wanted   | that was handed out                                                   |
    | building | that the build under way will show                                    |
    | visible  | that the map shows                                                    |
    | tried    | that the map shows or a build failed to show; words alone may show it |
    | ended    | whose build is over, vectors and all, or has failed                   |
    | added    | of a memory that this daemon added                                    |
    """

    wanted: int
    building: int = 0
    visible: int = 0
    tried: int = 0
    ended: int = 0
    added: int = 0


class RootIndex:
    """A root in use: its map, generations, pending marks, builder, embedding run and build task.

    `used_at` is `time.monotonic()`. `run` is the embedding under way, if any. `richer` is set when enough new
    vectors have come for another map.
    """

    def __init__(self, root: Root, builder: Builder, next_generation: Callable[[], int]) -> None:
        self.root = root
        self.builder = builder
        self.progress = BuildState()
        self.map: VectorMap | None = None
        self.generations = Generations(next_generation())
        self.used_at = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self.marked = asyncio.Event()
        self.marked.set()
        self.run: EmbeddingRun | None = None
        self.richer = asyncio.Event()
        self._everything = True  # has to be scanned, and not only these files:
        self._files: set[str] = set()
        self._changed = asyncio.Event()
        self._next_generation = next_generation

    def mark(self, files: frozenset[str] = frozenset(), *, after_s: float = 0.0) -> int:
        """Ask for a rescan of all or `files`, and a build; return the generation that shows it.

        With `files`, paths of changed memory files, only they are scanned. With `after_s` the build, which
        shares the interpreter with requests, begins so much later, or when a request waits for it. Files that
        already wait keep their delay.
        """
        if files and files <= self._files:
            return self.generations.wanted
        self._everything = self._everything or not files
        self._files |= files
        self.generations.wanted = self._next_generation()
        if after_s:
            self.generations.added = self.generations.wanted
            asyncio.get_running_loop().call_later(after_s, self._begin_unless_current)
        else:
            self.marked.set()
        return self.generations.wanted

    def _begin_unless_current(self) -> None:
        """Let the next build begin, unless one that shows all marks has begun already."""
        if self.generations.building < self.generations.wanted:
            self.marked.set()

    def take_marks(self) -> frozenset[str]:
        """Clear the marks as a build begins; return the files to scan, an empty set for all."""
        self.marked.clear()
        self.generations.building = self.generations.wanted
        files = frozenset() if self._everything else frozenset(self._files)
        self._everything, self._files = False, set()
        return files

    async def wait_for_interruption(self, run: asyncio.Task[T]) -> bool:
        """Wait for the end of a run, a mark or enough new vectors; return False at the end of the run."""
        stirs = [asyncio.create_task(event.wait()) for event in (self.marked, self.richer)]
        for stir in stirs:
            stir.add_done_callback(ignore_failure)
        try:
            await asyncio.wait({run, *stirs}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for stir in stirs:
                stir.cancel()
        return not run.done()

    def notify_waiters(self) -> None:
        """Wake all tasks that wait for a generation of this root."""
        self._changed.set()
        self._changed = asyncio.Event()

    def has_ended(self, generation: int) -> bool:
        """Return True if the build of a generation is over, with its vectors, or has failed."""
        return self._reached(self.generations.ended, generation)

    async def until_tried(self, generation: int, deadline: float) -> bool:
        """Wait until a build has tried to show `generation`; return False at the deadline."""
        return await self._wait_until(lambda: self._reached(self.generations.tried, generation), deadline)

    async def until_ended(self, generation: int, deadline: float | None = None) -> bool:
        """Wait until the build of a generation is over; return False at the deadline, if there is one.

        Words are searchable before the vectors are there.
        """
        return await self._wait_until(lambda: self.has_ended(generation), deadline)

    def _reached(self, greatest: int, generation: int) -> bool:
        """Return True if `greatest` is at least a generation, or the last one that was handed out."""
        return greatest >= min(max(generation, 1), self.generations.wanted)

    async def _wait_until(self, is_reached: Callable[[], bool], deadline: float | None) -> bool:
        """Begin a delayed build and wait for a condition; return False at the deadline."""
        if not is_reached():
            self._begin_unless_current()
        try:
            async with asyncio.timeout_at(deadline):
                while not is_reached():
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Builds(msgspec.Struct, frozen=True, eq=False):
    """Runs the builds of all roots; reports their steps, progress and failures.

    With `lexical`, words find texts without vectors. `main` is the queue of the maps' own model.
    """

    queues: Sequence[EmbeddingQueue]
    lexical: bool
    metrics: Metrics
    events: BuildEvents
    main: EmbeddingQueue | None
    trust: TrustRegistry | None

    async def keep_current(self, index: RootIndex) -> None:
        """Build a root whenever it is marked, and after a failure when the back-off ends. One task a root."""
        if self.trust is not None:
            await self.trust.wait_until_open()
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
        """Run one build and record its result; return the error if it is to be tried again."""
        started, before = time.monotonic(), _large_rows_identity(index)
        try:
            waits = await self._build(index, files)
        except Exception as error:
            if isinstance(error, ProviderError) and error.reason == "held":
                self._record_held(index, error)
                return None
            if not isinstance(error, (ForgedError, OSError)):
                logger.exception("build broke root=%s", index.root.top)
            self._record_failure(index, error)
            return error
        progress, reached = index.progress, index.generations
        progress.state, progress.error, progress.held = "ready", "", ""
        progress.build_ms = (time.monotonic() - started) * 1000
        reached.visible = max(reached.visible, reached.building)
        reached.tried = max(reached.tried, reached.building)
        reached.ended = reached.building
        index.notify_waiters()
        if progress.build_ms > _LONG_BUILD_MS or _large_rows_identity(index) is not before:
            await asyncio.to_thread(trim_memory)
        logger.debug("build done root=%s took_ms=%.1f", index.root.top, progress.build_ms)
        return waits

    def _record_failure(self, index: RootIndex, error: BaseException) -> None:
        """Record and report a failed build, log it once, and wake its waiters."""
        goal = index.generations.building
        reason = f"{error.reason}: {error}" if isinstance(error, ProviderError) else f"{error}"
        if index.progress.error != reason:  # once per change, not once per retry
            model = " ".join(self.main.identity.embedder.key.split()) if self.main is not None else "none"
            said, texts = "build failed root=%s texts=%d embedder=%s error=%s", index.progress.to_embed
            logger.warning(said, index.root.top, texts, model, reason)
        index.progress.state, index.progress.error, index.progress.held = "failed", reason, ""
        index.generations.tried = index.generations.ended = goal
        self.metrics.rebuild_failures += 1
        self.events.publish(BuildEvent("failed", index.root.top, generation=goal))
        index.notify_waiters()

    def _record_held(self, index: RootIndex, error: ProviderError) -> None:
        """Record that texts may not leave for now, which is no failure, and wake the waiters."""
        progress, reached = index.progress, index.generations
        progress.state, progress.held = "held", str(error)
        progress.error = "" if index.map is not None else str(error)
        reached.tried = reached.ended = reached.building
        index.notify_waiters()

    async def _build(self, index: RootIndex, files: frozenset[str]) -> ProviderError | None:
        """Build and swap in a map; return a second model's error to retry, raise the main one's."""
        if not index.progress.error:  # a failure is shown until a build succeeds
            index.progress.state = "building" if index.map is not None else "loading"
        self.events.publish(BuildEvent("scanning", index.root.top, generation=index.generations.building))
        draft = await self._draft(index, files)
        if draft is None:
            return None
        for queue in self.queues:
            queue.learner.load_cached()
        errors = await self._embed_and_swap(index, draft) if draft.missing else await self._swap(index, draft)
        if self.main is not None and (error := errors.pop(self.main, None)) is not None:
            raise error
        waits = next(iter(errors.values()), None)
        return None if waits is None or waits.reason == "held" else waits

    async def _draft(self, index: RootIndex, files: frozenset[str]) -> MapDraft | None:
        """Return the next map's draft, None if current; save trust, rescan soon if files change."""
        draft = await asyncio.to_thread(index.builder.draft, files)
        if self.trust is not None:
            await self.trust.save()
        if index.builder.unsettled:
            asyncio.get_running_loop().call_later(_UNSETTLED_S, index.mark)
        return draft

    async def _embed_and_swap(self, index: RootIndex, draft: MapDraft) -> Errors:
        """Embed a draft's missing texts, swap maps in meanwhile; return errors by model queue."""
        goal = index.generations.building
        index.progress.embedded, index.progress.to_embed = 0, len(draft.missing)
        obstacles = {each: await each.obstacle((index.root.top,)) for each in draft.lacking}
        errors = {queue: why for queue, why in obstacles.items() if why is not None}
        if len(errors) == len(obstacles):
            await self._swap(index, draft)
            return errors
        first = draft
        progress, used_at = self._progress_callback(index, goal), lambda: index.used_at
        runs = index.builder.begin(draft, leaving_out=errors, used_at=used_at, progress=progress)
        embed = index.builder.embed
        tasks = {each: asyncio.create_task(embed(draft, each, run)) for each, run in runs.items()}
        try:
            for queue, task in tasks.items():
                task.add_done_callback(ignore_failure)
                index.run = runs[queue]
                shows = self.lexical or queue is not self.main
                draft = await self._serve_meanwhile(index, draft, task, shows=shows)
                await asyncio.wait({task})
                error = None if task.cancelled() else task.result()
                errors |= {queue: error} if error is not None else {}
                await self._swap(index, draft)
        finally:
            for task in tasks.values():
                task.cancel()
            for run in runs.values():
                run.leave()
            index.run = None
        is_due = self.main not in errors and (not errors or draft is not first)
        if is_due and not index.builder.complete:  # changes during the run are still to be embedded
            index.generations.building = goal
            index.marked.set()
        return errors

    def _progress_callback(self, index: RootIndex, goal: int) -> Callable[[int], None]:
        """Return a callback that counts finished texts and asks for another map after enough of them."""
        progress, worth = index.progress, 1

        def progressed(count: int) -> None:
            nonlocal worth
            progress.embedded += count
            self.metrics.texts_embedded += count
            rate, left_s = (index.run.rate, index.run.left_s) if index.run is not None else (0.0, None)
            numbers = progress.embedded, progress.to_embed, goal, rate, left_s
            self.events.publish(BuildEvent("embedding", index.root.top, *numbers))
            if progress.embedded >= worth and time.monotonic() - progress.built_at >= _RICHER_S:
                worth = 2 * progress.embedded
                index.richer.set()

        return progressed

    async def _serve_meanwhile(self, index: RootIndex, draft: MapDraft, run: Run, *, shows: bool) -> MapDraft:
        """Swap in maps with words, changes and new vectors until a run is over; return the newest draft."""
        if shows:
            # Ready at once, better soon: the lexical index needs no model.
            await asyncio.wait({run}, timeout=_PATIENCE_S if index.map is not None else 0)
            if not run.done():
                await self._swap(index, draft)
                self._record_visible(index)
                index.progress.state = "failed" if index.progress.error else "building"
        while await index.wait_for_interruption(run):
            enough = index.richer.is_set()
            index.richer.clear()
            if index.marked.is_set():
                draft = await self._show_changes(index, draft)
            if index.builder.starts_anew:
                run.cancel()  # its vectors would not be shown
            elif enough and shows and not index.builder.serves_older:
                await self._swap(index, draft)
        return draft

    async def _show_changes(self, index: RootIndex, draft: MapDraft) -> MapDraft:
        """Show changes on disk during an embedding: draft and swap them in; return the newest draft."""
        before = index.builder.snapshot
        newer = await self._draft(index, index.take_marks())
        if newer is None or index.builder.snapshot is before:
            if self.lexical:
                self._record_visible(index)
            return draft
        await self._swap(index, newer)
        return newer

    async def _swap(self, index: RootIndex, draft: MapDraft) -> Errors:
        """Make a draft the root's map and report it, if it can be shown yet. Returns no errors."""
        goal = index.generations.building
        new = await asyncio.to_thread(index.builder.finish, draft, goal)
        if new is None:
            return {}
        index.map = new
        index.progress.built_at = time.monotonic()
        if self.lexical:
            self._record_visible(index)
        self.metrics.rebuilds += 1
        self.events.publish(BuildEvent("swapped", index.root.top, len(new.memories), len(new.memories), goal))
        logger.info("map swapped root=%s memories=%d generation=%d", index.root.top, len(new.memories), goal)
        return {}

    def _record_visible(self, index: RootIndex) -> None:
        """Record that the current build's generation is visible, and wake its waiters."""
        index.generations.visible = index.generations.tried = index.generations.building
        index.notify_waiters()


def _large_rows_identity(index: RootIndex) -> object:
    """Return an object that changes when the large rows are laid out anew and older ones are freed."""
    return index.map.parts[0].traits if index.map is not None and len(index.map.memories) >= LARGE else None


def retry_after(error: Exception, before: float | None) -> float:
    """Return the seconds until the next attempt: the endpoint's wish, else twice as long as `before`."""
    asked = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked is not None:
        return min(max(asked, _RETRY_S), LONGEST_ASKED_S)
    return min((before or _RETRY_S / 2) * 2, _RETRY_MOST_S)


def trim_memory() -> None:
    """Give freed memory back to the operating system; takes milliseconds, does nothing without glibc.

    After the first build of 10,000 memories with vectors glibc kept 28 of 122 MiB. Fewer arenas or a lower
    threshold for the process would make every allocation slower.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
