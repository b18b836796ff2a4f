"""An indexer for a test, and waiting for what it builds."""

from __future__ import annotations

import asyncio
import contextlib
import time

from forged.counters import Metrics
from forged.maps.indexer import Indexer
from tests.support.clock import PATIENCE_S


@contextlib.asynccontextmanager
async def indexing(embedder=None, *, lexical=True, **options):
    """An indexer, and the events it tells."""
    indexer = Indexer(embedder=embedder, lexical=lexical, metrics=Metrics(), **options)
    indexer.reported = []
    indexer.events.listen(indexer.reported.append)
    try:
        yield indexer
    finally:
        await indexer.close()


@contextlib.asynccontextmanager
async def embedding(embedder, root, **options):
    """An indexer and its only index, whose first texts are out until `embedder.hold` is set."""
    async with indexing(embedder, **options) as indexer:
        embedder.hold = asyncio.Event()
        index = indexer.open(root)
        await embedder.called.wait()
        yield indexer, index
        embedder.hold.set()


def soon():
    return time.monotonic() + PATIENCE_S


async def built(index):
    """Wait for a build that began after now."""
    await index.until_ended(index.mark(), soon())
    return index


async def opened(indexer, root):
    index = indexer.open(root)
    await index.until_ended(index.generations.wanted, soon())
    return index
