"""Embedding what a rebuild needs, so that one bad text never sinks the rest (design.md section 6, H5).

Texts go out in small chunks, a few at a time. A chunk that fails because of what is in it is halved until
the culprit stands alone; that text is quarantined by hash and named in status. A failure that halving
cannot cure (nobody listens, no permission, an outage) ends the run, and the caller tries again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.providers import Embedder, Vectors

CHUNK = 64
_AT_ONCE = 4
# These may be the fault of one text; anything else is the fault of the endpoint.
_MAY_BE_ONE_TEXT = {"bad_input", "server", "bad_reply"}
# Halving a chunk of 64 down to one culprit fails seven times; more in a row is an outage.
_OUTAGE_AFTER = 12


class _Chunk(msgspec.Struct):
    """What goes out as one request at first; chunks run side by side, so each has its own count."""

    failed_in_a_row: int = 0

    @property
    def is_outage(self) -> bool:
        return self.failed_in_a_row > _OUTAGE_AFTER


class EmbeddingRun:
    """One pass over the texts that have no vector yet.

    `vectors` and `culprits` fill as the run goes on, so that what succeeded before an outage is not lost.
    """

    def __init__(self, embedder: Embedder, progress: Callable[[int], None]) -> None:
        self._embedder = embedder
        self._progress = progress
        self.vectors: dict[bytes, Vectors] = {}
        self.culprits: dict[bytes, str] = {}

    async def run(self, texts: Mapping[bytes, str]) -> None:
        """Embed `texts` by hash. Raises ProviderError when the endpoint, not a text, is at fault."""
        items = list(texts.items())
        gate = asyncio.Semaphore(_AT_ONCE)

        async def chunk(part: list[tuple[bytes, str]]) -> None:
            async with gate:
                await self._embed(part, _Chunk())

        # The first chunk goes alone: an endpoint that is down is asked once, not four times.
        await self._embed(items[:CHUNK], _Chunk())
        tasks = [
            asyncio.create_task(chunk(items[at : at + CHUNK])) for at in range(CHUNK, len(items), CHUNK)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _embed(self, part: list[tuple[bytes, str]], chunk: _Chunk) -> None:
        if not part:
            return
        try:
            rows = await self._embedder.embed([text for _, text in part], "passage")
        except ProviderError as error:
            chunk.failed_in_a_row += 1
            await self._blame(part, error, chunk)
            return
        chunk.failed_in_a_row = 0
        self._keep(part, rows)
        self._progress(len(part))

    def _keep(self, part: list[tuple[bytes, str]], rows: Vectors) -> None:
        for (key, _), row in zip(part, rows, strict=True):
            self.vectors[key] = np.asarray(row)

    async def _blame(self, part: list[tuple[bytes, str]], error: ProviderError, chunk: _Chunk) -> None:
        """Halve a failing chunk, or quarantine the one text it holds."""
        if error.reason not in _MAY_BE_ONE_TEXT or chunk.is_outage:
            raise error
        if len(part) == 1:
            # A lone text that fails with a server error is a culprit only if others get through.
            if error.reason != "bad_input" and not self.vectors:
                raise error
            self.culprits[part[0][0]] = f"{error.reason}: {error}"
            self._progress(1)
            return
        middle = len(part) // 2
        failed: ProviderError | None = None
        for half in (part[:middle], part[middle:]):
            try:
                await self._embed(half, chunk)
            except ProviderError as again:
                if failed is not None or chunk.is_outage or again.reason not in _MAY_BE_ONE_TEXT:
                    raise
                failed = again
        if failed is not None:
            # One half went through, so the other's lone texts can be blamed now.
            await self._embed([item for item in part if not self._settled(item[0])], chunk)

    def _settled(self, key: bytes) -> bool:
        return key in self.vectors or key in self.culprits
