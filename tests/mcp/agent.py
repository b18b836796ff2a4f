"""An agent at the other end of the bridge: a process as agents start it, and lines of JSON."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import forged.mcp
from tests.support.clock import PATIENCE_S

BRIDGE = str(Path(forged.mcp.__file__).with_name("bridge.py"))
COMMAND = (sys.executable, "-I", "-S", BRIDGE)
Json = dict[str, object]


class Agent:
    """Talks to a bridge. What the bridge asks by itself is in `asked`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.asked: list[Json] = []
        self._numbers = 0
        self._read = b""

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def begin(self, method: str, number: object = None, **params: object) -> object:
        """Send a request without waiting for its answer; its id."""
        self._numbers += 1
        number = self._numbers if number is None else number
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, **params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: object) -> Json:
        """The answer to a request; nothing else may come before it but a question of the bridge."""
        number = self.begin(method, **params)
        answer = self.next()
        assert answer["id"] == number, answer
        return answer

    def result(self, method: str, **params: object) -> Json:
        return self.ask(method, **params)["result"]

    def refused(self, method: str, **params: object) -> Json:
        return self.ask(method, **params)["error"]

    def tool(self, name: str, **arguments: object) -> str:
        """The text of a call that succeeds."""
        text, failed = self.called(name, **arguments)
        assert not failed, text
        return text

    def failing(self, name: str, **arguments: object) -> str:
        """The text of a call that fails."""
        text, failed = self.called(name, **arguments)
        assert failed, text
        return text

    def called(self, name: str, **arguments: object) -> tuple[str, bool]:
        result = self.result("tools/call", name=name, arguments=arguments)
        (part,) = result["content"]
        return part["text"], result["isError"]

    def next(self) -> Json:
        """The next message that is no question."""
        while True:
            message = json.loads(self.line())
            if "method" not in message:
                return message
            self.asked.append(message)

    def line(self) -> bytes:
        """The next line; empty at the end."""
        out, end = self.process.stdout, time.monotonic() + PATIENCE_S
        while b"\n" not in self._read:
            assert select.select([out], [], [], max(end - time.monotonic(), 0))[0], "the bridge says nothing"
            if not (data := os.read(out.fileno(), 1 << 16)):
                assert not self._read
                return b""
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line

    def hang_up(self) -> int:
        """Close stdin; the exit code."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def complaints(self) -> str:
        """Return its stderr, after its end."""
        return self.process.stderr.read().decode()


@contextmanager
def started(
    directory: Path, env: Mapping[str, str] | None = None, *arguments: str, command: tuple[str, ...] = COMMAND
) -> Iterator[Agent]:
    """A bridge whose agent stands in a directory; gone at the end."""
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=directory,
        env=dict(os.environ if env is None else env),
    )
    with process:
        try:
            yield Agent(process)
        finally:
            process.kill()
