"""Send queued writes of `state.db` to the server, in order, as soon as it is there.

A write that the server refuses for good is isolated, set aside with the reason, and delays no other. Rows
that were written without vectors get them once the model answers, without delaying others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from forged.errors import ProviderError, SharedError, StoreError
from forged.postgres import egress, spooling
from forged.postgres.values import Stored
from forged.postgres.writing import RowWriter
from forged.state import State, Write

logger = logging.getLogger(__name__)

_AT_ONCE, _FILLED_AT_ONCE = 100, 32
# Interval of attempts; a server that is known to be away is not asked.
_FIRST_S, _LONGEST_S = 0.05, 1.0
_FILL_S, _LOOK_S = 20.0, 5.0
_WRITE_S = 3.0
WRITES = frozenset({"put", "remove", "document"})
# Reasons that a second attempt cannot change: the row is invalid, or the role may not write it.
FOR_EVER = frozenset({"dimension", "permission", "invalid"})


class OutboxReplay:
    """Sends queued writes to the server in order, then adds missing vectors, in the background."""

    def __init__(
        self,
        state: State,
        dimension: int,
        *,
        writer: Callable[[float], contextlib.AbstractAsyncContextManager[RowWriter]],
        send: Callable[[Callable[[RowWriter], Any], Sequence[str]], Awaitable[None]],
        with_vectors: Callable[[Sequence[Stored]], Awaitable[list[Stored]]],
    ) -> None:
        """Take `writer`, which lends a RowWriter, and `send`, which writes if these texts may leave.

        `with_vectors` returns rows with the available vectors, of `dimension`.
        """
        self._state = state
        self._outbox = state.outbox
        self._dimension = dimension
        self._writer = writer
        self._send = send
        self._with_vectors = with_vectors
        self._woken = asyncio.Event()
        self._last: float | None = None

    @property
    def age_s(self) -> float | None:
        """Return the seconds since the last queued write was sent, or None."""
        return None if self._last is None else time.monotonic() - self._last

    def wake(self) -> None:
        """Make `run` look for queued writes now."""
        self._woken.set()

    async def run(self) -> None:
        """Send queued writes and add missing vectors until cancelled, with pauses after failures."""
        await self._state.wait_until_open()
        wait_s = _FIRST_S
        while True:
            self._woken.clear()
            try:
                await self._send_all()
                wait_s = _FIRST_S
            except (SharedError, ProviderError, StoreError) as error:
                logger.debug("writes wait for the shared server error=%s", type(error).__name__)
                wait_s = min(2 * wait_s, _LONGEST_S)
            if self._outbox.count(WRITES):
                await asyncio.sleep(wait_s)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FILL_S if self._outbox.waiting else _LOOK_S):
                        await self._woken.wait()

    async def _send_all(self) -> None:
        """Send all queued writes to the server in order, then add all missing vectors."""
        outbox = self._outbox
        while waiting := await outbox.oldest(_AT_ONCE, WRITES):
            for run in spooling.sendable_runs(waiting):
                await self._send_run(run)
        while waiting := await outbox.oldest(_FILLED_AT_ONCE, {"fill"}):
            await self._fill_vectors(waiting)

    async def _send_run(self, run: spooling.Waiting) -> None:
        """Send a run of writes and drop it from the queue; set aside a write that is refused for good."""
        try:
            await self._write_run([write for _, write in run])
        except SharedError as error:
            if error.reason not in FOR_EVER:
                raise
            if len(run) == 1:
                await self._outbox.refuse(*run[0], str(error))
                return
            for each in run:
                await self._send_run([each])
            return
        self._last = time.monotonic()
        await self._outbox.delete_sent([position for position, _ in run])

    async def _write_run(self, writes: Sequence[Write]) -> None:
        """Write a run of rows, or of equal removals, to the server."""
        if writes[0].kind != "put":
            batch = spooling.removal_batch(writes)
            await self._send(lambda writer: writer.remove(batch), ())
            return
        rows = [self._with_fitting_vector(spooling.row_of(write)) for write in writes]
        await self._send(lambda writer: writer.put(rows), egress.egress_texts(rows))

    def _with_fitting_vector(self, row: Stored) -> Stored:
        """Return the row without its vector if the vector has another length than the model's."""
        if row.vector is None or len(row.vector) == self._dimension:
            return row
        return msgspec.structs.replace(row, vector=None)

    async def _fill_vectors(self, waiting: spooling.Waiting) -> None:
        """Embed rows of the queue and store their vectors. Raises ProviderError while some are missing."""
        async with self._writer(time.monotonic() + _WRITE_S) as writer:
            rows = [
                row for _, write in waiting if (row := await _row_without_vector(writer, write)) is not None
            ]
        whole = await self._with_vectors(rows)
        lacking = {row.id for row in whole if row.vector is None}
        async with self._writer(time.monotonic() + _WRITE_S) as writer:
            for row in whole:
                if row.vector is not None:
                    await writer.fill(row.scope, row.owner, row.id, row.content, row.vector)
        await self._outbox.delete_sent([position for position, write in waiting if write.id not in lacking])
        if lacking:
            raise ProviderError("some vectors cannot be had now", reason="unreachable")


async def _row_without_vector(writer: RowWriter, write: Write) -> Stored | None:
    """Return a queued write's row with its text if it still needs a vector on the server, else None."""
    scope, owner = spooling.owner_of(write)
    text = await writer.text_without_vector(scope, owner, write.id)
    return None if text is None else Stored(scope=scope, owner=owner, id=write.id, content=text)
