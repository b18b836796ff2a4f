"""Protocol state of one connection, without I/O: bytes to send, and replies from received bytes.

Both clients use it. `hello` goes in front of the first request, without a round trip of its own. Replies may
arrive in any order. Raises the errors that end the connection, and those of a request that cannot be sent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from forged_client import errors, protocol
from forged_client.framing import HEADER_BYTES, FrameCutter, decode_reply, encode
from forged_client.version import __version__

_HELLO_ID = 1


class Exchange:
    """Ids, hello and reply matching of one connection: encodes requests and decodes replies; no I/O."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._frames = FrameCutter(protocol.MAX_REPLY_BYTES)
        self.room = self._frames.room  # the connection receives the next bytes here
        self._last_id = 0

    def encode_request(self, request: protocol.Request[protocol.R]) -> tuple[int, bytes]:
        """Return the id of the request and the bytes to send, hello in front of the first.

        Raises RequestFailed("invalid") for values msgpack cannot hold, FrameTooLarge above the verb's limit.
        """
        first = self._last_id == 0
        number = _HELLO_ID + 1 if first else self._last_id + 1
        frame = _encode_frame(msgspec.structs.replace(request.with_seen(), id=number))
        self._last_id = number
        return number, self._encode_hello() + frame if first else frame

    def decode_replies(self, size: int) -> list[protocol.Reply]:
        """Return the replies that the `size` bytes just received into `room` complete, without hello's.

        Raises the errors that end the connection: MalformedFrame, FrameTooLarge, ProtocolMismatch, or
        RequestFailed for a refusal of the connection itself (`busy`).
        """
        self._frames.held += size
        arrived: list[protocol.Reply] = []
        while (body := self._frames.take()) is not None:
            reply = decode_reply(body)
            if not self._is_for_connection(reply):
                arrived.append(reply)
        return arrived

    def _encode_hello(self) -> bytes:
        """Return the frame of hello, a connection's first request: versions, the client's name, and pid."""
        return encode(
            protocol.Hello(
                id=_HELLO_ID,
                protocol_min=protocol.PROTOCOL_VERSION,
                protocol_max=protocol.PROTOCOL_VERSION,
                client=self._name,
                version=__version__,
                pid=os.getpid(),
            )
        )

    def _is_for_connection(self, reply: protocol.Reply) -> bool:
        """Return True for the reply to hello. Raises the error that refuses the whole connection."""
        if isinstance(reply, protocol.Welcome):
            if reply.protocol != protocol.PROTOCOL_VERSION:
                raise errors.ProtocolMismatch(_mismatch_message(f"version {reply.protocol}"))
            return True
        if isinstance(reply, protocol.Failed) and reply.id <= _HELLO_ID:
            if reply.code == "protocol_mismatch":
                raise errors.ProtocolMismatch(_mismatch_message(reply.message or "another version"))
            raise errors.RequestFailed(reply.code, reply.message)
        return False


def with_key(request: protocol.Request[protocol.R]) -> protocol.Request[protocol.R]:
    """Return the request with a new key, if its class has keys (carried out once) and it has none yet."""
    if getattr(request, "key", None) == "":
        return msgspec.structs.replace(request, key=os.urandom(16).hex())
    return request


def may_repeat(request: protocol.Request[protocol.R], lost: errors.ConnectionLost) -> bool:
    """Return True if a request whose connection ended may be sent again: never if it could be done twice."""
    return request.repeatable or bool(getattr(request, "key", "")) or not isinstance(lost, errors.ReplyLost)


def error_of_both(
    request: protocol.Request[protocol.R], lost: errors.ConnectionLost, again: errors.DaemonUnavailable
) -> errors.DaemonUnavailable:
    """Return the second attempt's error, or the first's if only the first attempt may have written."""
    is_open = not request.repeatable and isinstance(lost, errors.ReplyLost)
    return lost if is_open and again.status == "unavailable" else again


def expect_reply(request: protocol.Request[protocol.R], reply: protocol.Reply) -> protocol.R:
    """Return the reply as its type. Raises RequestFailed for a refusal, MalformedFrame for any other type."""
    kind = request.reply_type()
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, protocol.Failed):
        raise errors.RequestFailed(reply.code, reply.message)
    raise errors.MalformedFrame(f"expected {kind.__name__}, the daemon answered {type(reply).__name__}")


def reply_of_all_parts(replies: Sequence[protocol.Captured]) -> protocol.Captured:
    """Return the reply to a whole capture: the last part's, with the sum of all `unread` counts."""
    return msgspec.structs.replace(replies[-1], unread=sum(reply.unread for reply in replies))


def bypass_reply(request: protocol.Request[protocol.R]) -> protocol.R:
    """Return the `disabled` reply to a request that FORGED_BYPASS keeps from the daemon."""
    return request.reply_type()(status="disabled", reason="FORGED_BYPASS is set")


def failed_reply(request: protocol.Request[protocol.R], error: errors.ClientError) -> protocol.R:
    """Return the reply for a failed call: status and reason, everything else empty."""
    reply = request.reply_type()(status=error.status, reason=str(error))
    if isinstance(reply, protocol.StatusReport):  # `state`, the daemon's health, must not stay "ok"
        return msgspec.structs.replace(reply, state=error.status)
    return reply


def _encode_frame(request: protocol.Request[protocol.R]) -> bytes:
    """Return the frame of a request. Raises RequestFailed for wrong values, FrameTooLarge above the limit."""
    try:
        frame = encode(request)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # The message of a UnicodeEncodeError contains the text itself.
        problem = "a text is not valid Unicode" if isinstance(error, UnicodeError) else str(error)
        raise errors.RequestFailed("invalid", problem) from error
    if (size := len(frame) - HEADER_BYTES) > request.limit_bytes:
        raise errors.FrameTooLarge(f"the request has {size} bytes and may have {request.limit_bytes}")
    return frame


def _mismatch_message(theirs: str) -> str:
    """Return the message of a ProtocolMismatch, with both versions."""
    return (
        f"client {__version__} speaks protocol version {protocol.PROTOCOL_VERSION}, the daemon says: {theirs}"
    )
