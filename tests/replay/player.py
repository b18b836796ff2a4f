"""Sends requests as plain maps over the socket and records replies that are equal in each run.

Out: for each request its reply, and for each look at the disk the bytes of the memory files. A word replaces
times, timings and digests, and a name each folder. Ids stay, as the daemon's generator of ids is seeded.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from forged_client import hook
from tests.replay import renamed
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess

SEEDED = (sys.executable, str(Path(__file__).with_name("seeded.py")))
_TIMINGS = {"elapsed_ms", "embedding_ms", "pid", "epoch", "generation", "id", "build"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?")
_CLOCK = re.compile(r"\b\d\d:\d\d(?::\d\d)?\b")
_DIGEST = re.compile(r"\b(?:[0-9a-f]{32,64}|[0-9a-f]{16})\b|(?<=forged-memories )[0-9a-f]{8}\b")


class Player:
    """One connection to the daemon, and the folders that the story takes place in."""

    def __init__(self, daemon: DaemonProcess, repo: Path, other: Path) -> None:
        self.repo, self.other, self.home = repo, other, daemon.home
        self.record: list[dict[str, Any]] = []
        self._daemon = daemon
        self._folders = {str(repo): "REPO", str(other): "OTHER", str(daemon.home): "HOME"}
        self._generation = ""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(daemon.socket)
        self._number = 0
        self._send("hello", client="replay", version="0")

    def close(self) -> None:
        self._socket.close()

    def ask(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Send one request, write its reply down, and return that as it came."""
        name, given = renamed.request(kind, fields)
        reply = self._send(name, **given)
        self.record.append({"asked": kind, "reply": self._plain(reply)})
        return reply

    def written(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """The same, and wait until what it changed can be found."""
        reply = self.ask(kind, **fields)
        if reply.get("generation"):
            self.seen(str(fields.get("workspace") or self.repo))
        return reply

    def hook(self, agent: str, payload: bytes) -> None:
        """Run the hook of an agent as that does, and write down what it prints."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", hook.__file__, agent],
            input=payload,
            env={"HOME": str(self.home), "FORGED_SOCKET": self._daemon.socket},
            cwd=self.repo,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        printed = done.stdout.decode() + done.stderr.decode()
        self.record.append({"asked": "hook", "reply": [done.returncode, self._text(printed)]})

    def seen(self, workspace: str) -> None:
        """Wait until the map holds what the disk does; not written down."""
        self._send("rebuild", workspace=workspace, wait=True)

    def pieces(self, count: int) -> None:
        """Wait until the map of documents holds so many pieces; not written down."""

        def are_there() -> bool:
            roots = self._send("status", workspace=str(self.repo))["roots"]
            return [each["memories"] for each in roots if each["scope"] == "org"] == [count]

        eventually(are_there)

    def captured(self) -> None:
        """Wait until nothing of what was handed over waits any more; not written down."""

        def is_idle() -> bool:
            capture = self._send("status", workspace=str(self.repo))["capture"]
            return capture["state"] == "idle" and not capture["turns"] and not capture["in_hand"]

        eventually(is_idle)
        for workspace in (self.repo, self.other):
            self.seen(str(workspace))

    def look(self) -> None:
        """Write down the memory files under the three folders: their names and bytes."""
        files = {}
        for top in (self.repo, self.other, self.home):
            for path in sorted((top / ".forge").rglob("*.md")):
                files[self._text(str(path))] = self._text(path.read_text())
        self.record.append({"asked": "files", "reply": files})

    def _send(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        self._number += 1
        body = msgspec.msgpack.encode({"type": kind, "id": self._number, **fields})
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        reply = msgspec.msgpack.decode(self._receive(int.from_bytes(self._receive(4), "big")))
        assert isinstance(reply, dict)
        assert reply["id"] == self._number, reply
        return reply

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part, f"the daemon hung up\n{self._daemon.log()}"
            data += part
        return data

    def _plain(self, value: Any) -> Any:
        """A value without what differs from run to run."""
        if isinstance(value, dict):
            return {
                name: self._plain(each)
                for name, each in value.items()
                if name not in _TIMINGS or _names(value)
            }
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, bytes):
            return self._plain(value.decode())
        if isinstance(value, float):
            return round(value, 5)
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for folder, name in self._folders.items():
            text = text.replace(folder, name)
        return _DIGEST.sub("DIGEST", _CLOCK.sub("CLOCK", _TIME.sub("TIME", text)))


def _names(value: dict[str, Any]) -> bool:
    """Return True for a memory or a part of one, of which the id counts."""
    return "type" not in value
