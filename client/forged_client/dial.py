"""Open the Unix socket under a call's deadline: attempts that never block, and what their failures mean.

A daemon that is stopped, or has too many callers, leaves its backlog full: Linux then answers EAGAIN at once,
and asyncio takes that for a connection in progress. So both clients connect here and decide when to retry.
`_socket`, CPython's own C half of `socket`, saves 6 ms of start, which every hook process would pay.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import time
from time import monotonic

from forged_client.address import in_the_way, reach
from forged_client.errors import (
    AddressError,
    ConnectionLost,
    DaemonAbsent,
    DaemonUnavailable,
    DeadlineExceeded,
)

TYPE_CHECKING = False  # `typing` itself costs more than all this; see __init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator


_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED}
_FULL = {errno.EAGAIN, errno.EINPROGRESS}
_UCRED_BYTES = 12  # pid, uid, gid
# Longer waits overflow a socket's time-out, and nobody means them.
_LONGEST_S = 86_400.0


class Deadline:
    """A point in time, `seconds` from now, over all of a call; not-a-number and negative values are now.

    Limits per operation add up, and a peer that sends a byte now and then renews them for ever.
    """

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = min(seconds, _LONGEST_S) if seconds > 0 else 0.0
        self._at = monotonic() + self._seconds

    def seconds(self) -> float:
        """Seconds left; 0 when it has passed."""
        return max(self._at - monotonic(), 0.0)

    def left(self, doing: str) -> float:
        """Seconds left, above 0. Raises DeadlineExceeded, naming what was being done."""
        seconds = self._at - monotonic()
        if seconds <= 0:
            raise self.exceeded(doing)
        return seconds

    def exceeded(self, doing: str) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer within {self._seconds:g} s ({doing})")


def attempt(path: str) -> _socket.socket | None:
    """A connected, non-blocking socket; None while the daemon's backlog is full.

    Raises DaemonAbsent when nobody listens there, DaemonUnavailable for anything else, also when the
    listener is another user's, or where something else lies at the path.
    """
    sock, directory = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM), -1
    try:
        sock.setblocking(False)
        name, directory = reach(path)
        sock.connect(name)
        _check_owner(sock)
    except OSError as error:
        sock.close()
        if error.errno in _FULL:
            return None
        raise _explained(path, error) from error
    except AddressError as error:
        sock.close()
        raise DaemonUnavailable(str(error)) from error
    except DaemonUnavailable:
        sock.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)
    return sock


def dial(path: str, deadline: Deadline) -> _socket.socket:
    """A connected socket; waits for room in the backlog. Raises as `attempt`, and DeadlineExceeded."""
    pauses = growing_pauses()
    while (sock := attempt(path)) is None:
        left = deadline.left("connecting: the daemon does not accept")
        time.sleep(min(next(pauses), left))
    return sock


def growing_pauses() -> Iterator[float]:
    """Seconds between attempts: short at first, because a daemon that starts is up in a fraction of one."""
    pause = 0.002
    while True:
        yield pause
        pause = min(pause * 1.5, 0.05)


def is_gone(sock: _socket.socket) -> bool:
    """Whether the peer of an idle, non-blocking socket has closed it."""
    try:
        return sock.recv(1, _socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _explained(path: str, error: OSError) -> DaemonUnavailable:
    told = error.strerror or type(error).__name__
    if error.errno in _ABSENT:
        if obstacle := in_the_way(path):
            return DaemonUnavailable(obstacle)
        return DaemonAbsent(f"no daemon listens at {path} ({told})")
    if isinstance(error, ConnectionError):
        return ConnectionLost(f"{path}: {told}")
    return DaemonUnavailable(f"cannot connect to {path} ({told})")


def _check_owner(sock: _socket.socket) -> None:
    # What we send is conversation text: a listener that somebody else put there gets none of it.
    if not hasattr(_socket, "SO_PEERCRED"):
        return
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED_BYTES)
    uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid not in (os.geteuid(), 0):
        raise DaemonUnavailable(f"the listener belongs to user {uid}, not to you")
