"""Hold one blocking connection to the daemon: an `Exchange` over a socket, under the call's deadline.

Raises DeadlineExceeded, ConnectionLost while the request was not out, ReplyLost after that, and as the
exchange. After any exception it is of no use: nobody knows how much of a frame is still on its way.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Iterator

from forged_client.dial import Deadline, is_gone
from forged_client.errors import ConnectionLost, ReplyLost
from forged_client.exchange import Exchange
from forged_client.protocol import R, Reply, Request


class Connection:
    """An open socket and the exchange on it."""

    def __init__(self, sock: _socket.socket, name: str) -> None:
        self._sock = sock
        self._exchange = Exchange(name)
        self._pid = os.getpid()

    def is_usable(self) -> bool:
        """False in a forked child, whose bytes would mix with its parent's, and after the daemon hung up."""
        if self._pid != os.getpid():
            return False
        self._sock.setblocking(False)
        return not is_gone(self._sock)

    def ask(self, request: Request[R], deadline: Deadline) -> Reply:
        """The reply to one request."""
        number = self._send(request, deadline)
        while True:
            for reply in self._receive(deadline):
                if reply.id == number:  # others belong to requests that were given up
                    return reply

    def stream(self, request: Request[R], deadline: Deadline) -> Iterator[Reply]:
        """Every reply to one request, until the connection ends with ReplyLost."""
        number = self._send(request, deadline)
        while True:
            yield from (reply for reply in self._receive(deadline) if reply.id == number)

    def close(self) -> None:
        # No shutdown(): in a forked child that would end the parent's connection too.
        self._sock.close()

    def _send(self, request: Request[R], deadline: Deadline) -> int:
        number, frame = self._exchange.request(request)
        doing = "sending the request"
        try:
            self._sock.settimeout(deadline.left(doing))
            self._sock.sendall(frame)
        except TimeoutError as error:
            raise deadline.exceeded(doing) from error
        except OSError as error:
            self._read_refusal(deadline)
            raise ConnectionLost(f"the daemon closed the connection ({error.strerror})") from error
        return number

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
