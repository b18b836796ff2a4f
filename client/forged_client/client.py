"""Blocking client: one method per verb; no method can hang or break the agent that calls it.

A call has one total deadline and ends with the verb's reply; its `status` and `reason` say if and why it
failed. The first call opens the connection, which is kept. After a restart or a hang-up of the daemon the
client reconnects and sends the request a second time. Requests that change memories have a key, so they are
carried out once. A request without a key that could be carried out twice (`dead`) is not sent again. Threads
may share a client and take turns.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Self

from forged_client.address import is_bypassed
from forged_client.connection import Connection
from forged_client.dial import Deadline, dial, retry_pauses
from forged_client.errors import (
    ClientError,
    ConnectionLost,
    DaemonAbsent,
    DaemonUnavailable,
    DeadlineExceeded,
)
from forged_client.exchange import (
    bypass_reply,
    error_of_both,
    expect_reply,
    failed_reply,
    may_repeat,
    reply_of_all_parts,
    with_key,
)
from forged_client.protocol import Capture, Captured, Events, Progress, R, Reply, Request
from forged_client.verbs import Verbs


class Client(Verbs):
    """Blocking client of the daemon that threads may share; one method per verb (settings: verbs.py)."""

    def _start_disconnected(self) -> None:
        self._connection: Connection | None = None
        self._locks: dict[int, LockType] = {}

    def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Send any request; return the reply (the client's own if bypassed or, unless `strict`, failed)."""
        if request.bypassable and is_bypassed():
            return bypass_reply(request)
        deadline = self._deadline(request, timeout_s)
        try:
            return expect_reply(request, self._send_with_retry(with_key(request), deadline))
        except ClientError as error:
            if self._strict:
                raise
            return failed_reply(request, error)

    def _send_parts(self, parts: Iterable[Capture]) -> Captured:
        """Send a capture's parts within one deadline until one is refused; return one reply for all."""
        deadline, replies = Deadline(self._timeout_s), list[Captured]()
        for part in parts:
            replies.append(self.ask(part, timeout_s=deadline.seconds()))
            if not replies[-1].is_taken:
                break
        return reply_of_all_parts(replies)

    def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> Generator[Progress, None, None]:
        """Yield the progress of builds over its own connection, for `timeout_s` in all (None: one day).

        The status of the last value is the reason that the stream ended; with `strict` that is raised
        instead.
        """
        request, connection = Events(workspace=workspace), None
        try:
            connection = self._connect(Deadline(self._timeout_s))
            deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
            for reply in connection.stream(request, deadline):
                yield expect_reply(request, reply)
        except ClientError as error:
            if self._strict:
                raise
            yield failed_reply(request, error)
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Close the connection once no thread's call uses it; a later call opens a new connection."""
        with self._lock_of_process():
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send_with_retry(self, request: Request[R], deadline: Deadline) -> Reply:
        """Send a request when no other thread does, once more if the connection ends and that is safe."""
        lock, doing = self._lock_of_process(), "waiting for another thread's call"
        if not lock.acquire(timeout=deadline.left(doing)):
            raise deadline.exceeded(doing)
        try:
            return self._send(request, deadline)
        except ConnectionLost as lost:
            if not may_repeat(request, lost):
                raise
            try:
                return self._send(request, deadline)
            except DaemonUnavailable as error:
                raise error_of_both(request, lost, error) from error
        finally:
            lock.release()

    def _send(self, request: Request[R], deadline: Deadline) -> Reply:
        """Send a request over the kept or a new connection and return its reply."""
        connection = self._take_connection() or self._connect(deadline)
        try:
            reply = connection.ask(request, deadline)
        except BaseException:
            # Also on KeyboardInterrupt, so that the next call cannot read this call's answer.
            connection.close()
            raise
        self._connection = connection
        return reply

    def _take_connection(self) -> Connection | None:
        """Take the kept connection out of the client until a reply has come over it; None if unusable."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_usable():
            connection.close()
            return None
        return connection

    def _connect(self, deadline: Deadline) -> Connection:
        """Connect to the daemon, starting it if allowed. Raises DaemonUnavailable, also at the deadline."""
        try:
            return self._connect_or_start(self._socket_path(), deadline)
        except DeadlineExceeded as error:
            # Not a time-out of the request. Nothing was sent, so the status is always `unavailable`.
            raise DaemonUnavailable(str(error)) from error

    def _connect_or_start(self, address: str, deadline: Deadline) -> Connection:
        """Connect to the daemon; if none listens and `autostart` is set, start it and connect then."""
        try:
            return Connection(dial(address, deadline), self._name)
        except DaemonAbsent:
            if not self._autostart:
                raise
        from forged_client import autostart  # noqa: PLC0415 - most calls find a daemon

        starting = autostart.prepare_start(address, self._executable, deadline)
        try:
            for pause in retry_pauses():
                time.sleep(min(pause, deadline.left("starting the daemon")))
                try:
                    return Connection(dial(address, deadline), self._name)
                except DaemonAbsent:
                    starting.proceed()
        finally:
            starting.release_lock()
        raise AssertionError  # `retry_pauses` never ends

    def _lock_of_process(self) -> LockType:
        """Return the client's lock, another one in each process, as a forked child may inherit it locked."""
        return self._locks.setdefault(os.getpid(), allocate_lock())
