"""The blocking client: one method per verb, and none of them can hang or break the agent that calls it.

Every call has one total deadline and ends with the verb's reply; what went wrong is its `status` and
`reason`. The connection is opened at the first call and kept; a daemon that was restarted, or that hung up
on an idle connection, costs one reconnect. What may have been carried out is not sent again
(`remember`, `capture`, `forget`). Threads may share a client and then take turns.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Self

from forged_client import autostart as daemon_start
from forged_client import protocol
from forged_client.address import checked, socket_path
from forged_client.connection import Connection
from forged_client.deadline import Deadline
from forged_client.dial import growing_pauses
from forged_client.errors import ClientError, ConnectionLost, DaemonAbsent, MalformedFrame
from forged_client.exchange import R, failure, may_repeat, settled
from forged_client.window import CAPTURE_BYTES, RETRIEVE_BYTES, window

DEFAULT_TIMEOUT_S = 2.5
# How much longer than a retrieve's own time limit the client waits for its answer.
GRACE_S = 0.5


class Client:
    """A connection to the daemon that makes itself.

    `address` is a socket path (default: `socket_path()`), `timeout_s` the total seconds of one call. With
    `autostart` a missing daemon is started, from `executable` or as autostart.py says. `strict` raises
    ClientError where otherwise a reply would say `unavailable`, `timeout` or `error`. `name` is what the
    daemon's logs call this client. Source: design.md section 4.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        with self._lock():
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    # The verbs, in the order of protocol.py. What they do is said there, at the request of the same name.

    def ping(self) -> protocol.Pong:
        return self._ask(protocol.Ping(), protocol.Pong)

    def status(self, workspace: str = "") -> protocol.StatusReport:
        return self._ask(protocol.Status(workspace=workspace), protocol.StatusReport)

    def retrieve(
        self,
        workspace: str,
        messages: Iterable[object] = (),
        *,
        session_id: str = "",
        turn_id: str = "",
        last_summary_index: int = 0,
        hypotheses: Iterable[str] = (),
        token_budget: int | None = None,
        timeout_s: float | None = None,
        min_generation: str = "",
        known_digest: str = "",
    ) -> protocol.Retrieved:
        """`messages` are `protocol.Message`s, dicts in OpenAI or Anthropic form, or objects with such fields.

        `timeout_s` limits the daemon's work (its default is 2.0); the call ends at most 0.5 s after it.
        """
        request = protocol.Retrieve(
            workspace=workspace,
            session_id=session_id,
            turn_id=turn_id,
            messages=window(messages, last_summary_index, RETRIEVE_BYTES),
            last_summary_index=last_summary_index,
            hypotheses=tuple(hypotheses),
            token_budget=token_budget,
            timeout_s=timeout_s,
            min_generation=min_generation,
            known_digest=known_digest,
        )
        return self._ask(request, protocol.Retrieved, None if timeout_s is None else timeout_s + GRACE_S)

    def search(
        self, workspace: str, query: str, *, limit: int = 10, min_generation: str = ""
    ) -> protocol.Found:
        request = protocol.Search(
            workspace=workspace, query=query, limit=limit, min_generation=min_generation
        )
        return self._ask(request, protocol.Found)

    def why(self, workspace: str = "", *, session_id: str = "", query: str = "") -> protocol.Explained:
        request = protocol.Why(workspace=workspace, session_id=session_id, query=query)
        return self._ask(request, protocol.Explained)

    def remember(
        self,
        workspace: str,
        content: str,
        *,
        scope: str = "repo",
        category: str = "user-facts",
        supersedes: str = "",
        related: Iterable[protocol.Edge] = (),
        session_id: str = "",
    ) -> protocol.Remembered:
        request = protocol.Remember(
            workspace=workspace,
            content=content,
            scope=scope,
            category=category,
            supersedes=supersedes,
            related=tuple(related),
            session_id=session_id,
        )
        return self._ask(request, protocol.Remembered)

    def capture(
        self,
        workspace: str,
        session_id: str,
        messages: Iterable[object],
        *,
        kind: str = "turn",
        last_summary_index: int = 0,
    ) -> protocol.Captured:
        request = protocol.Capture(
            workspace=workspace,
            session_id=session_id,
            kind=kind,
            messages=window(messages, last_summary_index, CAPTURE_BYTES),
            last_summary_index=last_summary_index,
        )
        return self._ask(request, protocol.Captured)

    def get(self, workspace: str, ids: Iterable[str], *, min_generation: str = "") -> protocol.Memories:
        request = protocol.GetMemories(workspace=workspace, ids=tuple(ids), min_generation=min_generation)
        return self._ask(request, protocol.Memories)

    def list(
        self,
        workspace: str,
        *,
        scope: str = "",
        category: str = "",
        all_versions: bool = False,
        limit: int = 100,
        offset: int = 0,
        min_generation: str = "",
    ) -> protocol.Memories:
        request = protocol.ListMemories(
            workspace=workspace,
            scope=scope,
            category=category,
            all_versions=all_versions,
            limit=limit,
            offset=offset,
            min_generation=min_generation,
        )
        return self._ask(request, protocol.Memories)

    def history(self, workspace: str, memory_id: str, *, min_generation: str = "") -> protocol.Chain:
        request = protocol.History(workspace=workspace, memory_id=memory_id, min_generation=min_generation)
        return self._ask(request, protocol.Chain)

    def forget(
        self, workspace: str, memory_id: str, *, version_only: bool = False, erase_now: bool = False
    ) -> protocol.Forgotten:
        request = protocol.Forget(
            workspace=workspace, memory_id=memory_id, version_only=version_only, erase_now=erase_now
        )
        return self._ask(request, protocol.Forgotten)

    def rebuild(
        self, workspace: str, *, full: bool = False, wait: bool = False, timeout_s: float | None = None
    ) -> protocol.Rebuilt:
        """With `wait`, give it a `timeout_s` that a first build of the root can meet."""
        request = protocol.Rebuild(workspace=workspace, full=full, wait=wait)
        return self._ask(request, protocol.Rebuilt, timeout_s)

    def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> Generator[protocol.Progress, None, None]:
        """Events as they come, over a connection of their own, for `timeout_s` in all (None: one day).

        The last value says by its status why the stream ended; with `strict` that is raised instead.
        """
        connection = None
        try:
            connection = self._connect(Deadline(self._timeout_s))
            deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
            for reply in connection.stream(protocol.Events(workspace=workspace), deadline):
                yield settled(reply, protocol.Progress)
        except ClientError as error:
            if self._strict:
                raise
            yield failure(protocol.Progress, error)
        finally:
            if connection is not None:
                connection.close()

    # One call.

    def _ask(self, request: protocol.Request, kind: type[R], timeout_s: float | None = None) -> R:
        deadline = Deadline(self._timeout_s if timeout_s is None else timeout_s)
        try:
            return settled(self._take_turn(request, deadline), kind)
        except ClientError as error:
            if self._strict:
                raise
            return failure(kind, error)

    def _take_turn(self, request: protocol.Request, deadline: Deadline) -> protocol.Reply:
        lock, doing = self._lock(), "waiting for another thread's call"
        if not lock.acquire(timeout=deadline.left(doing)):
            raise deadline.exceeded(doing)
        try:
            return self._send_once(request, deadline)
        except ConnectionLost as lost:
            if not may_repeat(request, lost):
                raise
            return self._send_once(request, deadline)
        finally:
            lock.release()

    def _send_once(self, request: protocol.Request, deadline: Deadline) -> protocol.Reply:
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
