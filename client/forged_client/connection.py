"""One blocking connection to the daemon: an `Exchange` over a socket, under the call's deadline.

Raises DeadlineExceeded, and ConnectionLost before the request was sent, ReplyLost after that; further errors
as the exchange. After any exception the connection is unusable, because a part of a frame may be in transit.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Iterator

from forged_client.dial import Deadline, has_hung_up
from forged_client.errors import ConnectionLost, ReplyLost
from forged_client.exchange import Exchange
from forged_client.protocol import R, Reply, Request


class Connection:
    """One blocking connection to the daemon, for one request at a time."""

    def __init__(self, sock: _socket.socket, name: str) -> None:
        self._sock = sock
        self._exchange = Exchange(name)
        self._pid = os.getpid()

    def is_usable(self) -> bool:
        """Return True unless the daemon has hung up or this is a forked child, whose bytes would mix in."""
        if self._pid != os.getpid():
            return False
        self._sock.setblocking(False)
        return not has_hung_up(self._sock)

    def ask(self, request: Request[R], deadline: Deadline) -> Reply:
        """Send one request and return its reply, skipping replies to requests that were given up."""
        number = self._send(request, deadline)
        while True:
            for reply in self._receive(deadline):
                if reply.id == number:  # other replies belong to requests that were given up
                    return reply

    def stream(self, request: Request[R], deadline: Deadline) -> Iterator[Reply]:
        """Yield every reply to one request, until the connection ends (ReplyLost) or the deadline passes."""
        number = self._send(request, deadline)
        while True:
            yield from (reply for reply in self._receive(deadline) if reply.id == number)

    def close(self) -> None:
        """Close the connection in this process alone; it stays open in a forked child or parent."""
        # No shutdown(): in a forked child that would end the parent's connection too.
        self._sock.close()

    def _send(self, request: Request[R], deadline: Deadline) -> int:
        """Send a request and return its id. Raises ConnectionLost, or the refusal that the daemon sent."""
        number, frame = self._exchange.encode_request(request)
        doing = "sending the request"
        try:
            self._sock.settimeout(deadline.left(doing))
            self._sock.sendall(frame)
        except TimeoutError as error:
            raise deadline.exceeded(doing) from error
        except OSError as error:
            self._raise_refusal(deadline)
            raise ConnectionLost(f"the daemon closed the connection ({error.strerror})") from error
        return number

    def _receive(self, deadline: Deadline) -> list[Reply]:
        """Wait for bytes and return the replies that they complete. Raises ReplyLost or DeadlineExceeded."""
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
        return self._exchange.decode_replies(size)

    def _raise_refusal(self, deadline: Deadline) -> None:
        """Raise the error that the daemon sent before it hung up (busy, another version), if there is one."""
        try:
            self._receive(deadline)
        except ReplyLost:
            return
