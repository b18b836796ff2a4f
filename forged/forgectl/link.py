"""How a verb reaches the daemon, and how a failed call ends the verb.

The client is asked in its strict form: forgectl is the loud side (design.md D8), what an agent must not
notice is exactly what a person at a terminal wants to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from forged.forgectl.exits import Stop
from forged.forgectl.invocation import Invocation
from forged.forgectl.output import tell
from forged_client.client import Client
from forged_client.errors import (
    AddressError,
    ClientError,
    DaemonAbsent,
    DeadlineExceeded,
    FrameTooLarge,
    ProtocolMismatch,
    RequestFailed,
)
from forged_client.protocol import Reply

_WORDS: tuple[tuple[type[ClientError], str], ...] = (
    (AddressError, "configuration"),
    (DaemonAbsent, "not_running"),
    (DeadlineExceeded, "timeout"),
    (ProtocolMismatch, "protocol_mismatch"),
    (FrameTooLarge, "frame_too_large"),
)


@contextmanager
def daemon(call: Invocation) -> Iterator[Client]:
    """A client for this invocation, closed at the end. Raises Stop for whatever the client raises."""
    try:
        with Client(
            call.address,
            timeout_s=call.timeout_s,
            autostart=call.autostart,
            executable=call.executable,
            strict=True,
            name="forgectl",
        ) as client:
            yield client
    except ClientError as error:
        raise stop_of(error) from error


def stop_of(error: ClientError) -> Stop:
    """The ending that a client's exception means."""
    if isinstance(error, RequestFailed):
        return Stop(error.code, error.message)
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "unavailable")
    return Stop(word, f"forged is not running: {error}" if word == "not_running" else str(error))


def check_read(reply: Reply) -> None:
    """End a reading verb whose answer never came; say on stderr what was odd about one that did.

    `disabled` is a state and no failure (B13): the verb goes on with nothing to show.
    """
    if reply.status not in {"ok", "empty", "disabled"}:
        raise Stop(reply.status, reply.reason or reply.status.replace("_", " "))
    if reply.status == "disabled" or reply.reason:
        tell(f"forgectl: {reply.status}: {reply.reason}" if reply.reason else f"forgectl: {reply.status}")


def check_done(reply: Reply) -> None:
    """End a writing verb that did not do what it was told, whatever the state is called."""
    if reply.status != "ok":
        raise Stop(reply.status, reply.reason or reply.status.replace("_", " "))
