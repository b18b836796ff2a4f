"""Errors of a call: between an agent and the daemon.

A client raises these only when it is `strict`. Otherwise each becomes a reply whose `status` is the class's
`status` and whose `reason` is the message, because an agent must never fail when its memory does.
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of the errors of a call; a client that is not `strict` makes `status` and message a reply."""

    status = "error"


class AddressError(ClientError):
    """Raised if there is no usable socket path; the message names the setting to change."""

    status = "unavailable"


class DaemonUnavailable(ClientError):  # noqa: N818 - reads as the state it names, like those below
    """Raised (or a subclass) if the daemon is not reached, started or trusted, or a call is cut off."""

    status = "unavailable"


class DaemonAbsent(DaemonUnavailable):
    """Raised if no process listens at the address (no or a stale socket): a daemon may be started."""


class DaemonEnded(DaemonUnavailable):
    """Raised if the daemon that this client started ends with an error; `exit_code` 78: configuration."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class DeadlineExceeded(DaemonUnavailable):
    """Raised at the deadline of a call that has connected; before that it is DaemonUnavailable."""

    status = "timeout"


class ConnectionLost(DaemonUnavailable):
    """Raised if the connection ends before the whole request is sent: it was not carried out."""


class ReplyLost(ConnectionLost):
    """Raised if the connection ends before the reply: the request may have been carried out."""

    status = "error"


class ProtocolMismatch(ClientError):  # noqa: N818
    """Raised if the daemon has no protocol version that this client has."""


class RequestFailed(ClientError):  # noqa: N818
    """Raised if the daemon refuses or a request cannot be encoded; `code` is one of `protocol.CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class MalformedFrame(ClientError):  # noqa: N818
    """Raised if received bytes are no message of this protocol, or a reply has an unexpected type."""


class FrameTooLarge(ClientError):  # noqa: N818
    """Raised for a frame above its limit: a request is not sent, a received one ends the connection."""
