"""The conversation on one connection without the connection: which bytes to send, what came back.

Both shells, blocking and asyncio, drive this, so the rules exist once: `hello` travels in one send with the
first request (no extra round trip), replies find their request by id in any order, a failure that belongs
to no request ends the whole connection, and each failure has one form as a reply of the verb that was
asked. One `Exchange` lives as long as one connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from forged_client.address import bypassed
from forged_client.errors import (
    ClientError,
    ConnectionLost,
    FrameTooLarge,
    MalformedFrame,
    ProtocolMismatch,
    ReplyLost,
    RequestFailed,
)
from forged_client.framing import HEADER_BYTES, FrameCutter, decode_reply, encode
from forged_client.protocol import (
    MAX_CAPTURE_BYTES,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    PROTOCOL_VERSION,
    Capture,
    Dead,
    Failed,
    Forget,
    Hello,
    Remember,
    Reply,
    Request,
    Retrieve,
    StatusReport,
    Undo,
    Welcome,
)
from forged_client.version import __version__

R = TypeVar("R", bound=Reply)

_HELLO_ID = 1
# A capture may: taken twice it is classified twice at worst, and what is known already is not written again.
_NOT_REPEATABLE = (Remember, Forget, Undo, Dead)
_BYPASSED = (Retrieve, Capture)


class Exchange:
    """Ids, hello and reply matching of one connection; no I/O."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._frames = FrameCutter(MAX_REPLY_BYTES)
        self.room = self._frames.room  # where the shell receives the next bytes
        self._last_id = 0

    def request(self, request: Request) -> tuple[int, bytes]:
        """The id the request was given and the bytes to send, hello in front of the first.

        Raises RequestFailed("invalid") for values msgpack cannot hold, FrameTooLarge above the verb's limit.
        """
        first = self._last_id == 0
        number = _HELLO_ID + 1 if first else self._last_id + 1
        frame = _framed(msgspec.structs.replace(request, id=number))
        self._last_id = number
        return number, self._hello() + frame if first else frame

    def replies(self, size: int) -> list[Reply]:
        """The replies that the `size` bytes just received into `room` complete, without hello's own.

        Raises what ends the connection: MalformedFrame, FrameTooLarge, ProtocolMismatch, or RequestFailed
        for a refusal of the connection itself (`busy`).
        """
        self._frames.received(size)
        arrived = []
        while (body := self._frames.take()) is not None:
            reply = decode_reply(body)
            if not self._concerns_connection(reply):
                arrived.append(reply)
        return arrived

    def _hello(self) -> bytes:
        return encode(Hello(id=_HELLO_ID, client=self._name, version=__version__, pid=os.getpid()))

    def _concerns_connection(self, reply: Reply) -> bool:
        if isinstance(reply, Welcome):
            if reply.protocol != PROTOCOL_VERSION:
                raise ProtocolMismatch(_mismatch(f"version {reply.protocol}"))
            return True
        if isinstance(reply, Failed) and reply.id <= _HELLO_ID:
            if reply.code == "protocol_mismatch":
                raise ProtocolMismatch(_mismatch(reply.message or "another version"))
            raise RequestFailed(reply.code, reply.message)
        return False


def may_repeat(request: Request, lost: ConnectionLost) -> bool:
    """Whether a request whose connection ended may be sent again: never if it could be done twice."""
    return not isinstance(lost, ReplyLost) or not isinstance(request, _NOT_REPEATABLE)


def unasked(request: Request, kind: type[R]) -> R | None:
    """The reply to what FORGED_BYPASS keeps from the daemon: a state and no error. None: ask the daemon."""
    if isinstance(request, _BYPASSED) and bypassed():
        return kind(status="disabled", reason="FORGED_BYPASS is set")
    return None


def settled(reply: Reply, kind: type[R]) -> R:
    """The reply as the verb's type. Raises RequestFailed for a refusal, MalformedFrame for another type."""
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Failed):
        raise RequestFailed(reply.code, reply.message)
    raise MalformedFrame(f"expected {kind.__name__}, the daemon answered {type(reply).__name__}")


def failure(kind: type[R], error: ClientError) -> R:
    """The verb's reply that says the call failed: status and reason, everything else empty."""
    reply = kind(status=error.status, reason=str(error))
    if isinstance(reply, StatusReport):  # its own word for the daemon's health must not stay "ok"
        return msgspec.structs.replace(reply, state=error.status)
    return reply


def with_id(replies: Iterable[Reply], number: int) -> list[Reply]:
    """Those that answer request `number`; others belong to requests that were given up."""
    return [reply for reply in replies if reply.id == number]


def _framed(request: Request) -> bytes:
    try:
        frame = encode(request)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # A UnicodeEncodeError would print the text itself.
        told = "a text holds half a character" if isinstance(error, UnicodeError) else str(error)
        raise RequestFailed("invalid", told) from error
    limit = MAX_CAPTURE_BYTES if isinstance(request, Capture) else MAX_REQUEST_BYTES
    if len(frame) - HEADER_BYTES > limit:
        raise FrameTooLarge(f"the request has {len(frame) - HEADER_BYTES} bytes and may have {limit}")
    return frame


def _mismatch(theirs: str) -> str:
    return f"client {__version__} speaks protocol version {PROTOCOL_VERSION}, the daemon says: {theirs}"
