"""Send queued writes of `state.db` to the server, in order, as soon as it is there.

A write that the server does not take waits with its reason, and delays no other memory. A row that can never
be taken is reported; a removal is tried for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from forged.errors import NotAsked, ProviderError, SharedError, StoreError
from forged.postgres import egress, spooling
from forged.postgres.values import Stored
from forged.postgres.writing import RowWriter, without_vector
from forged.state import State, WriteFailure

logger = logging.getLogger(__name__)
Item = TypeVar("Item")

_AT_ONCE = 100
# Interval of attempts; a server that is known to be away is not asked.
_FIRST_S, _LONGEST_S = 0.05, 1.0
_LOOK_S = 5.0
WRITES = frozenset({"put", "remove", "document"})
# So many writes in a row that fail for a passing reason are the failure of the server.
_MOST_FAILURES = 3


class BatchResult(msgspec.Struct, Generic[Item], frozen=True):
    """Items that the server did not take, with its errors; `error` if it takes none, and the rest waits."""

    failed: Sequence[tuple[Item, SharedError]] = ()
    error: SharedError | None = None


async def send_isolated(
    items: Sequence[Item],
    send: Callable[[Sequence[Item]], Awaitable[object]],
    answers: Callable[[], Awaitable[bool]],
) -> BatchResult[Item]:
    """Send items at once; halve a batch that fails, to find the items that the server does not take.

    A timeout or lost connection counts for an item only if the server `answers` then.
    """
    failed, waiting, streak = list[tuple[Item, SharedError]](), [items], 0
    while waiting:
        batch = waiting.pop()
        try:
            await send(batch)
        except SharedError as error:
            is_lost = error.is_away and error.reason != "server"
            if _was_not_sent(error) or (is_lost and not await answers()):
                return BatchResult(failed, error)
            if len(batch) > 1:
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
                continue
            failed.append((batch[0], error))
            streak += error.kind == "passing"
            if streak == _MOST_FAILURES:
                return BatchResult(failed, error)
        else:
            streak = 0
    return BatchResult(failed)


def _was_not_sent(error: SharedError) -> bool:
    """Return True for an error of a write that never was at the server."""
    return isinstance(error, NotAsked) or error.reason in {"busy", "unusable"}


def next_failure(before: WriteFailure | None, error: SharedError, access: str) -> WriteFailure:
    """Return the failure to record for an error of a write that failed `before`."""
    times = 1 if before is None or before.kind != error.kind else before.times + 1
    return WriteFailure(str(error), error.kind, times, time.time(), access)


class OutboxReplay:
    """Sends queued writes to the server in order, in the background."""

    def __init__(
        self,
        state: State,
        *,
        fitting: Callable[[Stored], Stored],
        send: Callable[[Callable[[RowWriter], Any], Sequence[str]], Awaitable[None]],
        want_vectors: Callable[[int], object],
        answers: Callable[[], Awaitable[bool]],
        access: Callable[[], Awaitable[str]],
    ) -> None:
        """Take `send`, which writes if these texts may leave.

        `fitting` drops the vector of a row that is of another model than the server's. `want_vectors` gets
        the number of rows that were sent without one. `answers` and `access` look at the server: if it
        answers, and which rights and models decide about its refusals.
        """
        self._state = state
        self._outbox = state.outbox
        self._fitting = fitting
        self._send = send
        self._want_vectors = want_vectors
        self._answers, self._access = answers, access
        self._woken = asyncio.Event()
        self._last: float | None = None
        self._is_refused = False  # the server took none of the last writes

    @property
    def age_s(self) -> float | None:
        """Return the seconds since the last queued write was sent, or None."""
        return None if self._last is None else time.monotonic() - self._last

    def wake(self, *, ends_pauses: bool = False) -> None:
        """Make `run` look for queued writes now; `ends_pauses` of those that failed: the server is back."""
        if ends_pauses:
            self._outbox.end_pauses()
        self._woken.set()

    async def run(self) -> None:
        """Send queued writes until cancelled, with pauses after failures."""
        await self._state.wait_until_open()
        wait_s = _FIRST_S
        while True:
            self._woken.clear()
            access = ""
            try:
                access = await self._look_at_access()
                await self._send_all(access)
                wait_s = _FIRST_S
            except (SharedError, ProviderError, StoreError) as error:
                logger.debug("writes wait for the shared server error=%s", type(error).__name__)
                wait_s = min(2 * wait_s, _LONGEST_S)
            await self._wait(wait_s, access)

    async def _wait(self, wait_s: float, access: str) -> None:
        """Wait until a write is due, at least `wait_s`; without any until woken, or the next look."""
        due_s = self._outbox.next_due_s(WRITES, access)
        if due_s is not None and due_s <= wait_s:
            await asyncio.sleep(wait_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S if due_s is None else min(due_s, _LOOK_S)):
                await self._woken.wait()

    async def _look_at_access(self) -> str:
        """Return the rights and models that refused writes depend on; "" if none was refused."""
        return await self._access() if self._outbox.failing_kinds - {"passing"} else ""

    async def _send_all(self, access: str) -> None:
        """Send all due writes to the server in order."""
        while waiting := await self._outbox.due(_AT_ONCE, WRITES, access):
            for run in spooling.sendable_runs(waiting):
                await self._send_run(run)

    async def _send_run(self, run: spooling.Waiting) -> None:
        """Send a run of writes and drop it from the queue; record the failures of others."""
        result = await send_isolated(run, self._write_run, self._answers)
        if result.failed:
            access = await self._access()
            await self._outbox.fail(
                [
                    (position, write, next_failure(write.failure, error, access))
                    for (position, write), error in result.failed
                ]
            )
        if result.error is not None:
            self._is_refused = True
            raise result.error
        if self._is_refused:
            self._is_refused = False
            self._outbox.end_pauses()

    async def _write_run(self, run: spooling.Waiting) -> None:
        """Write a run of rows, or of equal removals, to the server, and drop it from the queue."""
        writes = [write for _, write in run]
        if writes[0].kind != "put":
            batch = spooling.removal_batch(writes)
            await self._send(lambda writer: writer.remove(batch), ())
        else:
            rows = [spooling.row_of(write) for write in writes]
            await self._send(lambda writer: writer.put(rows), egress.egress_texts(rows))
            if bare := without_vector(map(self._fitting, rows)):
                self._want_vectors(len(bare))
        self._last = time.monotonic()
        await self._outbox.delete_sent([position for position, _ in run])
