"""Errors of a call: between an agent and the daemon.

A client raises these only when it is `strict`. Otherwise each becomes a reply whose `status` is the class's
`status` and whose `reason` is the message, because an agent must never fail when its memory does.
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of the errors of a call; a client that is not `strict` makes `status` and message a reply."""

    status = "error"


class AddressError(ClientError):
    """There is no usable socket path; the message names the setting to change."""

    status = "unavailable"


class DaemonUnavailable(ClientError):  # noqa: N818 - reads as the state it names, like those below
    """Base for a daemon that could not be reached, started or trusted, or whose connection ended."""

    status = "unavailable"


class DaemonAbsent(DaemonUnavailable):
    """No process listens at the address (no socket, or a stale one), so a daemon may be started."""


class DaemonEnded(DaemonUnavailable):
    """The daemon that this client started has exited; `exit_code` is one of sysexits (78: configuration)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class DeadlineExceeded(DaemonUnavailable):
    """The deadline of a whole call passed while connecting, starting the daemon, sending or receiving."""

    status = "timeout"


class ConnectionLost(DaemonUnavailable):
    """The connection ended before the whole request was sent, so the request was not carried out."""


class ReplyLost(ConnectionLost):
    """The connection ended before the reply; status `error`, as the request may have been carried out."""

    status = "error"


class ProtocolMismatch(ClientError):  # noqa: N818
    """The daemon has no protocol version that this client has."""


class RequestFailed(ClientError):  # noqa: N818
    """The daemon refused, or the request cannot be encoded; `code` is one of `protocol.CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class MalformedFrame(ClientError):  # noqa: N818
    """Received bytes are no message of this protocol, or a reply has another type than expected."""


class FrameTooLarge(ClientError):  # noqa: N818
    """A frame is above its size limit: a request is not sent, and a received one ends the connection."""
