"""Vectors of texts by the local model, float32 as bytes, for the worker, which has no model.

A vector has several layers of the model. The last layer says what a text is about; earlier ones say more
about its form (a rule, an order, a question), which is needed here. Raises nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from forged.errors import ProviderError
from forged.models import Embedder, Purpose

logger = logging.getLogger(__name__)

VectorsOf = Callable[[Sequence[str]], Awaitable[tuple[bytes, ...]]]

_MOST_S = 10.0
# Most vectors in memory, some 5 kB each.
_MOST_ROWS = 600


class LocalVectors:
    """Gives vectors of texts by the local model, and caches them in memory. One for the daemon."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, bytes] = {}

    async def __call__(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """Return a vector for each text from the cache or the local model, or an empty tuple.

        Returns none if the embedder is not the local model, is not loaded, has no layers, fails or is late.
        """
        known = {text: self._known.pop(text) for text in dict.fromkeys(texts) if text in self._known}
        self._known |= known  # these are the newest now
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing and not self._embedder.gives_layers:
            return ()
        try:
            known |= zip(missing, await self._embed(missing), strict=True)
        except ProviderError as error:
            logger.debug("no vectors of %d statements error=%s", len(missing), error)
            return ()
        self._known |= known
        for text in list(self._known)[:-_MOST_ROWS]:
            del self._known[text]
        return tuple(known[text] for text in texts)

    async def _embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return new vectors, one text a call, so that a query waits for one text at most."""
        purpose, deadline = Purpose("capture"), time.monotonic() + _MOST_S
        rows = [
            await self._embedder.embed([text], "layers", purpose=purpose, deadline=deadline) for text in texts
        ]
        return [row[0].tobytes() for row in rows]
