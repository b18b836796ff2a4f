"""Listen for changes by other daemons, on a connection of its own, and call the registered callbacks.

A change arrives within a moment of its commit, with scope, digest of the owner, and name of the writer. After
a lost connection anything may have changed, so a change without a scope is reported.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec
import psycopg

from forged.errors import SharedError
from forged.postgres.connecting import Connection, connect
from forged.postgres.pool import shut_socket_at
from forged.postgres.statements import CHANNEL
from forged.postgres.values import Settings

logger = logging.getLogger(__name__)

# Interval and time limit for checks of a silent connection.
_ASKED_EVERY_S, _ANSWER_S = 20.0, 5.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 5.0
_KNOWN_WRITERS = 100


class OwnerChange(msgspec.Struct, frozen=True):
    """Change of an owner's rows by another daemon; `scope` is "" if anything may have changed."""

    scope: str = ""
    owner_digest: str = ""
    writer: str = ""


OnChange = Callable[[OwnerChange], None]


class ChangeListener:
    """Listens for row changes by other daemons, not by this one (`name`), and calls registered callbacks."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._callbacks: list[OnChange] = []
        self._seen: OrderedDict[str, float] = OrderedDict()
        self.is_connected = False

    def listen(self, on_change: OnChange) -> Callable[[], None]:
        """Register a callback for changes by other daemons; return a function that removes it."""
        self._callbacks.append(on_change)
        return lambda: self._callbacks.remove(on_change)

    @property
    def writers(self) -> dict[str, float]:
        """Return the names of other writing daemons, and the seconds since their last write."""
        now = time.monotonic()
        return {name: now - at for name, at in self._seen.items()}

    async def run(self) -> None:
        """Listen until cancelled and reconnect; report an unknown change after each connect."""
        wait_s = _FIRST_RETRY_S
        while True:
            try:
                connection = await connect(self._settings)
                async with connection:
                    await self._execute(connection, f"LISTEN {CHANNEL}")
                    self.is_connected, wait_s = True, _FIRST_RETRY_S
                    self._call_callbacks(OwnerChange())
                    await self._receive(connection)
            except (SharedError, psycopg.Error, OSError) as error:
                logger.info("not listening to the shared server error=%s", type(error).__name__)
            finally:
                self.is_connected = False
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LAST_RETRY_S)

    async def _receive(self, connection: Connection) -> None:
        """Dispatch notifications until the connection fails; check a silent one every 20 seconds."""
        while True:
            async for notice in connection.notifies(timeout=_ASKED_EVERY_S):
                self._dispatch(notice.payload)
            await self._execute(connection, "SELECT")

    async def _execute(self, connection: Connection, statement: str) -> None:
        """Execute a statement; shut the socket after five seconds without an answer."""
        with shut_socket_at(time.monotonic() + _ANSWER_S, connection):
            await connection.execute(statement.encode())

    def _dispatch(self, payload: str) -> None:
        """Record the writer that a payload names, and call the callbacks; ignore this daemon's own."""
        scope, _, rest = payload.partition(" ")
        digest, _, writer = rest.partition(" ")
        if writer == self._name:
            return
        self._seen[writer] = time.monotonic()
        self._seen.move_to_end(writer)
        while len(self._seen) > _KNOWN_WRITERS:
            self._seen.popitem(last=False)
        self._call_callbacks(OwnerChange(scope, digest, writer))

    def _call_callbacks(self, change: OwnerChange) -> None:
        """Call every registered callback with a change."""
        for on_change in tuple(self._callbacks):
            on_change(change)
