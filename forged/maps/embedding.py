"""Embedding queue of each model, for all texts that lack a vector, and the model's baseline.

Builds, sessions and server rows hand in texts by hash; four chunks are out at a time. The latest run goes
first. Within the same second the run with the fewest texts goes first, so that small roots do not wait for
large ones. A failed chunk that one text may have caused is halved until that text is alone; the rest goes out
again. A text is set aside when it failed alone twice and the public sentences (`model_identity`) got through
in between. When these fail too the endpoint is at fault: ProviderError ends the run. Chunks that got through
earlier prove nothing: an outage may begin in mid-run.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.fair_queue import PrioritySemaphore, Rank, ignore_failure, log_failure
from forged.map import LEAST_DIMENSION, Baseline
from forged.maps.model_identity import ModelCache, ModelIdentity
from forged.models import Embedder, Kind, Purpose, Vectors
from forged.text.english import EVERYDAY_MESSAGES

logger = logging.getLogger(__name__)

AT_ONCE = 4
_WINDOW_S = 60.0
_SET_ASIDE_S = 3600.0
_AGAIN_S = 60.0
_BUILD = Purpose("build")
# May be the fault of one text: it is refused, resets the connection, hangs the server, gets an odd vector.
_MAY_BE_ONE_TEXT = frozenset({"bad_input", "server", "bad_reply", "unreachable", "timeout"})
# A second try may succeed; a refusal is final, and a hang takes its time.
_MAY_PASS = _MAY_BE_ONE_TEXT - {"bad_input", "timeout"}
# A chunk, or a suspect alone, may take long on a slow machine; a slow half most likely holds the culprit.
_CHUNK_S, _HALF_S, _ALONE_S = 60.0, 15.0, 30.0

# Everyday messages that are embedded at once: a query waits for so many and not for all.
_MESSAGES_AT_ONCE = 32
_GATE = Purpose("gate")
_PASSES = frozenset({"timeout", "unreachable", "server"})

Chunk = list[tuple[bytes, str]]
Refusal = Callable[[tuple[str, ...]], Awaitable[str]]
"""Returns the reason why texts of these roots may not leave now; empty if they may."""
Holds = Callable[[], Iterable[tuple[tuple[str, ...], Mapping[bytes, str]]]]
"""Yields all texts of a holder by hash, grouped by the roots whose egress rules apply."""


def text_hash(text: str) -> bytes:
    """Return the SHA-256 of a text, the key of its vector."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class ModelReplacedError(ProviderError):
    """Raised if another model begins to answer under the name: the vectors so far fit no map."""


def _outage_error(embedder: Embedder) -> ProviderError | None:
    """Return the error of an endpoint that may not be called yet after failures; else None."""
    outage = embedder.health.outage() if embedder.health is not None else None
    return outage.error() if outage is not None and outage.wait_s > 0 else None


class EmbeddingQueue:
    """Embeds all texts of one model, the latest run first; keeps vectors of sessions and server rows.

    `revision` changes when `get` may return other vectors. Belongs to one event loop.
    """

    def __init__(
        self,
        embedder: Embedder,
        model_cache: ModelCache | None = None,
        *,
        gated: bool = False,
        refusal: Refusal | None = None,
        obstacle: Callable[[], str] = lambda: "",
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        takes: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Create the queue of one model.

        `gated`: the model's baseline is needed. `takes` returns True for texts that this model embeds.
        """
        self.takes = takes
        self.identity = ModelIdentity(
            embedder, model_cache, clock=clock, obstacle=obstacle, on_change=self._on_model_change
        )
        self.learner = BaselineLearner(self.identity, needed=gated)
        self.semaphore = PrioritySemaphore(lambda: AT_ONCE)
        self.revision = 0
        self._on_change = on_change
        self._refusal = refusal if embedder.replaceable else None
        self._clock = clock
        self.runs: list[EmbeddingRun] = []
        self._done: deque[tuple[float, int]] = deque()
        self._since: float | None = None  # time of the first finished texts of the current runs
        self._set_aside: dict[bytes, tuple[str, float]] = {}
        self._holders: list[Holds] = []
        self._vectors: dict[bytes, Vectors] = {}
        self._key = self.identity.key  # of the model that made them
        self._woken = asyncio.Event()

    # --- texts being embedded -------------------------------------------------------------------------

    def begin_run(
        self,
        purpose: Purpose = _BUILD,
        *,
        texts: int = 0,
        used_at: Callable[[], float] = lambda: 0.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> EmbeddingRun:
        """Begin a run over so many texts and queue it; the caller calls `leave` on it.

        `used_at` ranks it among others. `progress` is called with the number of finished texts.
        """
        if not self.runs:
            self._since = None
            self._done.clear()
        run = EmbeddingRun(self, purpose, texts, used_at, progress)
        self.runs.append(run)
        return run

    async def embed(self, run: EmbeddingRun, wanted: Callable[[], Mapping[bytes, str]]) -> None:
        """Check the model, then embed the texts of `wanted` into the run; set aside refused ones.

        Raises ProviderError when the endpoint failed; earlier vectors are in the run.
        """
        self.learner.learn()
        await self.identity.check_if_due()
        self._drop_other_models()
        if self.identity.refusal is not None:
            raise self.identity.refusal
        run.key = self._key
        try:
            await run.run(await asyncio.to_thread(wanted))
        finally:
            until = self._clock() + _SET_ASIDE_S
            culprits = {key: (why, until) for key, why in run.culprits.items()}
            self._set_aside = {**self.set_aside, **culprits}
        self.learner.try_again()

    async def embed_now(self, texts: Sequence[str], deadline: float) -> list[Vectors | None]:
        """Embed a few urgent texts; return their vectors, None for those not there at `deadline`."""
        now = time.monotonic()
        run, keys = self.begin_run(texts=len(texts), used_at=lambda: now), list(map(text_hash, texts))
        left = {key: text for key, text in zip(keys, texts, strict=True) if key not in self.set_aside}
        try:
            async with asyncio.timeout_at(deadline):
                await self.embed(run, lambda: left)
        except (ProviderError, TimeoutError) as error:
            logger.info("rows have no vectors reason=%s", getattr(error, "reason", "timeout"))
        finally:
            run.leave()
        return list(map(self._vectors_of(run).get, keys))

    async def obstacle(self, tops: tuple[str, ...]) -> ProviderError | None:
        """Return the error that keeps texts of these roots from being embedded now, if any."""
        if self._refusal is not None and (why := await self._refusal(tops)):
            return ProviderError(why, reason="held")
        return _outage_error(self.identity.embedder)

    @property
    def rate(self) -> float:
        """Texts a second, of all runs, in the last minute; 0 until the second chunk: a model may load."""
        now = self._clock()
        while self._done and self._done[0][0] < now - _WINDOW_S:
            self._done.popleft()
        if self._since is None or not self._done:
            return 0.0
        return sum(count for _, count in self._done) / max(min(now - self._since, _WINDOW_S), 1e-3)

    def count_done(self, count: int) -> None:
        """Count finished texts for the rate; the first ones of all only start the clock."""
        if self._since is None:
            self._since = self._clock()
        else:
            self._done.append((self._clock(), count))

    # --- texts that the model refuses -----------------------------------------------------------------

    @property
    def set_aside(self) -> Mapping[bytes, tuple[str, float]]:
        """Refused texts that are not sent for now, by hash: the reason and the time of the next try.

        The mapping is replaced, never changed.
        """
        now = self._clock()
        if any(until <= now for _, until in self._set_aside.values()):
            self._set_aside = {key: each for key, each in self._set_aside.items() if each[1] > now}
        return self._set_aside

    def retry(self, keys: Collection[bytes]) -> None:
        """Take texts, by hash, off the list of refused ones, so that they are embedded again."""
        self._set_aside = {key: each for key, each in self._set_aside.items() if key not in keys}

    # --- vectors of holders ---------------------------------------------------------------------------

    def add_holder(self, holds: Holds) -> None:
        """Register a holder of texts, as of sessions: `run` embeds them, and `get` returns their vectors."""
        self._holders.append(holds)

    def get(self, key: bytes) -> Vectors | None:
        """Return the vector of a holder's text by hash, None if it is not there."""
        self._drop_other_models()
        return self._vectors.get(key)

    def wake(self) -> None:
        """Let `run` look for missing texts now, as a holder has other texts."""
        self._woken.set()

    async def run(self) -> None:
        """Embed holders' missing texts, and drop vectors of texts no longer held, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._woken.wait()
            self._woken.clear()
            held = [group for holds in self._holders for group in holds()]
            try:
                for tops, texts in held:
                    await self._embed_group(tops, texts)
            except ProviderError as error:
                logger.debug("texts of sessions have no vectors reason=%s", error.reason)
            there = {key for _, texts in held for key in texts}
            self._vectors = {key: row for key, row in self._vectors.items() if key in there}

    async def close(self) -> None:
        """End the background tasks: the model check and the computing of the baseline."""
        await self.learner.close()
        await self.identity.close()

    async def _embed_group(self, tops: tuple[str, ...], texts: Mapping[bytes, str]) -> None:
        """Embed a holder's missing texts and keep the vectors. Raises ProviderError, unless held back."""

        def lacking() -> dict[bytes, str]:
            known = self._vectors.keys() | self.set_aside.keys()
            return {key: text for key, text in texts.items() if key not in known}

        self._drop_other_models()
        if not (left := lacking()):
            return
        now = time.monotonic()
        run = self.begin_run(Purpose("build", tops), texts=len(left), used_at=lambda: now)
        try:
            await self.embed(run, lacking)
        except ProviderError as error:
            if error.reason != "held":
                raise
        finally:
            run.leave()
            made = self._vectors_of(run)
            self._vectors |= made
            self.revision += bool(made)

    def _vectors_of(self, run: EmbeddingRun) -> Mapping[bytes, Vectors]:
        """Return a run's vectors; none if another model was recognised since it began."""
        self._drop_other_models()
        return run.vectors if run.key == self._key else {}

    def _drop_other_models(self) -> None:
        """Drop the vectors of a model that was replaced: vectors of two models are never compared."""
        if self._key != self.identity.key:
            self._key, self._vectors, self._set_aside = self.identity.key, {}, {}
            self.revision += 1

    def _on_model_change(self) -> None:
        """Start embedding holders' texts anew and computing the baseline; report the change."""
        self._woken.set()
        self.learner.learn()
        self._on_change()


class EmbeddingRun:
    """One caller's texts that are being embedded; `left` is the number of those still missing.

    `vectors`, `culprits` and `cut` (texts embedded by their beginning) outlive an outage in mid-run.
    """

    def __init__(
        self,
        queue: EmbeddingQueue,
        purpose: Purpose,
        texts: int,
        used_at: Callable[[], float],
        progress: Callable[[int], None],
    ) -> None:
        self.left = texts
        self.key = ""  # of the model, as the run begins
        self.vectors: dict[bytes, Vectors] = {}
        self.culprits: dict[bytes, str] = {}
        self.cut: set[bytes] = set()
        self._queue = queue
        self._identity = queue.identity
        self._embedder = queue.identity.embedder
        self._purpose = purpose
        self._suspect = msgspec.structs.replace(purpose, suspect=True)
        self._used_at = used_at
        self._progress = progress

    def rank(self) -> Rank:
        """Return the rank among runs: the latest used goes first, then that with the fewest texts left."""
        return (int(self._used_at()), -self.left)

    @property
    def rate(self) -> float:
        return self._queue.rate

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until this run is over, if no other begins; None while unknown."""
        own, rate = self.rank(), self.rate
        ahead = (each.left for each in self._queue.runs if each is self or each.rank() > own)
        return round(sum(ahead) / rate, 1) if rate else None

    def leave(self) -> None:
        """End the run: take it out of the queue."""
        self._queue.runs.remove(self)

    def count_finished(self, count: int) -> None:
        """Subtract finished texts from `left`, and report them to the queue and the caller."""
        self.left -= count
        self._queue.count_done(count)
        self._progress(count)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a slot to send a chunk, in the order of runs, and hold it during the `with` block."""
        await self._queue.semaphore.take(self.rank)
        try:
            yield
        finally:
            self._queue.semaphore.release()

    async def run(self, texts: Mapping[bytes, str]) -> None:
        """Embed texts by hash in chunks, some at once, the first ones first; isolate those that fail.

        Raises ProviderError when the endpoint, not a text, is at fault, and ModelReplacedError when the
        answering model changes during the run.
        """
        items, size = list(texts.items()), self._embedder.chunk
        starts = iter(range(size, len(items), size))

        async def work() -> None:
            for at in starts:
                async with self.turn():
                    await asyncio.sleep(0)  # an embedder that never waits must let other tasks run
                    await self._embed_chunk(items[at : at + size])

        # The first chunk goes alone: an endpoint that is down is asked once, not four times.
        async with self.turn():
            await self._embed_chunk(items[:size])
        tasks = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, -(-len(items) // size) - 1))]
        for task in tasks:
            task.add_done_callback(ignore_failure)
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _embed_chunk(self, part: Chunk) -> None:
        """Embed a chunk; isolate and set aside the texts in it that the endpoint refuses."""
        while part:
            error = await self._embed_once(part, _CHUNK_S, self._purpose)
            if error is not None and error.reason != "bad_input":  # an endpoint that refuses answers
                await self._check_endpoint(error)
                error = await self._embed_once(part, _CHUNK_S) if error.reason in _MAY_PASS else error
            part = await self._isolate(part) if error is not None else []

    async def _isolate(self, part: Chunk) -> Chunk:
        """Halve a failed chunk down to one text and try it alone; return texts left to embed."""
        aside: Chunk = []
        while len(part) > 1:
            middle = len(part) // 2
            if await self._embed_once(part[:middle], _HALF_S) is None:
                part = part[middle:]  # not tried: it holds the culprit, if any text does
            else:
                part, aside = part[:middle], part[middle:] + aside
        await self._try_alone(part[0])
        return aside

    async def _try_alone(self, suspect: tuple[bytes, str]) -> None:
        """Embed a suspect text alone, twice at most; set it aside if it fails and the endpoint does not."""
        alone = await self._embed_once([suspect], _ALONE_S)
        if alone is None:
            return
        await self._check_endpoint(alone)
        again = await self._embed_once([suspect], _ALONE_S)
        if again is not None:
            self.culprits[suspect[0]] = f"{again.reason}: {again}"
            self.count_finished(1)

    async def _check_endpoint(self, error: ProviderError) -> None:
        """Embed the public sentences; raise `error` if they fail, ModelReplacedError for another model."""
        before = self._identity.key
        try:
            await self._identity.check_now()
        except ProviderError:
            raise error from None
        if self._identity.key != before:
            raise ModelReplacedError(f"{error}", reason="bad_reply")

    async def _embed_once(
        self, part: Chunk, within_s: float, purpose: Purpose | None = None
    ) -> ProviderError | None:
        """Embed a chunk by one call, or return an error that a text may cause; raise others."""
        texts, until = [text for _, text in part], time.monotonic() + within_s
        try:
            rows = await self._embedder.embed(texts, purpose=purpose or self._suspect, deadline=until)
        except ProviderError as error:
            if error.reason not in _MAY_BE_ONE_TEXT:
                raise
            return error
        dimension = self._identity.dimension
        if dimension and rows.shape[1] != dimension:
            return ProviderError(
                f"a vector of {rows.shape[1]} numbers where others have {dimension}", reason="bad_reply"
            )
        for (key, text), row in zip(part, rows, strict=True):
            self.vectors[key] = np.asarray(row)
            if self._embedder.is_cut(text):
                self.cut.add(key)
        self.count_finished(len(part))
        return None


# --- the baseline of a model --------------------------------------------------------------------------


class BaselineLearner:
    """Background computing of one model's baseline, the zero point of the gate, for all roots.

    Until one is known the gate uses words. A failure is tried again by the next build that embeds, by the
    next scan and, if the reason may pass, after a build whose texts were answered. `is_wanting` is True while
    the baseline of the answering model is missing: its vectors tell nothing about a message then.
    """

    def __init__(self, identity: ModelIdentity | None, *, needed: bool) -> None:
        self.baseline: Baseline | None = None
        self._identity = identity
        self._needed = needed
        self._learning: asyncio.Task[None] | None = None
        self._problem = ""
        self.is_wanting = needed and identity is not None
        if identity is not None:
            identity.renamed = self._update_is_wanting

    @property
    def state(self) -> tuple[str, str]:
        """State of the gate (off, words, learning, vectors or failing), and the reason of a failure."""
        if not self._needed:
            return "off", ""
        if self._identity is not None and not self.is_wanting:
            return "vectors", ""
        if self._learning is None:
            return "words", ""
        return ("failing", self._problem) if self._learning.done() else ("learning", "")

    def set_baseline(self, baseline: Baseline | None) -> None:
        """Set the baseline, of the answering model or an earlier one, and update `is_wanting`."""
        self.baseline = baseline
        self._update_is_wanting()

    def _update_is_wanting(self) -> None:
        """Update `is_wanting`: the baseline is needed and is not the answering model's."""
        known = self.baseline.key if self.baseline is not None else None
        self.is_wanting = self._needed and self._identity is not None and known != self._identity.key

    def load_cached(self) -> None:
        """Set the baseline from the cache, if it is there, so that even the first map has one."""
        identity = self._identity
        if self.is_wanting and identity is not None and identity.is_certain:
            self.set_baseline(identity.model_cache.baselines.get(identity.key, self.baseline))

    def learn(self) -> None:
        """Start to compute a missing baseline, unless that is under way or the endpoint fails."""
        if (
            not self.is_wanting
            or self._identity is None
            or _outage_error(self._identity.embedder) is not None
        ):
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._compute(self._identity), name="baseline")
            self._learning.add_done_callback(log_failure)

    def try_again(self) -> None:
        """Start to compute the baseline again, if the last attempt failed for a passing reason."""
        if self._problem in _PASSES:
            self.learn()

    async def close(self) -> None:
        """Cancel the computing of the baseline and wait for its end."""
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)

    async def _compute(self, identity: ModelIdentity) -> None:
        """Compute, cache and set the baseline, or keep the reason of a failure."""
        try:
            await identity.check_if_due()
            key = identity.key
            if (known := identity.model_cache.baselines.get(key)) is not None:
                self.set_baseline(known)
                return
            queries, passages = (
                await _embed_messages(identity, "query"),
                await _embed_messages(identity, "passage"),
            )
        except ProviderError as error:
            if error.reason == "held":  # no failure: tried again with the next texts that may leave
                self._learning = None
                return
            if error.reason != self._problem:  # once per change, not once per retry
                logger.warning("background not embedded, the gate goes by words reason=%s", error.reason)
            self._problem = error.reason
            return
        self._problem = ""
        if queries.shape[1] < LEAST_DIMENSION:
            self._needed = False  # such vectors have no baseline
            self._update_is_wanting()
            return
        found = await asyncio.to_thread(Baseline.of, key, queries, passages)
        identity.model_cache.baselines[key] = found
        self.set_baseline(found)


async def _embed_messages(identity: ModelIdentity, kind: Kind) -> Vectors:
    """Return the vectors of all everyday messages as queries or as passages, in calls of 32."""
    size = _MESSAGES_AT_ONCE
    parts = (list(EVERYDAY_MESSAGES[at : at + size]) for at in range(0, len(EVERYDAY_MESSAGES), size))
    return np.concatenate([await identity.embedder.embed(part, kind, purpose=_GATE) for part in parts])
