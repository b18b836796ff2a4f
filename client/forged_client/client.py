"""The blocking client: one method per verb, and none of them can hang or break the agent that calls it.

Every call has one total deadline and ends with the verb's reply; what went wrong is its `status` and
`reason`. The connection is opened at the first call and kept; a daemon that was restarted, or that hung up
on an idle connection, costs one reconnect. What may have been carried out is not sent again
(`remember`, `capture`, `forget`, `undo`, `dead`). Threads may share a client and then take turns.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable, Generator
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self

from forged_client import autostart as daemon_start
from forged_client import verbs
from forged_client.address import checked, socket_path
from forged_client.connection import Connection
from forged_client.deadline import Deadline
from forged_client.dial import growing_pauses
from forged_client.errors import (
    ClientError,
    ConnectionLost,
    DaemonAbsent,
    DaemonUnavailable,
    DeadlineExceeded,
)
from forged_client.exchange import R, failure, may_repeat, settled, unasked
from forged_client.protocol import Events, Progress, Reply, Request

DEFAULT_TIMEOUT_S = 2.5

P = ParamSpec("P")


def _blocking(verb: Callable[Concatenate[object, P], verbs.Call[R]]) -> Callable[Concatenate[Client, P], R]:
    """The verb as a method that waits for its reply."""

    @wraps(verb)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return client.ask(verb(client, *args, **kwargs))

    return method


class Client:
    """The daemon, as an object with one method per verb.

    `address` is a socket path (default: `socket_path()`), `timeout_s` the total seconds of one call. With
    `autostart` a missing daemon is started, from `executable` or as autostart.py says. `strict` raises
    ClientError where otherwise a reply would say `unavailable`, `timeout` or `error`. `name` is what the
    daemon's log calls this client. While FORGED_BYPASS is set in the environment, `retrieve` and `capture`
    answer `disabled` at once, without a daemon. Source: design.md sections 4 and 9.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        autostart: bool = False,
        executable: str | None = None,
        strict: bool = False,
        name: str = "forged-client",
    ) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._autostart = autostart
        self._executable = executable
        self._strict = strict
        self._name = name
        self._connection: Connection | None = None
        self._locks: dict[int, LockType] = {}

    ping = _blocking(verbs.ping)
    status = _blocking(verbs.status)
    retrieve = _blocking(verbs.retrieve)
    search = _blocking(verbs.search)
    why = _blocking(verbs.why)
    remember = _blocking(verbs.remember)
    capture = _blocking(verbs.capture)
    get = _blocking(verbs.get)
    list = _blocking(verbs.list_memories)
    history = _blocking(verbs.history)
    forget = _blocking(verbs.forget)
    undo = _blocking(verbs.undo)
    pause = _blocking(verbs.pause)
    dead = _blocking(verbs.dead)
    cost = _blocking(verbs.cost)
    rebuild = _blocking(verbs.rebuild)

    def ask(self, call: verbs.Call[R]) -> R:
        """Carry out a call that was made beforehand, by a function of verbs.py."""
        if (reply := unasked(call.request, call.kind)) is not None:
            return reply
        deadline = Deadline(self._timeout_s if call.timeout_s is None else call.timeout_s)
        try:
            return settled(self._take_turn(call.request, deadline), call.kind)
        except ClientError as error:
            if self._strict:
                raise
            return failure(call.kind, error)

    def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> Generator[Progress, None, None]:
        """Events as they come, over a connection of their own, for `timeout_s` in all (None: one day).

        The last value says by its status why the stream ended; with `strict` that is raised instead.
        """
        connection = None
        try:
            connection = self._connect(Deadline(self._timeout_s))
            deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
            for reply in connection.stream(Events(workspace=workspace), deadline):
                yield settled(reply, Progress)
        except ClientError as error:
            if self._strict:
                raise
            yield failure(Progress, error)
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        with self._lock():
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take_turn(self, request: Request, deadline: Deadline) -> Reply:
        lock, doing = self._lock(), "waiting for another thread's call"
        if not lock.acquire(timeout=deadline.left(doing)):
            raise deadline.exceeded(doing)
        try:
            return self._send(request, deadline)
        except ConnectionLost as lost:
            if not may_repeat(request, lost):
                raise
            return self._send(request, deadline)
        finally:
            lock.release()

    def _send(self, request: Request, deadline: Deadline) -> Reply:
        connection = self._usable() or self._connect(deadline)
        try:
            reply = connection.ask(request, deadline)
        except BaseException:
            # Also on KeyboardInterrupt: the next call must not read this one's answer.
            connection.close()
            raise
        self._connection = connection
        return reply

    def _usable(self) -> Connection | None:
        """The kept connection, taken out of service until a reply has come over it."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_usable():
            connection.close()
            return None
        return connection

    def _connect(self, deadline: Deadline) -> Connection:
        address = socket_path() if self._address is None else checked(self._address)
        try:
            return self._open(address, deadline)
        except DeadlineExceeded as error:
            # Not a time-out of the request: nothing was sent, and `unavailable` always says so.
            raise DaemonUnavailable(str(error)) from error

    def _open(self, address: str, deadline: Deadline) -> Connection:
        try:
            return Connection.open(address, self._name, deadline)
        except DaemonAbsent:
            if not self._autostart:
                raise
        starting = daemon_start.start(address, self._executable, deadline)
        for pause in growing_pauses():
            time.sleep(min(pause, deadline.left("starting the daemon")))
            try:
                return Connection.open(address, self._name, deadline)
            except DaemonAbsent:
                starting.check()
        raise AssertionError  # the pauses never end

    def _lock(self) -> LockType:
        # One per process: a forked child may inherit one that a thread it does not have will never release.
        return self._locks.setdefault(os.getpid(), allocate_lock())
