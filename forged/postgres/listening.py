"""Listen for changes by other daemons, on a connection of its own, and call the registered callbacks.

A change arrives within a second of its commit, with scope and digest of the owner. After a lost connection
anything may have changed, so a change without a scope is reported.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

import msgspec
import psycopg

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import Connection, connect, shut_socket_at
from forged.postgres.statements import CHANNEL
from forged.postgres.values import Settings

logger = logging.getLogger(__name__)

# Interval and time limit for checks of a silent connection.
_ASKED_EVERY_S, _ANSWER_S = 20.0, 5.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 5.0
_LEAST_INTERVAL_S = 1.0
_MOST_PENDING, _LONGEST_DIGEST = 100, 64
_SCOPES = frozenset(map(str, Scope))


class OwnerChange(msgspec.Struct, frozen=True):
    """Hint that an owner's rows may have changed; `scope` is "" if anything may have changed."""

    scope: str = ""
    owner_digest: str = ""


OnChange = Callable[[OwnerChange], None]


class ChangeListener:
    """Listens for notifications of other daemons, and calls registered callbacks at most once a second.

    Every role that may connect can notify, so a notification is a hint to look, and its text is not shown.
    """

    def __init__(self, settings: Settings, is_own: Callable[[int], bool]) -> None:
        """Take `is_own`, which returns True for the process id of a connection of this daemon."""
        self._settings = settings
        self._is_own = is_own
        self._callbacks: list[OnChange] = []
        self._pending: set[OwnerChange] = set()
        self._called_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self.is_connected = False

    def listen(self, on_change: OnChange) -> Callable[[], None]:
        """Register a callback for changes by other daemons; return a function that removes it."""
        self._callbacks.append(on_change)
        return lambda: self._callbacks.remove(on_change)

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
                if not self._is_own(notice.pid):
                    self._dispatch(notice.payload)
            await self._execute(connection, "SELECT")

    async def _execute(self, connection: Connection, statement: str) -> None:
        """Execute a statement; shut the socket after five seconds without an answer."""
        with shut_socket_at(time.monotonic() + _ANSWER_S, connection):
            await connection.execute(statement.encode())

    def _dispatch(self, payload: str) -> None:
        """Note the owner that a notification names, and call the callbacks now or within a second."""
        scope, _, digest = payload.partition(" ")
        if scope not in _SCOPES:
            return
        self._pending.add(OwnerChange(scope, digest[:_LONGEST_DIGEST]))
        if len(self._pending) > _MOST_PENDING:
            self._pending = {OwnerChange()}
        wait_s = self._called_at + _LEAST_INTERVAL_S - time.monotonic()
        if wait_s <= 0:
            self._call_pending()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._call_pending)

    def _call_pending(self) -> None:
        """Call the callbacks for all noted changes."""
        pending, self._pending, self._timer = self._pending, set(), None
        self._called_at = time.monotonic()
        for change in pending:
            self._call_callbacks(change)

    def _call_callbacks(self, change: OwnerChange) -> None:
        """Call every registered callback with a change."""
        for on_change in tuple(self._callbacks):
            on_change(change)
