"""Model API on loopback for real agents: scripted answers, and a record of the requests.

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
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.agents.dialects import ERRORS, STREAMS, WHOLE, Json, Turn

__all__ = ["Request", "ScriptedApi", "Turn"]


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
            number = len(self.requests)
        if self.choose is not None:  # which may ask for the requests so far
            return self.choose(request)
        return self.turns[min(number, len(self.turns)) - 1]


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
        request = Request(dialect, self.path, dict(self.headers), body)
        turn = replace(self.script.next(request), read=len(request.text) // 4)
        if self.over.wait(turn.wait_s):
            return
        if turn.status != 200:
            self._send(turn.status, ERRORS[dialect](turn.status))
        elif body.get("stream") or ":streamGenerateContent" in self.path:
            self._stream(dialect, STREAMS[dialect](turn))
        else:
            self._send(200, WHOLE[dialect](turn))

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
