"""SIGTERM under four writers: what is on disk was answered, and what was answered is on disk."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from forged_client import framing, protocol
from tests.faults.amount import times
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, running

_ROUNDS, _WRITERS, _AHEAD = times(30, 4), 4, 8
_SAID = re.compile(r"Fact \d+ of writer \d+ in round \d+\.")


class Writer(threading.Thread):
    """Writes as fast as it is answered, some requests ahead, until the daemon hangs up."""

    def __init__(self, daemon: DaemonProcess, workspace: str, number: int, round_: int) -> None:
        super().__init__(daemon=True)
        self.answered: set[str] = set()
        self.refused: list[str] = []
        self._workspace = workspace
        self._name = f"of writer {number} in round {round_}."
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(daemon.socket)
        self._socket.sendall(framing.encode(protocol.Hello(id=0)))

    def run(self) -> None:
        sent = 1
        with self._socket, contextlib.suppress(ConnectionError):
            for reply in self._replies():
                with contextlib.suppress(ConnectionError):  # what was answered can still be read
                    while sent <= reply.id + _AHEAD:
                        self._socket.sendall(framing.encode(self._fact(sent)))
                        sent += 1
                if isinstance(reply, protocol.Remembered) and reply.status == "ok":
                    self.answered.add(self._fact(reply.id).content)
                elif not isinstance(reply, protocol.Welcome):
                    self.refused.append(str(reply))

    def _fact(self, number: int) -> protocol.Remember:
        return protocol.Remember(id=number, workspace=self._workspace, content=f"Fact {number} {self._name}")

    def _replies(self) -> Iterator[protocol.Reply]:
        frames = framing.FrameCutter(protocol.MAX_REPLY_BYTES)
        while got := self._socket.recv_into(frames.room()):
            frames.held += got
            while (body := frames.take()) is not None:
                yield framing.decode_reply(body)


def test_every_write_on_disk_was_answered(place: Path, promised) -> None:
    home, repo = place / "home", place / "repo"
    (repo / ".git").mkdir(parents=True)
    home.mkdir()
    chance, answered, slowest = random.Random(7), set[str](), 0.0
    with running(home) as daemon:
        for round_ in range(_ROUNDS):
            writers = [Writer(daemon, str(repo), number, round_) for number in range(_WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.02, 0.3))  # the strike may come at any time
            since = time.monotonic()
            assert daemon.stop() == 0
            slowest = max(slowest, time.monotonic() - since)
            for writer in writers:
                writer.join(PATIENCE_S)
                answered |= writer.answered
                assert writer.refused == []
            assert answered == _on_disk(repo)
            daemon.start()
    assert len(answered) >= _ROUNDS
    promised(
        "SIGTERM under four writers: every write on disk was answered",
        _ROUNDS,
        f"{len(answered)} writes, at most {slowest:.2f} s",
    )


def _on_disk(repo: Path) -> set[str]:
    """What the memory files say, but for one that is not whole."""
    files = (repo / ".forge/memory").glob("*.md")
    return {said for file in files for said in _SAID.findall(file.read_text())}
