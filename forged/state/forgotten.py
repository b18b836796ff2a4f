"""Digests of forgotten texts and ids, which keep older messages and files from bringing them back.

Digests and times are kept for 7 days, as long as files stay in the trash. Text that is said after the time
that `forgotten_at` returns counts as new.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from forged.state.database import Database
from forged.state.rows import Rows
from forged.text.forgetting import parts_of, words_of
from forged.text.redaction import INLINE_LENGTH
from forged.text.same_text import normalised

_DIGITS = 32


def digest(top: str, text: str) -> str:
    """Return the digest of a text in the root `top`; texts with the same words have the same digest.

    A text forgotten in one repository may stay in another; one forgotten for the user is forgotten
    everywhere.
    """
    return _digest(top, " ".join(words_of(text)) or normalised(text))


def digests_within(tops: Sequence[str], text: str) -> Iterator[str]:
    """Yield digests of a text, and of each part that may have been forgotten, for all these roots."""
    for part in dict.fromkeys(parts_of(text)):
        yield from (_digest(top, part) for top in tops if part)
    for top in tops:
        yield digest(top, text)  # a text without words


def digest_of_id(top: str, memory_id: str) -> str:
    """Return the digest of a memory's id, distinct from that of any text."""
    return _digest(top, f"\0{memory_id}")


def _digest(top: str, part: str) -> str:
    return hashlib.sha256(f"{top}\0{part}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


KEPT = 10_000
HELD_S = 7 * 24 * 3600.0


class ForgottenTexts(Rows[int]):
    """Table of digests of forgotten texts and ids, with the time (Unix ms) of each, for 7 days."""

    def __init__(self, database: Database, kept: int = KEPT, clock: Callable[[], float] = time.time) -> None:
        """Keep the newest `kept` digests. `clock` gives Unix seconds."""
        super().__init__(database, "forgotten", int, most=kept, keep_s=HELD_S, is_copied=True, clock=clock)

    async def add(self, top: str, texts: Iterable[str], ids: Iterable[str] = ()) -> None:
        """Record texts and ids of a root as forgotten now, durably on return. Raises StoreError."""
        fresh = await _digests(top, texts)
        fresh += [digest_of_id(top, each) for each in ids]
        await self.store(dict.fromkeys(fresh, math.ceil(self._clock() * 1000)))

    async def withdraw(self, top: str, texts: Iterable[str], ids: Iterable[str] = ()) -> None:
        """Delete the records that texts and ids of a root are forgotten, durably. Raises StoreError."""
        old = await _digests(top, texts)
        old += [digest_of_id(top, each) for each in ids]
        await self.store({each: None for each in old if each in self})

    @property
    def newest_at(self) -> float:
        """Return the time of the last forget, in Unix seconds; 0 for never."""
        return max(self.values(), default=0) / 1000

    def digests(self) -> frozenset[str]:
        """Return the digests of texts and ids that were forgotten in the last 7 days."""
        since = (self._clock() - HELD_S) * 1000
        return frozenset(each for each, at in self.items() if at > since)

    def forgotten_at(self, tops: Sequence[str], text: str, memory_id: str = "") -> float | None:
        """Return the last time at which this text or memory was forgotten in one of these roots, or None.

        A text counts as forgotten if some of its sentences are a forgotten text.
        """
        if not self._kept:
            return None
        ids = (digest_of_id(top, memory_id) for top in tops if memory_id)
        digests = chain(digests_within(tops, text), ids)
        at = max((self.get(each, 0) for each in digests), default=0) / 1000
        return at if at > self._clock() - HELD_S else None


async def _digests(top: str, texts: Iterable[str]) -> list[str]:
    """Return the digests of texts in a root, each once; computed in a thread if the texts are long."""
    texts = tuple(texts)

    def made() -> list[str]:
        return list(dict.fromkeys(digest(top, text) for text in texts))

    return made() if sum(map(len, texts)) < INLINE_LENGTH else await asyncio.to_thread(made)
