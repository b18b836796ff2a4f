"""Whether an answer to a capture ends the matter, or the same capture is sent again.

In: the last reply, or what the client raised. Out: a verdict. Sending again is harmless, as a capture has an
id; giving up is not, as nobody else has its text. So whatever time may mend is tried for ever, and only what
may as well be the event's own fault is counted by its sender.
"""

from __future__ import annotations

from typing import Literal

from forged_client.errors import (
    AddressError,
    ClientError,
    DaemonUnavailable,
    MalformedFrame,
    ProtocolMismatch,
    RequestFailed,
)
from forged_client.protocol import Capture, Captured

# `settled`: taken, or refused for good. `again`: not now. `odd`: not now, and perhaps never.
Verdict = Literal["settled", "again", "odd"]

_PASSING_REASONS = ("the daemon is stopping", "queue_full", "spool_full", "storage_error")
_PASSING_CODES = frozenset({"busy", "storage_error"})
_ODD_CODES = frozenset({"internal", "conflict"})
_ANSWERS = frozenset({"ok", "empty", "disabled"})


def of_reply(reply: Captured, *, is_whole: bool) -> Verdict:
    """The verdict on what the daemon said; `is_whole`: it has to have all parts now, and to say so."""
    if reply.outcome == "rejected" and reply.reason.startswith(_PASSING_REASONS):
        return "again"
    if reply.status not in _ANSWERS or (is_whole and reply.outcome == "accepted"):
        return "odd"
    return "settled"


def of_part(part: Capture, reply: Captured) -> Verdict:
    """The verdict on the reply to a part: the last one of what is told once is answered for all of them."""
    is_whole = part.kind != "turn" and part.parts > 1 and part.part == part.parts - 1
    return of_reply(reply, is_whole=is_whole)


def of_error(error: ClientError) -> Verdict:
    """The verdict on a call that failed."""
    if isinstance(error, RequestFailed):
        if error.code in _PASSING_CODES:
            return "again"
        return "odd" if error.code in _ODD_CODES else "settled"
    if isinstance(error, (DaemonUnavailable, AddressError, ProtocolMismatch)):
        return "again"
    return "odd" if isinstance(error, MalformedFrame) else "settled"
