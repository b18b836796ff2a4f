"""Embedding what a rebuild needs, so that one bad text never sinks the rest.

Texts go out in small chunks, a few at a time. A chunk that fails because of what is in it is halved until
the culprit stands alone; if a harmless text gets through at that moment and this one still does not, it is
quarantined by hash and named in status. A failure that halving cannot cure (nobody listens, no permission,
an outage) ends the run, and the caller tries again later. Whether neighbours got through earlier proves
nothing: an edit sends one text alone, and an outage that begins in mid-run would put innocents away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import numpy as np

from forged.errors import ProviderError
from forged.models import Embedder, Purpose, Vectors

_AT_ONCE = 4
# These may be the fault of one text; anything else is the fault of the endpoint.
_MAY_BE_ONE_TEXT = {"bad_input", "server", "bad_reply"}
# Harms no model: some servers answer 500 to very short texts.
_HARMLESS = "The quick brown fox jumps over the lazy dog."


class EmbeddingRun:
    """One pass over the texts that have no vector yet.

    `vectors` and `culprits` fill as the run goes on, so that what succeeded before an outage is not lost.
    """

    def __init__(self, embedder: Embedder, purpose: Purpose, progress: Callable[[int], None]) -> None:
        self._embedder = embedder
        self._purpose = purpose
        self._progress = progress
        self.vectors: dict[bytes, Vectors] = {}
        self.culprits: dict[bytes, str] = {}

    async def run(self, texts: Mapping[bytes, str]) -> None:
        """Embed `texts` by hash. Raises ProviderError when the endpoint, not a text, is at fault."""
        items, size = list(texts.items()), self._embedder.chunk
        free = asyncio.Semaphore(_AT_ONCE)

        async def chunk(part: list[tuple[bytes, str]]) -> None:
            async with free:
                await self._embed(part)

        # The first chunk goes alone: an endpoint that is down is asked once, not four times.
        await self._embed(items[:size])
        tasks = [asyncio.create_task(chunk(items[at : at + size])) for at in range(size, len(items), size)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _embed(self, part: list[tuple[bytes, str]], *, suspected: bool = False) -> None:
        if not part:
            return
        try:
            rows = await self._embedder.embed([text for _, text in part], purpose=self._purpose)
        except ProviderError as error:
            if error.reason not in _MAY_BE_ONE_TEXT:
                raise
            await self._blame(part, error, suspected=suspected)
            return
        for (key, _), row in zip(part, rows, strict=True):
            self.vectors[key] = np.asarray(row)
        self._progress(len(part))

    async def _blame(self, part: list[tuple[bytes, str]], error: ProviderError, *, suspected: bool) -> None:
        """Halve a failing chunk, or quarantine the one text it holds."""
        if len(part) > 1:
            middle = len(part) // 2
            await self._embed(part[:middle])
            await self._embed(part[middle:])
        elif not suspected:
            await self._embedder.embed([_HARMLESS], purpose=self._purpose)
            await self._embed(part, suspected=True)
        else:
            self.culprits[part[0][0]] = f"{error.reason}: {error}"
            self._progress(1)
