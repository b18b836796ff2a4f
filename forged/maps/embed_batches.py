"""Embedding what a rebuild needs, so that one bad text never sinks the rest.

Texts go out in small chunks, a few at a time. A chunk that fails in a way that one text may be the cause of
(it is refused, resets the connection, hangs the server, comes back as an odd vector) is halved until the
culprit stands alone, which takes as many calls as the chunk can be halved; what was set aside on the way
goes out as one chunk again. Three public sentences (`identity`) decide whether a text is at fault at all:
when they fail too it is the endpoint, the run ends, and the caller tries again later. So a text is
quarantined, by hash, only when it failed alone twice and the sentences got through in between. Whether
neighbours got through earlier proves nothing: an outage that begins in mid-run would put innocents away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.fair_queue import retrieved
from forged.maps.embed_line import AT_ONCE, EmbedLine, Place
from forged.maps.identity import Identity, ModelReplacedError
from forged.models import Purpose, Vectors

# These may be the fault of one text; anything else is the fault of the endpoint.
_MAY_BE_ONE_TEXT = frozenset({"bad_input", "server", "bad_reply", "unreachable", "timeout"})
# Of these a second try may come to something else; a refusal is one for ever, and a hang takes its time.
_MAY_PASS = _MAY_BE_ONE_TEXT - {"bad_input", "timeout"}
# A chunk may take long on a slow machine, and so may the text that is held to be the culprit; a half that
# takes so long most likely holds it.
_CHUNK_S, _HALF_S, _ALONE_S = 60.0, 15.0, 30.0

Part = list[tuple[bytes, str]]


class EmbeddingRun:
    """One pass over the texts that have no vector yet.

    `vectors`, `culprits` and `cut` (texts of which only the beginning was embedded) fill as the run goes on,
    so that what succeeded before an outage is not lost.
    """

    def __init__(
        self,
        identity: Identity,
        purpose: Purpose,
        progress: Callable[[int], None],
        place: Place | None = None,
    ) -> None:
        """`progress` is told of texts that are done with; without a place the run has a line of its own."""
        self._identity = identity
        self._embedder = identity.embedder
        self._purpose = purpose
        self._suspect = msgspec.structs.replace(purpose, suspect=True)
        self._progress = progress
        self._place = place or EmbedLine().enter()
        self.vectors: dict[bytes, Vectors] = {}
        self.culprits: dict[bytes, str] = {}
        self.cut: set[bytes] = set()

    async def run(self, texts: Mapping[bytes, str]) -> None:
        """Embed `texts` by hash, the first ones first.

        Raises ProviderError when the endpoint, not a text, is at fault; ModelReplacedError when another
        model answers than the one that the run began with.
        """
        items, size = list(texts.items()), self._embedder.chunk
        starts = iter(range(size, len(items), size))

        async def work() -> None:
            for at in starts:
                async with self._place.turn():
                    await asyncio.sleep(0)  # where an embedder has nothing to wait for, others have
                    await self._embed(items[at : at + size])

        # The first chunk goes alone: an endpoint that is down is asked once, not four times.
        async with self._place.turn():
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
            self._progress(1)

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
        self._progress(len(part))
        return None
