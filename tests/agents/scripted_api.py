"""A model API on loopback for real agents: it answers what a test scripted, and records what was asked.

In go `Turn`s, each the answer to one call of a model: a text, calls of tools, a failing status, a wait. The
last is given again when more is asked; a function may choose instead. Out come the requests, in their order.
Four dialects, streamed or in one piece, told apart by the path:

- `/v1/messages`: Anthropic Messages
- `/v1/responses`: OpenAI Responses
- `/v1/chat/completions`: Chat Completions
- `/v1beta/models/NAME:generateContent`, `:streamGenerateContent`: Gemini

What else a client asks (its models, a count of tokens) is answered with next to nothing and recorded apart.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """One answer. `tools` are (name, arguments) that the model asks to be run; `wait_s` is before it."""

    text: str = "ok"
    tools: tuple[tuple[str, Json], ...] = ()
    status: int = 200
    wait_s: float = 0.0


@dataclass(frozen=True)
class Request:
    """One call of a model as it arrived. `dialect`: messages, responses, chat or gemini."""

    dialect: str
    path: str
    headers: dict[str, str]
    body: Json

    @property
    def text(self) -> str:
        """All of the body, to be searched and measured; as the client wrote it, but for blanks."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def tools(self) -> list[str]:
        """Names of the tools that the model was offered."""
        offered = self.body.get("tools") or []
        declared = [each for one in offered for each in one.get("functionDeclarations", [one])]
        return [each.get("name") or each.get("function", {}).get("name") or each["type"] for each in declared]


@dataclass
class _Script:
    turns: list[Turn]
    choose: Callable[[Request], Turn] | None = None
    requests: list[Request] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: Request) -> Turn:
        with self.lock:
            self.requests.append(request)
            if self.choose is not None:
                return self.choose(request)
            return self.turns[min(len(self.requests), len(self.turns)) - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that is killed lets go of its connections."""


class ScriptedApi:
    """Used as a context manager; `url` has no path and no slash at its end."""

    def __init__(self, *turns: Turn, choose: Callable[[Request], Turn] | None = None) -> None:
        self._script = _Script(list(turns) or [Turn()], choose)
        self._over = threading.Event()
        handler = type("Handler", (_Handler,), {"script": self._script, "over": self._over})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def requests(self) -> list[Request]:
        """Calls of a model so far."""
        with self._script.lock:
            return list(self._script.requests)

    @property
    def others(self) -> list[str]:
        """Method and path of whatever else was asked."""
        return list(self._script.others)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: _Script
    over: threading.Event

    def do_POST(self) -> None:
        body = self._body()
        dialect = _dialect(self.path)
        if not dialect:
            self.script.others.append(f"POST {self.path}")
            self._send(200, {"input_tokens": 1, "totalTokens": 1})
            return
        turn = self.script.next(Request(dialect, self.path, dict(self.headers), body))
        if self.over.wait(turn.wait_s):
            return
        if turn.status != 200:
            self._send(turn.status, _ERRORS[dialect](turn.status))
        elif body.get("stream") or ":streamGenerateContent" in self.path:
            self._stream(dialect, _STREAMS[dialect](turn))
        else:
            self._send(200, _WHOLE[dialect](turn))

    def do_GET(self) -> None:
        self.script.others.append(f"GET {self.path}")
        self._send(200, {"data": [], "models": []})

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> Json:
        read = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            found = json.loads(read)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _send(self, status: int, document: Json) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, dialect: str, events: Iterator[Json]) -> None:
        """Whole, and then the connection ends: every client knows that for the end of a stream."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if dialect in ("messages", "responses") else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if dialect == "chat":
            self.wfile.write(b"data: [DONE]\n\n")


def _dialect(path: str) -> str:
    path = path.partition("?")[0]
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    endings = {"/messages": "messages", "/responses": "responses", "/chat/completions": "chat"}
    return next((dialect for ending, dialect in endings.items() if path.endswith(ending)), "")


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
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": _blocks(turn),
        "stop_reason": "tool_use" if turn.tools else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
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
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


# --- OpenAI Responses --------------------------------------------------------------------------------


def _items(turn: Turn) -> list[Json]:
    said = {
        "type": "message",
        "id": "item_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
    }
    called = [
        {
            "type": "function_call",
            "id": f"call_item_{n}",
            "call_id": f"call_{n}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for n, (name, arguments) in enumerate(turn.tools)
    ]
    return [said, *called]


def _response(turn: Turn) -> Json:
    used = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "resp_1",
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


_CHAT_USED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def _chat(turn: Turn) -> Json:
    choice = {"index": 0, "message": _chat_message(turn), "finish_reason": _finish(turn)}
    head = {"id": "chat_1", "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**head, "choices": [choice], "usage": _CHAT_USED}


def _finish(turn: Turn) -> str:
    return "tool_calls" if turn.tools else "stop"


def _chat_events(turn: Turn) -> Iterator[Json]:
    head = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    said = {"index": 0, "delta": _chat_message(turn), "finish_reason": None}
    yield {**head, "choices": [said]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(turn)}]}
    yield {**head, "choices": [], "usage": _CHAT_USED}


# --- Gemini ------------------------------------------------------------------------------------------


def _candidates(turn: Turn) -> Json:
    parts: list[Json] = [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in turn.tools]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    used = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return {"candidates": [candidate], "usageMetadata": used, "modelVersion": "scripted"}


def _candidate_events(turn: Turn) -> Iterator[Json]:
    yield _candidates(turn)


_ERRORS = {
    "messages": _anthropic_error,
    "responses": _openai_error,
    "chat": _openai_error,
    "gemini": _gemini_error,
}
_STREAMS = {
    "messages": _message_events,
    "responses": _response_events,
    "chat": _chat_events,
    "gemini": _candidate_events,
}
_WHOLE = {"messages": _message, "responses": _response, "chat": _chat, "gemini": _candidates}
