"""What a provider may answer besides what a good one does: streamed, odd but to be understood, or broken."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tests.support.provider.server import (
    Answer,
    Behaviour,
    Request,
    ScriptedProvider,
    completion,
    items,
    well_behaved,
)


def proposal(
    content: str, scope: str = "repo", category: str = "patterns", **more: object
) -> dict[str, object]:
    """Return one element of a classifier's reply."""
    return {"content": content, "scope": scope, "category": category, **more}


def reply(*proposals: object, usage: Mapping[str, int] | None = None) -> Answer:
    """Answer a classifier's request; without proposals that nothing is worth keeping."""
    answer = completion(json.dumps(proposals))
    return answer if usage is None else replace(answer, json={**dict(answer.json), "usage": usage})  # type: ignore[call-overload]


def embedded(provider: ScriptedProvider, request: Request, **options: object) -> Answer:
    """Answer an embeddings request well; `options` are those of `Answer`."""
    return Answer({"data": items(provider, request)}, **options)  # type: ignore[arg-type]


def streamed(text: str, *, end: bytes = b"data: [DONE]\n\n", **options: object) -> Answer:
    """Answer a chat request as a stream, a word an event; `options` are those of `Answer`."""
    pieces = re.findall(r"\S+|\s+", text)
    events = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    body = b"".join(f"data: {event}\n\n".encode() for event in events) + end
    return Answer(body=body, headers={"Content-Type": "text/event-stream"}, **options)


# --- behaviours: odd, but to be understood ---


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
    """Pack the good answer, although nobody asked for it."""
    good = well_behaved(provider, request)
    return Answer(body=gzip.compress(good.payload()), headers={"Content-Encoding": "gzip"})


def at_most(count: int, *, status: int = 400, message: str = "batch size must not exceed {}") -> Behaviour:
    """Refuse requests with more inputs than this."""

    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        if len(request.inputs) <= count:
            return well_behaved(provider, request)
        return Answer({"error": {"message": message.format(count), "type": "invalid"}}, status=status)

    return behave


# --- behaviours: broken ---


def gzip_bomb(megabytes: int) -> Answer:
    """Send zeros, packed a thousand times smaller."""
    packed = gzip.compress(bytes(megabytes << 20), compresslevel=9)
    return Answer(body=packed, headers={"Content-Encoding": "gzip"})


def poisoned(word: str, answer: Answer) -> Behaviour:
    """Give this answer to every request that holds the word; others are served well."""

    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        return answer if word.encode() in request.body else well_behaved(provider, request)

    return behave


HTML = Answer(body=b"<!doctype html><title>Sign in</title>", headers={"Content-Type": "text/html"})
RESET = Answer(ending="reset")
CLOSE = Answer(wire=b"")
