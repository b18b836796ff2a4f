"""One blocking connection to the daemon: bytes of an `Exchange` over a socket, under the call's deadline.

Its user takes it out of service on any exception: after one, nobody knows how much of a frame is still on
its way.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Iterator

from forged_client.deadline import Deadline
from forged_client.dial import dial, is_gone
from forged_client.errors import ConnectionLost, ReplyLost
from forged_client.exchange import Exchange, with_id
from forged_client.protocol import Reply, Request


class Connection:
    """An open socket and the exchange on it."""

    def __init__(self, sock: _socket.socket, name: str) -> None:
        self._sock = sock
        self._exchange = Exchange(name)
        self._pid = os.getpid()

    @classmethod
    def open(cls, path: str, name: str, deadline: Deadline) -> Connection:
        """Raises DaemonAbsent, DaemonUnavailable or DeadlineExceeded."""
        return cls(dial(path, deadline), name)

    def is_usable(self) -> bool:
        """False in a forked child, whose bytes would mix with its parent's, and after the daemon hung up."""
        if self._pid != os.getpid():
            return False
        self._sock.setblocking(False)
        return not is_gone(self._sock)

    def ask(self, request: Request, deadline: Deadline) -> Reply:
        """The reply to one request. Raises ClientError, and ReplyLost once the request was out."""
        return next(self.stream(request, deadline))

    def stream(self, request: Request, deadline: Deadline) -> Iterator[Reply]:
        """Every reply to one request, until the connection ends with ReplyLost."""
        number, frame = self._exchange.request(request)
        self._send(frame, deadline)
        while True:
            yield from with_id(self._receive(deadline), number)

    def close(self) -> None:
        # No shutdown(): in a forked child that would end the parent's connection too.
        self._sock.close()

    def _send(self, frame: bytes, deadline: Deadline) -> None:
        doing = "sending the request"
        try:
            self._sock.settimeout(deadline.left(doing))
            self._sock.sendall(frame)
        except TimeoutError as error:
            raise deadline.exceeded(doing) from error
        except OSError as error:
            self._read_refusal(deadline)
            raise ConnectionLost(f"the daemon closed the connection ({error.strerror})") from error

    def _receive(self, deadline: Deadline) -> list[Reply]:
        doing = "waiting for the reply"
        try:
            self._sock.settimeout(deadline.left(doing))
            size = self._sock.recv_into(self._exchange.room())
        except TimeoutError as error:
            raise deadline.exceeded(doing) from error
        except OSError as error:
            raise ReplyLost(f"the connection broke before the reply ({error.strerror})") from error
        if not size:
            raise ReplyLost("the daemon closed the connection before it replied")
        return self._exchange.replies(size)

    def _read_refusal(self, deadline: Deadline) -> None:
        """Raise what the daemon said before it hung up on us (busy, another version), if it said anything."""
        try:
            self._receive(deadline)
        except ReplyLost:
            return
