"""Answers of embedding endpoints that are odd but to be understood, or too much."""

from __future__ import annotations

import base64
import gzip
import struct
import zlib
from collections.abc import Callable, Iterable

from tests.support.provider import Answer, Behaviour, Request, ScriptedProvider, items, well_behaved


def changed(change: Callable[[list[dict]], object]) -> Behaviour:
    """Answer with `data` changed: `change` gets the good items and may edit them or return others."""

    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        data = items(provider, request)
        other = change(data)
        return Answer({"object": "list", "data": data if other is None else other})

    return behave


def _drop_index(data: list[dict], positions: Iterable[int]) -> None:
    for position in positions:
        data[position].pop("index", None)


def _as_base64(data: list[dict]) -> None:
    for item in data:
        packed = struct.pack(f"<{len(item['embedding'])}f", *item["embedding"])
        item["embedding"] = base64.b64encode(packed).decode()


shuffled = changed(lambda data: data[::-1])
without_index = changed(lambda data: _drop_index(data, range(len(data))))
without_first_index = changed(lambda data: _drop_index(data, [0]))
base64_vectors = changed(_as_base64)


def gzipped(provider: ScriptedProvider, request: Request) -> Answer:
    """Pack the good answer, without being asked."""
    good = well_behaved(provider, request)
    return Answer(body=gzip.compress(good.payload()), headers={"Content-Encoding": "gzip"})


def at_most(count: int, *, status: int = 400, message: str = "batch size must not exceed {}") -> Behaviour:
    """Refuse requests with more inputs than this."""

    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        if len(request.inputs) <= count:
            return well_behaved(provider, request)
        return Answer({"error": {"message": message.format(count), "type": "invalid"}}, status=status)

    return behave


def gzip_bomb(megabytes: int) -> Answer:
    """Send zeros, packed a thousand times smaller, in pieces of a megabyte that are made once."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first, more = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return Answer(body=first + more * (megabytes - 1), headers={"Content-Encoding": "gzip"})
