"""Model servers, keys and programs that are here: asked shortly, named and never read."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forged.integrations import ModelServer, classifiers, servers
from tests.support.clock import PATIENCE_S

OLLAMA = ("/api/tags", "models", "name")


@contextmanager
def answering(reply: bytes, *, then_waits: bool = False) -> Iterator[int]:
    """A server on loopback that answers one request with these bytes; its port."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)
                if then_waits:
                    over.wait(PATIENCE_S)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        over.set()
        thread.join()


def http(body: object, status: str = "200 OK") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def found(port: int) -> tuple[ModelServer, ...]:
    return servers({"Ollama": (port, *OLLAMA)})


def test_a_server_that_answers_is_named_with_its_address_and_its_models():
    with answering(http({"models": [{"name": "qwen3:4b"}, {"name": "llama"}]})) as port:
        assert found(port) == (ModelServer("Ollama", f"http://127.0.0.1:{port}/v1", ("qwen3:4b", "llama")),)


@pytest.mark.parametrize(
    "reply",
    [
        *(b"", b"SSH-2.0-x\r\n", b"\xff" * 100, http({}), http([]), http(b"{"), http({"models": 1})),
        *(http({"models": [1]}), http({"models": [{"x": 1}]}), http({"models": []}, "404 Not Found")),
        http(b'{"models": [' + b" " * (1 << 19) + b"]}"),
    ],
)
def test_whoever_else_listens_there_is_none_either(reply):
    with answering(reply) as port:
        assert found(port) == ()


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
def test_one_that_does_not_answer_in_time_is_not_waited_for(begun):
    with answering(begun, then_waits=True) as port:
        assert found(port) == ()


def test_programs_that_could_classify_are_reported_with_what_a_day_takes(machine, stand_in):
    stand_in("claude")
    stand_in("qwen")
    claude, qwen = classifiers(machine, {"claude": "Claude Code", "qwen": "Qwen Code"})

    assert (claude.name, claude.title, claude.calls) == ("cli:claude", "Claude Code", 10)
    assert claude.tokens == 10 * (1_500 + 280)
    assert qwen.name == "cli:qwen/MODEL"
