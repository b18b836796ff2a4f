"""Frames on a byte stream: a 4-byte big-endian length, then one msgpack message.

No I/O here, so that both ends and both client shells share one definition. The rule: a length is judged
before any byte of its body is kept, so a peer cannot make us hold more than `limit`. A body that arrived
whole is handed out as a view of the caller's buffer; only a body that was split is copied, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import msgspec

from forged_client.errors import FrameTooLarge, MalformedFrame
from forged_client.protocol import AnyReply, AnyRequest, Reply, Request

HEADER_BYTES = 4

# Path objects become text; anything else unknown stays a TypeError.
_encoder = msgspec.msgpack.Encoder(enc_hook=os.fspath)


class Head(msgspec.Struct, frozen=True):
    """The two fields every message has, read before its type is known."""

    type: str = ""
    id: int = 0


# Built once, when first used: resolving the unions takes 2 ms each, and a client never needs the first.
@cache
def _requests() -> msgspec.msgpack.Decoder[AnyRequest]:
    return msgspec.msgpack.Decoder(AnyRequest)


@cache
def _replies() -> msgspec.msgpack.Decoder[AnyReply]:
    return msgspec.msgpack.Decoder(AnyReply)


_heads = msgspec.msgpack.Decoder(Head)

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(message: Request | Reply) -> bytes:
    """One frame, header included. Raises TypeError, ValueError or OverflowError for other values."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body  # a third of what encoding in place takes


def decode_request(body: bytes | memoryview) -> AnyRequest:
    """Any request of this version. Raises MalformedFrame, saying which field is wrong."""
    try:
        return _requests().decode(body)
    except _UNREADABLE as error:
        raise MalformedFrame(_reason(error)) from error


def decode_reply(body: bytes | memoryview) -> AnyReply:
    """Any reply of this version. Raises MalformedFrame."""
    try:
        return _replies().decode(body)
    except _UNREADABLE as error:
        raise MalformedFrame(_reason(error)) from error


def decode_head(body: bytes | memoryview) -> Head:
    """Type and id of a message whose type may be unknown. Raises MalformedFrame."""
    try:
        return _heads.decode(body)
    except _UNREADABLE as error:
        raise MalformedFrame(_reason(error)) from error


def _reason(error: Exception) -> str:
    # A UnicodeDecodeError prints the bytes it met, which are somebody's text.
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    return str(error) or type(error).__name__


class Framer:
    """Cuts a byte stream into frame bodies, however it was chunked."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    @property
    def midway(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._kept)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """The bodies that `data` completes; to be exhausted, each valid until the buffer is written again.

        Raises FrameTooLarge at a header above the limit; such a stream has lost its step and must be closed.
        """
        rest = memoryview(data)
        while rest:
            if not self._kept and (end := self._end_of_first(rest)):
                yield rest[HEADER_BYTES:end]
                rest = rest[end:]
                continue
            rest = self._keep(rest)
            if self._missing() == 0:
                body, self._kept = self._kept, bytearray()
                yield memoryview(body)[HEADER_BYTES:]

    def _end_of_first(self, rest: memoryview) -> int:
        """Where the frame at the start of `rest` ends, or 0 when it is not all there."""
        if len(rest) < HEADER_BYTES:
            return 0
        end = HEADER_BYTES + self._size(rest)
        return end if end <= len(rest) else 0

    def _keep(self, rest: memoryview) -> memoryview:
        """Take what the frame in hand lacks, header first; return what is left."""
        taken = min(self._missing(), len(rest))
        self._kept += rest[:taken]
        return rest[taken:]

    def _missing(self) -> int:
        if len(self._kept) < HEADER_BYTES:
            return HEADER_BYTES - len(self._kept)
        return HEADER_BYTES + self._size(self._kept) - len(self._kept)

    def _size(self, frame: bytearray | memoryview) -> int:
        size = int.from_bytes(frame[:HEADER_BYTES], "big")
        if size > self._limit:
            raise FrameTooLarge(f"a frame of {size} bytes is above the limit of {self._limit}")
        return size
