"""One scripted answer of a model in four dialects: whole, as a stream's events, as an error."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
# No two answers of a service have the same name, and agents tell answers apart by it.
_ANSWERS = itertools.count(1)


@dataclass(frozen=True)
class Turn:
    """One answer. `tools` are (name, arguments) that the model asks to be run; `wait_s` is before it.

    `read` is how many tokens the service says that the question had: agents decide by it what to compress.
    """

    text: str = "ok"
    tools: tuple[tuple[str, Json], ...] = ()
    status: int = 200
    wait_s: float = 0.0
    read: int = 11

    @property
    def written(self) -> int:
        """Tokens of the answer, likewise."""
        return len(self.text) // 4 + 1


# --- errors ------------------------------------------------------------------------------------------

_SAID = {401: "invalid api key", 429: "rate limit exceeded", 500: "internal server error"}
_KINDS = {401: "authentication_error", 429: "rate_limit_error"}
_GOOGLE = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}


def _anthropic_error(status: int) -> Json:
    return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": _SAID[status]}}


def _openai_error(status: int) -> Json:
    return {"error": {"message": _SAID[status], "type": _KINDS.get(status, "server_error"), "code": None}}


def _gemini_error(status: int) -> Json:
    return {"error": {"code": status, "message": _SAID[status], "status": _GOOGLE.get(status, "INTERNAL")}}


# --- Anthropic Messages ------------------------------------------------------------------------------


def _blocks(turn: Turn) -> list[Json]:
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    called = enumerate(turn.tools)
    return [*text, *({"type": "tool_use", "id": f"toolu_{n}", "name": t, "input": a} for n, (t, a) in called)]


def _message(turn: Turn) -> Json:
    return {
        "id": f"msg_{next(_ANSWERS)}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": _blocks(turn),
        "stop_reason": "tool_use" if turn.tools else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": turn.read, "output_tokens": turn.written},
    }


def _message_events(turn: Turn) -> Iterator[Json]:
    whole = _message(turn)
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.written}}
    yield {"type": "message_stop"}


# --- OpenAI Responses --------------------------------------------------------------------------------


def _items(turn: Turn) -> list[Json]:
    said = {
        "type": "message",
        "id": f"item_{next(_ANSWERS)}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
    }
    called = [
        {
            "type": "function_call",
            "id": f"call_item_{n}",
            "call_id": f"call_{n}",
            **_named(name),
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for n, (name, arguments) in enumerate(turn.tools)
    ]
    return [said, *called]


def _named(tool: str) -> Json:
    """A tool by its name; of a group of tools, such as those of a server, GROUP.NAME."""
    group, _, name = tool.rpartition(".")
    return {"name": name, "namespace": group} if group else {"name": name}


def _response(turn: Turn) -> Json:
    both = turn.read + turn.written
    used = {"input_tokens": turn.read, "output_tokens": turn.written, "total_tokens": both}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{next(_ANSWERS)}",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "output": _items(turn),
        "usage": {**used, **details},
    }


def _response_events(turn: Turn) -> Iterator[Json]:
    whole = _response(turn)
    yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


# --- Chat Completions --------------------------------------------------------------------------------


def _chat_message(turn: Turn) -> Json:
    called = [
        {
            "index": n,
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(turn.tools)
    ]
    return {"role": "assistant", "content": turn.text} | ({"tool_calls": called} if called else {})


def _chat_used(turn: Turn) -> Json:
    both = turn.read + turn.written
    return {"prompt_tokens": turn.read, "completion_tokens": turn.written, "total_tokens": both}


def _chat(turn: Turn) -> Json:
    choice = {"index": 0, "message": _chat_message(turn), "finish_reason": _finish(turn)}
    head = {"id": f"chat_{next(_ANSWERS)}", "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**head, "choices": [choice], "usage": _chat_used(turn)}


def _finish(turn: Turn) -> str:
    return "tool_calls" if turn.tools else "stop"


def _chat_events(turn: Turn) -> Iterator[Json]:
    head = {
        "id": f"chat_{next(_ANSWERS)}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
    }
    said = {"index": 0, "delta": _chat_message(turn), "finish_reason": None}
    yield {**head, "choices": [said]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(turn)}]}
    yield {**head, "choices": [], "usage": _chat_used(turn)}


# --- Gemini ------------------------------------------------------------------------------------------


def _candidates(turn: Turn) -> Json:
    parts: list[Json] = [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in turn.tools]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    both = turn.read + turn.written
    used = {"promptTokenCount": turn.read, "candidatesTokenCount": turn.written, "totalTokenCount": both}
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": "scripted"}


def _candidate_events(turn: Turn) -> Iterator[Json]:
    yield _candidates(turn)


ERRORS = {
    "messages": _anthropic_error,
    "responses": _openai_error,
    "chat": _openai_error,
    "gemini": _gemini_error,
}
STREAMS = {
    "messages": _message_events,
    "responses": _response_events,
    "chat": _chat_events,
    "gemini": _candidate_events,
}
WHOLE = {"messages": _message, "responses": _response, "chat": _chat, "gemini": _candidates}
