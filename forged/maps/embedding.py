"""Embedding: one queue for each model, of all texts that lack a vector.

Builds, sessions and rows of a server hand in texts by hash. Runs wait here before each chunk, and four chunks
are out at a time. The run that was asked for last goes first; of runs of the same second the one with the
fewest texts left, so that a small root does not wait for a large one.

A chunk that fails in a way that one text may be the cause of (it is refused, resets the connection, hangs the
server, comes back as an odd vector) is halved until the culprit stands alone. What was set aside on the way
goes out as one chunk again. Three public sentences (`identity`) decide whether a text is at fault at all:
when they fail too it is the endpoint, the run ends, and the caller tries again later. So a text is set aside
only when it failed alone twice and the sentences got through in between. That neighbours got through earlier
proves nothing: an outage that begins in mid-run would put innocents away.
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
from forged.fair_queue import Rank, Slots, retrieved
from forged.maps.baseline_learner import BaselineLearner
from forged.maps.identity import Identity, ModelReplacedError
from forged.maps.remembered import Remembered
from forged.models import Embedder, Health, Purpose, Vectors

logger = logging.getLogger(__name__)

AT_ONCE = 4
_WINDOW_S = 60.0
_SET_ASIDE_S = 3600.0
_AGAIN_S = 60.0
_BUILD = Purpose("build")
# These may be the fault of one text; anything else is the fault of the endpoint.
_MAY_BE_ONE_TEXT = frozenset({"bad_input", "server", "bad_reply", "unreachable", "timeout"})
# Of these a second try may come to something else; a refusal is one for ever, and a hang takes its time.
_MAY_PASS = _MAY_BE_ONE_TEXT - {"bad_input", "timeout"}
# A chunk may take long on a slow machine, and so may the text that is held to be the culprit; a half that
# takes so long most likely holds it.
_CHUNK_S, _HALF_S, _ALONE_S = 60.0, 15.0, 30.0

Part = list[tuple[bytes, str]]
Refusal = Callable[[tuple[str, ...]], Awaitable[str]]
"""Says why texts of these roots may not leave now, or nothing."""
Holds = Callable[[], Iterable[tuple[tuple[str, ...], Mapping[bytes, str]]]]
"""All texts of a holder by hash, in groups by the roots under which they may leave."""


def text_hash(text: str) -> bytes:
    """The name of a text among vectors."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class EmbeddingQueue:
    """All texts of one model on their way, and the vectors of holders that lay out none themselves.

    `moment` changes when there are other vectors to `get`. Belongs to one event loop.
    """

    def __init__(
        self,
        embedder: Embedder,
        remembered: Remembered | None = None,
        *,
        health: Health | None = None,
        gated: bool = False,
        refusal: Refusal | None = None,
        obstacle: Callable[[], str] = lambda: "",
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        takes: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Take the model, its endpoint's health, and the egress guard's refusal; the rest is the identity's.

        `gated`: the model's baseline is needed. `takes` tells which texts are this model's to embed.
        """
        self.takes = takes
        self.identity = Identity(
            embedder, remembered, clock=clock, obstacle=obstacle, on_change=self._model_changed
        )
        self.health = health or Health()
        self.learner = BaselineLearner(self.identity, self.health, needed=gated)
        self.slots = Slots(lambda: AT_ONCE)
        self.moment = 0
        self._on_change = on_change
        self._refusal = refusal if embedder.replaceable else None
        self._clock = clock
        self.runs: list[EmbeddingRun] = []
        self._done: deque[tuple[float, int]] = deque()
        self._since: float | None = None  # when the first texts of the runs under way were done
        self._set_aside: dict[bytes, tuple[str, float]] = {}
        self._holders: list[Holds] = []
        self._vectors: dict[bytes, Vectors] = {}
        self._key = self.identity.key  # of the model that made them
        self._woken = asyncio.Event()

    # --- texts on their way ---------------------------------------------------------------------------

    def enter(
        self,
        purpose: Purpose = _BUILD,
        *,
        texts: int = 0,
        used_at: Callable[[], float] = lambda: 0.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> EmbeddingRun:
        """Begin a run over so many texts; it has to leave again. `used_at` ranks it among others.

        `progress` is called with the number of texts that are done with.
        """
        if not self.runs:
            self._since = None
            self._done.clear()
        run = EmbeddingRun(self, purpose, texts, used_at, progress)
        self.runs.append(run)
        return run

    async def embed(self, run: EmbeddingRun, wanted: Callable[[], Mapping[bytes, str]]) -> None:
        """Embed the wanted texts, which are asked for, in a thread, once it is known which model answers.

        Raises ProviderError when they failed as a whole; what came before that is in the run.
        """
        self.learner.learn()
        await self.identity.begin()
        self._of_this_model()
        if self.identity.refusal is not None:
            raise self.identity.refusal
        try:
            await run.run(await asyncio.to_thread(wanted))
        finally:
            until = self._clock() + _SET_ASIDE_S
            culprits = {key: (why, until) for key, why in run.culprits.items()}
            self._set_aside = {**self.set_aside, **culprits}
        self.learner.try_again()

    async def embedded(self, texts: Sequence[str], deadline: float) -> list[Vectors | None]:
        """The vectors of a few texts that cannot wait, as far as they can be had until `deadline`."""
        now = time.monotonic()
        run, keys = self.enter(texts=len(texts), used_at=lambda: now), list(map(text_hash, texts))
        left = {key: text for key, text in zip(keys, texts, strict=True) if key not in self.set_aside}
        try:
            async with asyncio.timeout_at(deadline):
                await self.embed(run, lambda: left)
        except (ProviderError, TimeoutError) as error:
            logger.info("rows have no vectors reason=%s", getattr(error, "reason", "timeout"))
        finally:
            run.leave()
        return list(map(run.vectors.get, keys))

    async def obstacle(self, tops: tuple[str, ...]) -> ProviderError | None:
        """The reason for which no texts of these roots are embedded now."""
        if self._refusal is not None and (why := await self._refusal(tops)):
            return ProviderError(why, reason="held")
        trouble = self.health.trouble()
        return trouble.error() if trouble is not None and trouble.wait_s else None

    @property
    def rate(self) -> float:
        """Texts a second, of all runs, in the last minute; 0 while that is not known.

        It is known after the second chunk: before the first one is done a model may have to be loaded.
        """
        now = self._clock()
        while self._done and self._done[0][0] < now - _WINDOW_S:
            self._done.popleft()
        if self._since is None or not self._done:
            return 0.0
        return sum(count for _, count in self._done) / max(min(now - self._since, _WINDOW_S), 1e-3)

    def done(self, count: int) -> None:
        """Count texts that are done with."""
        if self._since is None:
            self._since = self._clock()
        else:
            self._done.append((self._clock(), count))

    # --- texts that the model refuses -----------------------------------------------------------------

    @property
    def set_aside(self) -> Mapping[bytes, tuple[str, float]]:
        """Texts that are not asked for now, by hash: why, and until when. Replaced, never changed."""
        now = self._clock()
        if any(until <= now for _, until in self._set_aside.values()):
            self._set_aside = {key: each for key, each in self._set_aside.items() if each[1] > now}
        return self._set_aside

    def retry(self, keys: Collection[bytes]) -> None:
        """Have these asked for again."""
        self._set_aside = {key: each for key, each in self._set_aside.items() if key not in keys}

    # --- vectors of holders ---------------------------------------------------------------------------

    def serve(self, holds: Holds) -> None:
        """Keep the vectors of all texts of a holder."""
        self._holders.append(holds)

    def get(self, key: bytes) -> Vectors | None:
        """The vector of a holder's text by hash, if it is there."""
        self._of_this_model()
        return self._vectors.get(key)

    def wake(self) -> None:
        """A holder has other texts."""
        self._woken.set()

    async def run(self) -> None:
        """Embed what holders lack, until cancelled; what failed as a whole is tried again later."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._woken.wait()
            self._woken.clear()
            held = [group for holds in self._holders for group in holds()]
            try:
                for tops, texts in held:
                    await self._supply(tops, texts)
            except ProviderError as error:
                logger.debug("texts of sessions have no vectors reason=%s", error.reason)
            there = {key for _, texts in held for key in texts}
            self._vectors = {key: row for key, row in self._vectors.items() if key in there}

    async def close(self) -> None:
        """End what goes on beside."""
        await self.learner.close()
        await self.identity.close()

    async def _supply(self, tops: tuple[str, ...], texts: Mapping[bytes, str]) -> None:
        """Embed what is lacking. Raises ProviderError, unless that is the pause of these roots."""

        def lacking() -> dict[bytes, str]:
            known = self._vectors.keys() | self.set_aside.keys()
            return {key: text for key, text in texts.items() if key not in known}

        self._of_this_model()
        if not (left := lacking()):
            return
        now = time.monotonic()
        run = self.enter(Purpose("build", tops), texts=len(left), used_at=lambda: now)
        try:
            await self.embed(run, lacking)
        except ProviderError as error:
            if error.reason != "held":
                raise
        finally:
            run.leave()
            self._vectors |= run.vectors
            self.moment += bool(run.vectors)

    def _of_this_model(self) -> None:
        """Vectors of two models are never compared."""
        if self._key != self.identity.key:
            self._key, self._vectors, self._set_aside = self.identity.key, {}, {}
            self.moment += 1

    def _model_changed(self) -> None:
        self._woken.set()
        self.learner.learn()
        self._on_change()


class EmbeddingRun:
    """Texts of one caller on their way; `left` counts those that are still to be embedded.

    `vectors`, `culprits` and `cut` (texts of which only the beginning was embedded) fill as the run goes on,
    so that what succeeded before an outage is not lost.
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
        """The order among runs: the highest goes first."""
        return (int(self._used_at()), -self.left)

    @property
    def rate(self) -> float:
        """Texts a second that are embedded now, of all runs."""
        return self._queue.rate

    @property
    def left_s(self) -> float | None:
        """Seconds until this run has its vectors, if nothing else is asked for; None while unknown."""
        own, rate = self.rank(), self.rate
        ahead = (each.left for each in self._queue.runs if each is self or each.rank() > own)
        return round(sum(ahead) / rate, 1) if rate else None

    def leave(self) -> None:
        """End the run."""
        self._queue.runs.remove(self)

    def did(self, count: int) -> None:
        """Count texts that are done with."""
        self.left -= count
        self._queue.done(count)
        self._progress(count)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Embed one of the chunks that are out within it."""
        await self._queue.slots.take(self.rank)
        try:
            yield
        finally:
            self._queue.slots.give_back()

    async def run(self, texts: Mapping[bytes, str]) -> None:
        """Embed `texts` by hash, the first ones first.

        Raises ProviderError when the endpoint, not a text, is at fault; ModelReplacedError when another
        model answers than the one that the run began with.
        """
        items, size = list(texts.items()), self._embedder.chunk
        starts = iter(range(size, len(items), size))

        async def work() -> None:
            for at in starts:
                async with self.turn():
                    await asyncio.sleep(0)  # where an embedder has nothing to wait for, others have
                    await self._embed(items[at : at + size])

        # The first chunk goes alone: an endpoint that is down is asked once, not four times.
        async with self.turn():
            await self._embed(items[:size])
        tasks = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, -(-len(items) // size) - 1))]
        for task in tasks:
            task.add_done_callback(retrieved)
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _embed(self, part: Part) -> None:
        """Embed all of `part` but the culprits in it, one after the other."""
        while part:
            error = await self._try(part, _CHUNK_S, self._purpose)
            if error is not None and error.reason != "bad_input":  # an endpoint that refuses is there
                await self._acquit_endpoint(error)
                error = await self._try(part, _CHUNK_S) if error.reason in _MAY_PASS else error
            part = await self._isolate(part) if error is not None else []

    async def _isolate(self, part: Part) -> Part:
        """Halve a chunk that failed until one text is left, and judge it; what was not asked for is left."""
        aside: Part = []
        while len(part) > 1:
            middle = len(part) // 2
            if await self._try(part[:middle], _HALF_S) is None:
                part = part[middle:]  # not asked for: it is in here, if anywhere
            else:
                part, aside = part[:middle], part[middle:] + aside
        await self._judge(part[0])
        return aside

    async def _judge(self, suspect: tuple[bytes, str]) -> None:
        """Quarantine a text unless it gets through alone."""
        alone = await self._try([suspect], _ALONE_S)
        if alone is None:
            return
        await self._acquit_endpoint(alone)
        again = await self._try([suspect], _ALONE_S)
        if again is not None:
            self.culprits[suspect[0]] = f"{again.reason}: {again}"
            self.did(1)

    async def _acquit_endpoint(self, error: ProviderError) -> None:
        """Raise what failed if the endpoint is at fault, or the model has become another one."""
        before = self._identity.key
        try:
            await self._identity.look()
        except ProviderError:
            raise error from None
        if self._identity.key != before:
            raise ModelReplacedError(f"{error}", reason="bad_reply")

    async def _try(self, part: Part, within_s: float, purpose: Purpose | None = None) -> ProviderError | None:
        """Embed `part` by one call, or say why not. Raises what no text is the cause of."""
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
        self.did(len(part))
        return None
