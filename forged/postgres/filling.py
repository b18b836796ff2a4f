"""Add missing vectors to rows on the server that belong to this daemon's owners.

Rows come without a vector while the embedding model is away, and a vector can be lost. `VectorFiller` looks
when it is asked, soon after a failure, and once an hour. Several daemons may add the same vector.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from forged.errors import ProviderError, SharedError
from forged.memory import Scope
from forged.postgres.values import Stored
from forged.postgres.writing import Owner, RowWriter, without_vector

_AT_ONCE, _WRITE_S = 32, 3.0
_FIRST_S, _LATEST_S = 5.0, 3600.0

Lend = Callable[[float], contextlib.AbstractAsyncContextManager[RowWriter]]
"""Lends a RowWriter until a deadline."""


class VectorFiller:
    """Finds rows without a vector and adds it, in the background; `missing` is their last number."""

    def __init__(
        self,
        owners: Callable[[], Collection[Owner]],
        *,
        writer: Lend,
        with_vectors: Callable[[Sequence[Stored]], Awaitable[list[Stored]]],
    ) -> None:
        """Take `owners`, which returns those to look for, and `with_vectors`, which embeds rows if it can."""
        self.missing = 0
        self._owners = owners
        self._writer, self._with_vectors = writer, with_vectors
        self._wanted = asyncio.Event()

    def want(self, rows: int = 1) -> None:
        """Make `run` look now, as so many rows may lack a vector."""
        self.missing += rows
        self._wanted.set()

    async def run(self) -> None:
        """Look for rows without a vector until cancelled."""
        pause_s = 0.0
        while True:
            self._wanted.clear()
            try:
                is_done = await self._fill_all()
            except (SharedError, ProviderError):
                is_done = False
            pause_s = _LATEST_S if is_done else min(max(2 * pause_s, _FIRST_S), _LATEST_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()
                    pause_s = 0.0

    async def _fill_all(self) -> bool:
        """Add the vectors of all owners' rows that can be had; return True if none is missing."""
        missing = 0
        for scope, owner in self._owners():
            missing += await self._fill_owner(scope, owner)
        self.missing = missing
        return not missing

    async def _fill_owner(self, scope: Scope, owner: str) -> int:
        """Add the vectors of one owner's rows; return how many rows still have none."""
        after, left = "", 0
        while True:
            async with self._writer(time.monotonic() + _WRITE_S) as writer:
                rows = await writer.rows_without_vector(scope, owner, after, _AT_ONCE)
            if not rows:
                return left
            whole = await self._with_vectors(rows)
            async with self._writer(time.monotonic() + _WRITE_S) as writer:
                filled = [await writer.fill(row) for row in whole if row.vector is not None]
            if filled and not any(filled):  # the role may not write these rows
                return left
            left += len(without_vector(whole))
            after = rows[-1].id
