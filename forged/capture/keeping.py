"""Puts on disk what waits and is not there yet, within a second, with what counts as heard.

`soon` sees to it that everything is written, `write` does so at once, together with other events, and raises
StoreError. All of it is one transaction: of what a session has said nothing counts as heard whose event could
be lost. What cannot be written stays in memory and is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from forged.capture.queue import CaptureQueue
from forged.errors import StoreError
from forged.fair_queue import logged
from forged.state import Change, Event, State

_AFTER_S = 0.5


class Keeping:
    """One for the daemon; lives in its event loop."""

    def __init__(self, state: State, queue: CaptureQueue) -> None:
        self._state = state
        self._queue = queue
        self._writer: asyncio.Task[None] | None = None
        self._also: tuple[Change, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether something is not on disk."""
        return bool(self._also or not self._state.heard.is_saved or self._queue.in_memory())

    def soon(self, *also: Change) -> None:
        """Have everything written, and this done in the same transaction."""
        self._also += also
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all(), name="keeping")
            self._writer.add_done_callback(logged)

    def stop(self) -> None:
        if self._writer is not None:
            self._writer.cancel()

    async def _write_all(self) -> None:
        try:
            while self.is_due:
                await asyncio.sleep(_AFTER_S)
                with contextlib.suppress(StoreError):  # status shows it
                    await self.write(())
        finally:
            self._writer = None

    async def write(self, events: Sequence[Event], *also: Change) -> None:
        """Store these events and all that is not stored. Raises StoreError."""
        waiting = self._queue.in_memory()
        stored = [each.event for each in waiting]
        due, self._also = self._also, ()
        try:
            await self._state.events.put_all([*stored, *events], self._state.heard.pending(), *due, *also)
        except StoreError:
            self._also = (*due, *self._also)
            raise
        for each, event in zip(waiting, stored, strict=True):
            each.on_disk = each.event is event
