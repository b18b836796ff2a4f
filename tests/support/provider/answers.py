"""Answers of a provider besides its default ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
    """Return a classifier's answer; without proposals an empty list."""
    answer = completion(json.dumps(proposals))
    return answer if usage is None else replace(answer, json={**dict(answer.json), "usage": usage})  # type: ignore[call-overload]


def embedded(provider: ScriptedProvider, request: Request, **options: object) -> Answer:
    """Return a good answer to an embeddings request; `options` are those of `Answer`."""
    return Answer({"data": items(provider, request)}, **options)  # type: ignore[arg-type]


def streamed(text: str, *, end: bytes = b"data: [DONE]\n\n", **options: object) -> Answer:
    """Return a streamed chat answer, a word an event; `options` are those of `Answer`."""
    pieces = re.findall(r"\S+|\s+", text)
    events = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
    body = b"".join(f"data: {event}\n\n".encode() for event in events) + end
    return Answer(body=body, headers={"Content-Type": "text/event-stream"}, **options)


def poisoned(word: str, answer: Answer) -> Behaviour:
    """Give this answer to every request with the word; others are served well."""

    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        return answer if word.encode() in request.body else well_behaved(provider, request)

    return behave


HTML = Answer(body=b"<!doctype html><title>Sign in</title>", headers={"Content-Type": "text/html"})
RESET = Answer(ending="reset")
CLOSE = Answer(wire=b"")
