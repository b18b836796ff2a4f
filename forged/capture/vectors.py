"""The local model's rows of texts, float32 as bytes, for the worker, which has no model and no numpy.

None where the local model is not the embedder, is not loaded, has no layers to give out, fails or is late.
`RememberedVectors` keeps the newest in memory, a few megabytes and none on disk. Raises nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from forged.errors import ProviderError
from forged.models import Embedder, Purpose, gives_layers

logger = logging.getLogger(__name__)

VectorsOf = Callable[[Sequence[str]], Awaitable[tuple[bytes, ...]]]

_MOST_S = 10.0
# Rows of some 5 kB.
_MOST_ROWS = 600


async def no_vectors(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Return what is said where no model runs in this process."""
    del texts
    return ()


async def local_vectors(texts: Sequence[str], *, embedder: Embedder | None) -> tuple[bytes, ...]:
    """Return the rows of the texts by `embedder`, if that is the local model and has layers to give out.

    The rows are some of the model's layers: the last one says what a text is about, those before it more of
    how it is said (a rule, an order for now, a question), which is what is asked here. One text at a time, so
    that somebody's query waits for one of them at most.
    """
    if embedder is None or not gives_layers(embedder.key, embedder.engine):
        return ()
    try:
        deadline = time.monotonic() + _MOST_S
        rows = [
            (await embedder.embed([text], "layers", purpose=Purpose("capture"), deadline=deadline))[0]
            for text in texts
        ]
    except ProviderError as error:
        logger.debug("no vectors of %d statements error=%s", len(texts), error)
        return ()
    return tuple(row.tobytes() for row in rows)


class RememberedVectors:
    """One for the daemon: it is asked as what it asks."""

    def __init__(self, vectors: VectorsOf) -> None:
        self._vectors = vectors
        self._known: dict[str, bytes] = {}

    async def __call__(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """Return the rows of these texts, those that are new all at once."""
        known = {text: self._known.pop(text) for text in dict.fromkeys(texts) if text in self._known}
        self._known |= known  # the newest now
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        rows = await self._vectors(missing) if missing else ()
        if len(rows) != len(missing):
            return ()
        known |= zip(missing, rows, strict=True)
        self._known |= known
        for text in list(self._known)[:-_MOST_ROWS]:
            del self._known[text]
        return tuple(known[text] for text in texts)
