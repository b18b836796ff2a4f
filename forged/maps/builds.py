"""The course of a root's builds: scan, draft, embed, swap, and again when the root is marked.

Each root has one task here (`keep_current`), so its builds come one after another. What cannot be embedded at
once is found by its words meanwhile; what changes on disk while texts are on their way is shown without
waiting for them. Nothing is raised: why a build failed stands in the root's `progress` and in the log, and
the build is tried again when the back-off ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import time
from collections.abc import Awaitable, Callable

from forged.counters import Metrics
from forged.errors import ForgedError, ProviderError
from forged.fair_queue import retrieved
from forged.maps.baseline_learner import BaselineLearner
from forged.maps.build_events import BuildEvent, BuildEvents
from forged.maps.builder import Draft
from forged.maps.embed_line import EmbedLine, Place
from forged.maps.root_index import RootIndex
from forged.models import LONGEST_ASKED_S, Health
from forged.trust import TrustRegistry

logger = logging.getLogger(__name__)

# A map is swapped in without the vectors that are still missing when they take longer than this.
_PATIENCE_S = 0.05
_UNSETTLED_S = 0.1
_LONG_BUILD_MS = 500.0
_LARGE = 2000
_RETRY_S, _RETRY_MOST_S = 1.0, 60.0

# With new vectors a map is swapped in when there are twice as many, and not sooner than after so long: of a
# long embedding much is seen early, and a short one is not slowed down by maps.
_RICHER_S = 10.0

Run = asyncio.Task[ProviderError | None]
Refusal = Callable[[tuple[str, ...]], Awaitable[str]]
"""Why texts of these roots may not leave now, or nothing."""


class Builds:
    """What the builds of all roots have in common. `model` names the embedder in the log."""

    def __init__(
        self,
        *,
        model: str,
        lexical: bool,
        metrics: Metrics,
        events: BuildEvents,
        learner: BaselineLearner,
        health: Health,
        refusal: Refusal | None,
        trust: TrustRegistry | None,
    ) -> None:
        """`lexical`: words find what has no vector yet. `refusal` is that of the door before the embedder."""
        self._model = model
        self._lexical = lexical
        self._metrics = metrics
        self._events = events
        self._learner = learner
        self._health = health
        self._refusal = refusal
        self._trust = trust
        self._line = EmbedLine()

    async def keep_current(self, index: RootIndex) -> None:
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
        started, before = time.monotonic(), _large_rows(index)
        try:
            await self._build(index, files)
        except (ForgedError, OSError) as error:
            if isinstance(error, ProviderError) and error.reason == "held":
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
        if progress.build_ms > _LONG_BUILD_MS or _large_rows(index) is not before:
            await asyncio.to_thread(give_back)
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
                self._model,
                reason,
            )
        index.progress.state, index.progress.error, index.progress.held = "failed", reason, ""
        index.generations.tried = index.generations.ended = goal
        self._metrics.rebuild_failures += 1
        self._events.tell(BuildEvent("failed", index.root.top, generation=goal))
        index.notify_waiters()

    def _held(self, index: RootIndex, error: ProviderError) -> None:
        """Nothing may leave, which is no failure: till `resumed`, words find what has no vector."""
        progress, reached = index.progress, index.generations
        progress.state, progress.held = "held", str(error)
        progress.error = "" if index.map is not None else str(error)
        reached.tried = reached.ended = reached.building
        index.notify_waiters()

    async def _build(self, index: RootIndex, files: frozenset[str]) -> None:
        """Scan, draft, embed, swap. Raises ProviderError when vectors are missing at the end."""
        if not index.progress.error:  # what failed is shown as failed until it has gone well
            index.progress.state = "building" if index.map is not None else "loading"
        self._events.tell(BuildEvent("scanning", index.root.top, generation=index.generations.building))
        draft = await self._draft(index, files)
        if draft is None:
            return
        self._learner.recall()
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
        self._learner.learn()
        place = index.place = self._line.enter(lambda: index.used_at, len(draft.missing))
        run = asyncio.create_task(index.builder.embed(draft, self._counting(index, place, goal), place))
        run.add_done_callback(retrieved)
        try:
            draft = await self._serve_meanwhile(index, draft, run)
            await asyncio.wait({run})
        finally:
            run.cancel()
            place.leave()
            index.place = None
        error = None if run.cancelled() else run.result()
        await self._swap(index, draft)
        if error is not None:
            raise error
        self._learner.try_again()
        if not index.builder.complete:  # what changed meanwhile is still to be embedded
            index.generations.building = goal
            index.marked.set()

    def _counting(self, index: RootIndex, place: Place, goal: int) -> Callable[[int], None]:
        """What is told of texts that are done with, which decides when there are enough for another map."""
        progress, worth = index.progress, 1

        def progressed(count: int) -> None:
            nonlocal worth
            progress.embedded += count
            self._metrics.texts_embedded += count
            place.did(count)
            numbers = progress.embedded, progress.to_embed, goal, place.rate, place.left_s
            self._events.tell(BuildEvent("embedding", index.root.top, *numbers))
            if progress.embedded >= worth and time.monotonic() - progress.built_at >= _RICHER_S:
                worth = 2 * progress.embedded
                index.richer.set()

        return progressed

    async def _serve_meanwhile(self, index: RootIndex, draft: Draft, run: Run) -> Draft:
        """Keep the map as good as it can be until a run is over; what is to be shown then."""
        if self._lexical:
            # Ready at once, better soon: the lexical leg needs no model.
            await asyncio.wait({run}, timeout=_PATIENCE_S if index.map is not None else 0)
            if not run.done():
                await self._swap(index, draft)
                index.progress.state = "failed" if index.progress.error else "building"
        while await index.stirred_before(run):
            enough = index.richer.is_set()
            index.richer.clear()
            if index.marked.is_set():
                draft = await self._follow(index, draft)
            if index.builder.starts_anew:
                run.cancel()  # nobody would see what it still brings
            elif enough and self._lexical and not index.builder.serves_older:
                await self._swap(index, draft)
        return draft

    async def _why_not(self, index: RootIndex) -> ProviderError | None:
        """Why nothing is asked for this root's texts now, not even what model answers."""
        if self._refusal is not None and (why := await self._refusal((index.root.top,))):
            return ProviderError(why, reason="held")
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
        new = await asyncio.to_thread(index.builder.finish, draft, goal, self._learner.baseline)
        if new is None:
            return
        index.map = new
        index.progress.built_at = time.monotonic()
        self._shown_by_words(index)
        self._metrics.rebuilds += 1
        self._events.tell(BuildEvent("swapped", index.root.top, len(new.memories), len(new.memories), goal))
        logger.info("map swapped root=%s memories=%d generation=%d", index.root.top, len(new.memories), goal)

    def _shown_by_words(self, index: RootIndex) -> None:
        """What was drafted can be found by its words, be its vectors there or not."""
        if self._lexical:
            index.generations.visible = index.generations.tried = index.generations.building
        index.notify_waiters()


def _large_rows(index: RootIndex) -> object:
    """What stands for the large rows of a map: where these are laid out anew, those before are freed."""
    return index.map.parts[0].traits if index.map is not None and len(index.map) >= _LARGE else None


def retry_after(error: Exception, before: float | None) -> float:
    """Seconds until the next attempt: what the endpoint asks for, else twice as long as `before`."""
    asked = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked is not None:
        return min(max(asked, _RETRY_S), LONGEST_ASKED_S)
    return min((before or _RETRY_S / 2) * 2, _RETRY_MOST_S)


def give_back() -> None:
    """Return freed pages to the system, in milliseconds; does nothing without glibc.

    It keeps what is freed between things that stay, and a daemon stays all day: after the first build of
    10,000 memories with vectors that was 28 of 122 MiB. Fewer arenas or a lower threshold for the whole
    process were rejected: they make every allocation pay for what one call after a build does.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
