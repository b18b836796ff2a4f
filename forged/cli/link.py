"""How a verb reaches the daemon, and how a failed call ends the verb.

The client is asked in its strict form: forgectl is the loud side (design.md D8), what an agent must not
notice is exactly what a person at a terminal wants to read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from forged.cli.exits import Stop
from forged.cli.invocation import Invocation
from forged.cli.output import tell
from forged.errors import ConfigError
from forged_client.client import Client
from forged_client.errors import (
    AddressError,
    ClientError,
    DaemonAbsent,
    DaemonEnded,
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
        raise stop_of(error, call) from error


def stop_of(error: ClientError, call: Invocation) -> Stop:
    """The ending that a client's exception means."""
    if isinstance(error, RequestFailed):
        if not call.workspace:
            return Stop(error.code, "the current directory is gone; say --workspace PATH")
        return Stop(error.code, error.message)
    if isinstance(error, DaemonEnded) and error.exit_code == os.EX_CONFIG:
        return Stop("configuration", _complaint(call) or str(error))
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "unavailable")
    if word == "not_running":
        return Stop(word, f"forged is not running, `forgectl ping` starts it: {error}")
    return Stop(word, str(error))


def _complaint(call: Invocation) -> str:
    """What is wrong with the configuration, as the daemon said it to its log."""
    from forged import config  # noqa: PLC0415 - the fast verbs do without it

    try:
        config.load(call.environ)
    except ConfigError as error:
        return str(error)
    return ""


def check_read(reply: Reply) -> None:
    """End a reading verb whose answer never came; say on stderr what was odd about one that did.

    `disabled` is a state and no failure (B13): the verb goes on with nothing to show.
    """
    if reply.status not in {"ok", "empty", "disabled"}:
        raise Stop(reply.status, remark(reply))
    if reply.status == "disabled" or reply.reason:
        tell(f"forgectl: {remark(reply)}")


def check_done(reply: Reply) -> None:
    """End a writing verb that did not do what it was told, whatever the state is called."""
    if reply.status != "ok":
        raise Stop(reply.status, remark(reply))


def remark(reply: Reply) -> str:
    """What a person is told beside an answer, or instead of one."""
    told = reply.reason or reply.status.replace("_", " ")
    if reply.status == "ok":
        return f"answered, though not in full: {told}"
    return f"memory is disabled: {told}" if reply.status == "disabled" else told
