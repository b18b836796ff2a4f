"""A real HTTP server on loopback that plays an OpenAI-compatible provider, well behaved or not.

Without a script it answers as a good server would: deterministic vectors, given chat lines. A script for a
path replaces that answer by answer. Every request is recorded, and a test can wait for it. It works across
processes, because a daemon only needs `base_url`.

    with ScriptedProvider(vectors={"tabs": (1, 0, 0)}) as provider:
        provider.embeddings = [Answer(status=500), shuffled]     # then well behaved again
        ...
        provider.wait_for(2)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.support.clock import PATIENCE_S

EMBEDDINGS = "/v1/embeddings"
CHAT = "/v1/chat/completions"

_LONGEST_S = 2 * PATIENCE_S
_MOST_REQUESTS = 20_000
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Answer:
    """One reply. `json` is encoded unless `body` is given; `wire` replaces HTTP altogether.

    `hold` delays until the event is set, `delay_s` for a time. `drip_s` is the pause before every byte of
    the body (or of the headers too, with `drip_headers`). `ending` "reset" sends RST instead of an answer,
    "short" breaks off in the middle of the body. All of them end when the provider stops. `hold` and
    `drip_s` concern the whole body, or with `at_once` the rest after this part of it.
    """

    json: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wire: bytes | None = None
    hold: threading.Event | None = None
    at_once: bytes = b""
    delay_s: float = 0.0
    drip_s: float = 0.0
    drip_headers: bool = False
    ending: str = ""

    def payload(self) -> bytes:
        return json.dumps(self.json).encode() if self.body is None else self.body


@dataclass
class Request:
    """One received request. `closed_by_client`: the caller hung up before the end."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    connection: int
    closed_by_client: bool = False
    answered_at: float | None = None

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def inputs(self) -> list[str]:
        return self.json["input"]


Behaviour = Callable[["ScriptedProvider", Request], Answer]
Script = Answer | Behaviour | Iterable[Answer | Behaviour] | None


class ScriptedProvider:
    """The server; a context manager. `embeddings` and `chat` are the scripts of the two paths.

    A script is one answer for ever, or a sequence after which the default comes back. `vectors` maps a text,
    or a part of it (the longest that fits wins), to a vector; any other text gets a unit vector from its
    hash. `chat_lines` is the default completion.
    """

    def __init__(
        self,
        *,
        dimension: int = 8,
        vectors: Mapping[str, Sequence[float]] | None = None,
        chat_lines: Sequence[str] = ("a hypothesis",),
    ) -> None:
        self.dimension = dimension
        self.vectors = dict(vectors or {})
        self.chat_lines = tuple(chat_lines)
        self.received: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._scripts: dict[str, Answer | Behaviour | Iterator[Answer | Behaviour] | None] = {}
        self._changed = threading.Condition()
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.provider = self
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    embeddings = property(None, lambda self, script: self.script(EMBEDDINGS, script))
    chat = property(None, lambda self, script: self.script(CHAT, script))

    def script(self, path: str, script: Script) -> Script:
        """Answer at a path by this script; return the rest of the script before."""
        with self._changed:
            before = self._scripts.get(path)
            callable_or_answer = script is None or isinstance(script, Answer) or callable(script)
            self._scripts[path] = script if callable_or_answer else iter(script)
            return before

    def requests(self, path: str | None = None) -> list[Request]:
        with self._changed:
            return [request for request in self.received if path in (None, request.path)]

    def wait_for(self, count: int, timeout: float = PATIENCE_S, path: str | None = None) -> list[Request]:
        """Return the requests once there are `count` of them; raises TimeoutError with those so far."""
        return self.wait_until(lambda: len(self.requests(path)) >= count, timeout, path)

    def wait_until(
        self, condition: Callable[[], bool], timeout: float = PATIENCE_S, path: str | None = None
    ) -> list[Request]:
        """Wait for anything that requests change, such as `closed_by_client`."""
        with self._changed:
            if not self._changed.wait_for(condition, min(timeout, _LONGEST_S)):
                seen = [request.path for request in self.received]
                raise TimeoutError(f"after {timeout} s the provider had only seen {seen}")
        return self.requests(path)

    @property
    def connections(self) -> int:
        """Return how many connections carried requests."""
        return len({request.connection for request in self.requests()})

    def vector(self, text: str) -> list[float]:
        """Return the default vector of a text."""
        fitting = [part for part in self.vectors if part == text] or [p for p in self.vectors if p in text]
        if fitting:
            return list(self.vectors[max(fitting, key=len)])
        return hashed_vector(text, self.dimension)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.server.shutdown()
        self._thread.join(5)
        with self._changed:
            still_open = list(self._open)
        for connection in still_open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server.server_close()  # joins the handlers

    # --- called by handler threads ---

    def opened(self, connection: socket.socket) -> None:
        with self._changed:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._changed:
            self._open.discard(connection)

    def begin(self, request: Request) -> Answer | Behaviour:
        """Record a request and take its answer from the script."""
        with self._changed:
            if len(self.received) >= _MOST_REQUESTS:
                raise RuntimeError("too many requests for one test")
            self.received.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            script = self._scripts.get(request.path)
            if isinstance(script, Iterator):
                script = next(script, None)
            self._changed.notify_all()
        return script or well_behaved

    def end(self, request: Request, *, hung_up: bool) -> None:
        with self._changed:
            self._at_once -= 1
            request.closed_by_client = hung_up
            request.answered_at = None if hung_up else time.monotonic()
            self._changed.notify_all()


def hashed_vector(text: str, dimension: int) -> list[float]:
    """Return a unit vector that depends on the text alone."""
    numbers = random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    vector = [numbers.gauss(0, 1) for _ in range(dimension)]
    norm = sum(number * number for number in vector) ** 0.5
    return [number / norm for number in vector]


# --- behaviours: well behaved ---


def well_behaved(provider: ScriptedProvider, request: Request) -> Answer:
    if request.path.endswith("/embeddings"):
        return Answer({"object": "list", "data": items(provider, request), "model": "m"})
    if request.path.endswith("/chat/completions"):
        return completion("\n".join(provider.chat_lines))
    return Answer({"error": {"message": "no such path", "code": "not_found"}}, status=404)


def items(provider: ScriptedProvider, request: Request) -> list[dict]:
    """Return `data` of a good reply."""
    return [
        {"object": "embedding", "index": index, "embedding": provider.vector(text)}
        for index, text in enumerate(request.inputs)
    ]


def completion(content: object, **message: object) -> Answer:
    """Return a chat answer with this content."""
    return Answer(
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": content, **message}}]}
    )


# --- the server ---


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128
    provider: ScriptedProvider

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a caller that hangs up is part of the script."""


class _HungUpError(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _LONGEST_S
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.provider.opened(self.connection)

    def finish(self) -> None:
        self.server.provider.closed(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length <= _MOST_BYTES else b""
        if len(body) < length:  # the caller hung up before the end, or sends too much
            self.close_connection = True
            return
        request = Request(
            path=self.path.split("?")[0],
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            at=time.monotonic(),
            connection=self.client_address[1],
        )
        script = self.server.provider.begin(request)
        hung_up = False
        try:
            self._answer(script if isinstance(script, Answer) else script(self.server.provider, request))
        except (_HungUpError, OSError):
            hung_up = not self.server.provider.stopping.is_set()
            self.close_connection = True
        finally:
            self.server.provider.end(request, hung_up=hung_up)

    do_GET = do_POST  # noqa: N815 - the name that http.server needs

    def _answer(self, answer: Answer) -> None:
        self._wait(answer)
        if answer.ending == "reset":
            # Linger 0 makes close() send RST, unless another descriptor or shutdown keeps the socket.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.server.provider.closed(self.connection)
            self.rfile.close()
            self.wfile.close()
            self.connection.close()
            return
        if answer.wire is not None:
            self.close_connection = True
            self._send(answer.wire, answer.drip_s)
            return
        payload = answer.payload()
        self._send(self._head(answer, len(payload)), answer.drip_s if answer.drip_headers else 0)
        if answer.at_once:
            first, part, payload = payload.partition(answer.at_once)
            self._send(first + part, 0)
            self._hold(answer)
        self._send(payload[: len(payload) // 2] if answer.ending == "short" else payload, answer.drip_s)
        self.close_connection = answer.ending == "short"

    def _head(self, answer: Answer, length: int) -> bytes:
        headers = {"Content-Type": "application/json", "Content-Length": str(length), **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        return "\r\n".join(lines).encode()

    def _send(self, content: bytes, drip_s: float) -> None:
        if not drip_s:
            self.connection.sendall(content)
            return
        for at in range(len(content)):
            self._pause(drip_s)
            self.connection.sendall(content[at : at + 1])

    def _wait(self, answer: Answer) -> None:
        if answer.delay_s:
            self._pause(answer.delay_s)
        if not answer.at_once:
            self._hold(answer)

    def _hold(self, answer: Answer) -> None:
        until = time.monotonic() + _LONGEST_S
        while answer.hold is not None and not answer.hold.is_set() and time.monotonic() < until:
            self._pause(0.01)

    def _pause(self, seconds: float) -> None:
        """Wait, unless the provider stops or the caller hangs up."""
        until = time.monotonic() + min(seconds, _LONGEST_S)
        while (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.02))
            if self.server.provider.stopping.is_set():
                raise _HungUpError
            if readable:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    raise _HungUpError
                time.sleep(min(left, 0.005))  # a pipelined request waits for its turn
