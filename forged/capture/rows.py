"""The local model's rows of texts, kept in memory for who asks again: the worker first, and then the keeper.

In go texts, out come their rows, or nothing at all where one cannot be had. The newest rows stay, a few
megabytes, and no disk sees any. Nothing is raised that asking for them does not raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

VectorsOf = Callable[[Sequence[str]], Awaitable[tuple[bytes, ...]]]

# Rows of some 5 kB.
_MOST = 600


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
        for text in list(self._known)[:-_MOST]:
            del self._known[text]
        return tuple(known[text] for text in texts)
