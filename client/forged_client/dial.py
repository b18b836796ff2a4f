"""Connect to the Unix socket under a call's deadline: attempts that never block, and typed errors.

A daemon that is stopped, or has too many callers, has a full backlog. Linux then answers EAGAIN at once, and
asyncio takes that for a connection in progress. So both clients connect here and decide when to retry.
`_socket`, the C half of CPython's `socket`, saves 6 ms of start, which every hook process would pay.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import time
from time import monotonic

from forged_client.address import open_short_path, socket_obstacle
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
# A longer wait overflows a socket's time-out, and no caller means it.
_LONGEST_S = 86_400.0


class Deadline:
    """Time limit of one whole call, `seconds` from now; not-a-number and negative values are now.

    Limits per operation would add up, and a peer that sends a byte now and then would renew them for ever.
    """

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = min(seconds, _LONGEST_S) if seconds > 0 else 0.0
        self._at = monotonic() + self._seconds

    def seconds(self) -> float:
        """Return the seconds left until the deadline; 0 when it has passed."""
        return max(self._at - monotonic(), 0.0)

    def left(self, doing: str) -> float:
        """Return the seconds left, above 0. Raises DeadlineExceeded with `doing`, the current step."""
        seconds = self._at - monotonic()
        if seconds <= 0:
            raise self.exceeded(doing)
        return seconds

    def exceeded(self, doing: str) -> DeadlineExceeded:
        """Return the error for a deadline that passed during the step `doing`."""
        return DeadlineExceeded(f"no answer within {self._seconds:g} s ({doing})")


def try_connect(path: str) -> _socket.socket | None:
    """Return a connected, non-blocking socket, or None while the daemon's backlog is full.

    Raises DaemonAbsent if no process listens there. Raises DaemonUnavailable for anything else, also if the
    listener is another user's or another kind of file is at the path.
    """
    sock, directory = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM), -1
    try:
        sock.setblocking(False)
        name, directory = open_short_path(path)
        sock.connect(name)
        _check_owner(sock)
    except OSError as error:
        sock.close()
        if error.errno in _FULL:
            return None
        raise _connect_error(path, error) from error
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
    """Connect as `try_connect`, but retry until the deadline while the backlog is full."""
    pauses = retry_pauses()
    while (sock := try_connect(path)) is None:
        left = deadline.left("connecting: the daemon does not accept")
        time.sleep(min(next(pauses), left))
    return sock


def retry_pauses() -> Iterator[float]:
    """Yield the pauses between connection attempts in seconds, for ever, from 0.002 to 0.05."""
    pause = 0.002
    while True:
        yield pause
        pause = min(pause * 1.5, 0.05)


def has_hung_up(sock: _socket.socket) -> bool:
    """Return True if the peer of an idle, non-blocking socket has closed it."""
    try:
        return sock.recv(1, _socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _connect_error(path: str, error: OSError) -> DaemonUnavailable:
    """Return the error for a failed connect: no daemon, an obstacle at the path, or another cause."""
    cause = error.strerror or type(error).__name__
    if error.errno in _ABSENT:
        if obstacle := socket_obstacle(path):
            return DaemonUnavailable(obstacle)
        return DaemonAbsent(f"no daemon listens at {path} ({cause})")
    if isinstance(error, ConnectionError):
        return ConnectionLost(f"{path}: {cause}")
    return DaemonUnavailable(f"cannot connect to {path} ({cause})")


def _check_owner(sock: _socket.socket) -> None:
    """Check that this user or root owns a connected socket's listener. Raises DaemonUnavailable."""
    # The request holds conversation text, so a listener of another user gets none of it.
    if not hasattr(_socket, "SO_PEERCRED"):
        return
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED_BYTES)
    uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid not in (os.geteuid(), 0):
        raise DaemonUnavailable(f"the listener belongs to user {uid}, not to you")
