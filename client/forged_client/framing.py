"""Frames of a byte stream, without I/O: a 4-byte big-endian length, then one msgpack message.

Daemon and client ask for `room`, receive into it, add the number of bytes to `held`, and `take` frames until
there is none. A frame is a view into the buffer, valid until the next call of `room`. FrameTooLarge is
raised as soon as a header claims more than the limit. The buffer grows only when it is full.
"""

from __future__ import annotations

import os
from functools import cache, reduce
from operator import or_
from typing import Any, TypeVar

import msgspec

from forged_client.errors import FrameTooLarge, MalformedFrame
from forged_client.protocol import REPLIES, REQUESTS, R, Reply, Request
from forged_client.typed import resolved

HEADER_BYTES = 4
BUFFER_BYTES = 1 << 16

_Body = TypeVar("_Body")

# Path objects become text; any other unknown type stays a TypeError.
_encoder = msgspec.msgpack.Encoder(enc_hook=os.fspath)


class FrameHead(msgspec.Struct, frozen=True):
    """Type and id of a message, read alone if the whole message could not be decoded."""

    type: str = ""
    id: int = 0


# Built once, when first used: resolving the unions takes 2 ms each, and a client never needs the first.
@cache
def _request_decoder() -> msgspec.msgpack.Decoder[Request[Any]]:
    return msgspec.msgpack.Decoder(resolved(reduce(or_, REQUESTS)))


@cache
def _reply_decoder() -> msgspec.msgpack.Decoder[Reply]:
    return msgspec.msgpack.Decoder(resolved(reduce(or_, REPLIES)))


_heads = msgspec.msgpack.Decoder(resolved(FrameHead))


def encode(message: Request[R] | Reply) -> bytes:
    """Return a message as one frame with its length. Raises TypeError, ValueError or OverflowError."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body  # a third of the time of encoding in place


def decode_request(body: bytes | memoryview) -> Request[Any]:
    """Return the request in a frame's body. Raises MalformedFrame with the wrong field."""
    return _decode(_request_decoder(), body)


def decode_reply(body: bytes | memoryview) -> Reply:
    """Return the reply in a frame's body, of any type. Raises MalformedFrame."""
    return _decode(_reply_decoder(), body)


def decode_head(body: bytes | memoryview) -> FrameHead:
    """Return type and id of a message of any type. Raises MalformedFrame."""
    return _decode(_heads, body)


def _decode(decoder: msgspec.msgpack.Decoder[_Body], body: bytes | memoryview) -> _Body:
    """Return the message decoded from a frame's body. Raises MalformedFrame, never with user text."""
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:  # its message contains the bytes, which are user text
        raise MalformedFrame("a text is not UTF-8") from error
    except (msgspec.DecodeError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise MalformedFrame(f"this is not a message of the protocol: {why}") from error


class FrameCutter:
    """Receive buffer of a connection that is cut into frames; `limit` is the most bytes of a body."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # start of the first frame that was not taken
        self.held = 0  # bytes from there on; the receiver adds, `take` subtracts

    def room(self) -> memoryview:
        """Return the free part of the buffer for the next bytes; never empty. Invalidates earlier frames."""
        if not self.held:
            return self._view
        if self._start:
            self._view[: self.held] = self._view[self._start : self._start + self.held]
            self._start = 0
        if self.held == len(self._buffer):
            self._grow()
        return self._view[self.held :]

    def take(self) -> memoryview | None:
        """Return the body of the next whole frame, or None. Raises FrameTooLarge, which ends the stream."""
        if self.held < HEADER_BYTES:
            return None
        size = int.from_bytes(self._buffer[self._start : self._start + HEADER_BYTES])
        if size > self._limit:
            raise FrameTooLarge(f"a frame of {size} bytes is above the limit of {self._limit}")
        if self.held < HEADER_BYTES + size:
            return None
        end = self._start + HEADER_BYTES + size
        body = self._view[end - size : end]
        self._start = end
        self.held -= HEADER_BYTES + size
        if not self.held:
            self._start = 0
            if len(self._buffer) > BUFFER_BYTES:  # only a large frame needed the space
                self._use_buffer(bytearray(BUFFER_BYTES))
        return body

    def _grow(self) -> None:
        """Enlarge the buffer for the frame that has begun, at most fourfold."""
        size, claimed = len(self._buffer), int.from_bytes(self._buffer[:HEADER_BYTES])
        grown = bytearray(max(min(size * 4, HEADER_BYTES + claimed), size + BUFFER_BYTES))
        grown[:size] = self._buffer
        self._use_buffer(grown)

    def _use_buffer(self, buffer: bytearray) -> None:
        # Views of the old buffer stay valid, because they keep it alive.
        self._buffer, self._view = buffer, memoryview(buffer)
