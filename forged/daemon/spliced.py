"""A reply's frame put together from fields that are encoded already: what a reply that is sent again costs.

A msgpack map is its length and its pairs one after another, so pairs that never change are encoded once, and
only the others each time.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from forged_client import framing, protocol

_encode = msgspec.msgpack.Encoder().encode
# A map with fewer pairs says their number in its first byte; one with more, in two bytes behind it.
_SHORT = 16


def pairs(fields: Mapping[str, object]) -> bytes:
    """Names and values, without their map's length. Raises TypeError and the like for what has no form."""
    return _encode(fields)[1 if len(fields) < _SHORT else 3 :]


def frame(reply_type: type[protocol.Reply], *parts: bytes) -> bytes:
    """A reply with all of its fields, each of which stands in one of `parts`."""
    head = _heads[reply_type]
    size = len(head) + sum(map(len, parts))
    return b"".join((size.to_bytes(framing.HEADER_BYTES, "big"), head, *parts))


def _head(reply_type: type[protocol.Reply]) -> bytes:
    """The map's length and the pair that names the type."""
    count = len(reply_type.__struct_fields__) + 1
    length = bytes((0x80 | count,)) if count < _SHORT else b"\xde" + count.to_bytes(2, "big")
    return length + pairs({"type": reply_type.__struct_config__.tag})


_heads = {each: _head(each) for each in protocol.REPLIES}
