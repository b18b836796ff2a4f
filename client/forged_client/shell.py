"""The base of the blocking and the asyncio client: their settings, and the deadline of a call."""

from __future__ import annotations

import os

from forged_client.address import checked, socket_path
from forged_client.deadline import Deadline
from forged_client.protocol import R, Recall, Request, Retrieve

DEFAULT_TIMEOUT_S = 2.5
# How much longer than a retrieve's own time limit the client waits for its answer.
GRACE_S = 0.5


def new_key() -> str:
    """A name for a request that nobody else has, by which a daemon knows it again."""
    return os.urandom(16).hex()


class Shell:
    """The settings of a client. It connects when it is first asked, not before.

    `address` is a socket path (default: `socket_path()`), `timeout_s` the total seconds of one call. With
    `autostart` a missing daemon is started, from `executable` or as autostart.py says. `strict` raises
    ClientError where otherwise a reply would say `unavailable`, `timeout` or `error`. `name` is what the
    daemon's log calls this client. While FORGED_BYPASS is set in the environment, `retrieve`, `search`,
    `why`, `remember` and `capture` answer `disabled` at once, without a daemon.
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
        self._start_disconnected()

    def _start_disconnected(self) -> None:
        """What a new client has to hold, by its kind."""
        raise NotImplementedError

    def _socket_path(self) -> str:
        return socket_path() if self._address is None else checked(self._address)

    def _deadline(self, request: Request[R], timeout_s: float | None) -> Deadline:
        """The end of the call: as told, else after a retrieve's own limit, else as the client is set."""
        if timeout_s is None and isinstance(request, Retrieve | Recall) and request.timeout_s is not None:
            timeout_s = request.timeout_s + GRACE_S
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)
