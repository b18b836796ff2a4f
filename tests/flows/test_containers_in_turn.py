"""One daemon after the other in two containers that share HOME and mean different folders by one path."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flows.test_handover import classify, known
from tests.support.clock import eventually
from tests.support.daemon import FREE, DaemonProcess, configuration, contents, on_disk
from tests.support.provider import CHAT, ScriptedProvider, reply

_BIND = 'mount --make-rprivate / && mount --bind "$1" "$2" && shift 2 && exec "$@"'
_CAPTURE = """
import sys
from forged_client import Client
with Client(sys.argv[1], timeout_s=60.0) as client:
    said = [{"role": "user", "content": sys.argv[3]}, {"role": "assistant", "content": "Noted."}]
    print(client.capture(sys.argv[2], said, sys.argv[4], kind=sys.argv[5]).outcome)
"""


def _may_mount() -> bool:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None or os.geteuid():
        return False
    return subprocess.run(("unshare", "-m", "true"), capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not _may_mount(), reason="a mount namespace needs root, unshare and nsenter"),
]


class Containers:
    """Folders of which each is at `workspace` in a mount namespace of its own."""

    def __init__(self, home: Path, below: Path, provider: ScriptedProvider) -> None:
        self.home, self.provider = home, provider
        self.workspace = below / "workspaces/app"
        self.workspace.mkdir(parents=True)
        self._below = below

    def folder(self, name: str) -> Path:
        """A repository on the host."""
        top = self._below / name
        top.mkdir(exist_ok=True)
        if not (top / ".git").exists():
            subprocess.run(("git", "init", "-q", str(top)), check=True, env={"PATH": os.environ["PATH"]})
        return top

    @contextlib.contextmanager
    def container(self, folder: Path) -> Iterator[DaemonProcess]:
        """A daemon for which `folder` is at the workspace's path."""
        inside = ("unshare", "-m", "sh", "-c", _BIND, "sh", str(folder), str(self.workspace))
        daemon = DaemonProcess(
            self.home,
            config=configuration(self.provider, embedding_model="builtin:lexical", classifier_model="m"),
            env=FREE,
            command=(*inside, sys.executable, "-m", "forged"),
        )
        try:
            daemon.start()
            yield daemon
            if daemon.process is not None and daemon.process.poll() is None:
                daemon.stop()
            assert "Traceback" not in daemon.log(), daemon.log()
        finally:
            daemon.close()

    def capture(self, daemon: DaemonProcess, text: str, session: str, kind: str) -> str:
        """Hand over a turn by a client in the daemon's namespace; the outcome."""
        asked = (daemon.socket, str(self.workspace), text, session, kind)
        done = subprocess.run(
            ("nsenter", "-m", f"-t{daemon.pid}", sys.executable, "-c", _CAPTURE, *asked),
            env=daemon.env,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()


@pytest.fixture
def containers(home: Path, tmp_path: Path) -> Iterator[Containers]:
    with ScriptedProvider(dimension=3) as provider:
        yield Containers(home, tmp_path, provider)


def waits_for(daemon: DaemonProcess) -> list[tuple[str, int]]:
    with daemon.client(trusts=False) as client:
        return [(each.root, each.events) for each in client.status().capture.elsewhere]


def settled(daemon: DaemonProcess) -> None:
    """Nothing waits, and nothing is in hand."""
    with daemon.client(trusts=False) as client:
        eventually(lambda: client.status().capture.state == "idle")


def left_behind(containers: Containers, folder: Path, kind: str) -> None:
    """A daemon takes a turn in its container and ends before the classifier has said a word."""
    go = threading.Event()
    containers.provider.chat = replace(reply(), hold=go)
    try:
        with containers.container(folder) as daemon:
            taken = containers.capture(daemon, "Remember fact-one of this project.", "s1", kind)
            assert taken in {"durable", "accepted"}
            containers.provider.wait_for(1, path=CHAT)
            if kind == "turn":
                daemon.stop()
            else:
                daemon.kill()
    finally:
        go.set()
    containers.provider.received.clear()
    containers.provider.chat = classify


@pytest.mark.parametrize("kind", ["turn", "compaction", "session_end"])
def test_a_turn_of_one_container_waits_in_the_other_and_is_written_once_at_home(containers, kind):
    mine, other = containers.folder("a"), containers.folder("b")
    left_behind(containers, mine, kind)

    with containers.container(other) as daemon:
        eventually(lambda: waits_for(daemon) == [(str(containers.workspace), 1)])
        assert containers.capture(daemon, "Remember fact-two.", "s1", "compaction") == "durable"
        eventually(lambda: contents(on_disk(other)) == [known("fact-two")])
        with daemon.client(trusts=False) as client:
            (waiting,) = client.dead().events
            refused = client.dead("retry", [waiting.id])
            status = client.status()
        asked = [request.json["messages"][-1]["content"] for request in containers.provider.requests(CHAT)]
    assert (waiting.waits, waiting.root) == (True, str(containers.workspace))
    assert "another folder is at this path now" in refused.reason
    assert status.state == "degraded"
    assert [text for text in asked if "fact-one" in text] == []
    assert on_disk(mine) == []

    for _ in range(2):
        with containers.container(mine) as daemon:
            eventually(lambda: contents(on_disk(mine)) == [known("fact-one")])
            settled(daemon)
            assert waits_for(daemon) == []
    assert contents(on_disk(other)) == [known("fact-two")]
    assert on_disk(containers.workspace) == []


def test_what_waits_for_a_folder_is_dropped_by_its_id_alone(containers):
    left_behind(containers, containers.folder("a"), "compaction")

    with containers.container(containers.folder("b")) as daemon, daemon.client(trusts=False) as client:
        (waiting,) = eventually(lambda: client.dead().events)
        assert client.dead("drop").events == ()  # all that were given up: none
        assert [each.id for each in client.dead("drop", [waiting.id]).events] == [waiting.id]
        assert waits_for(daemon) == []
    with containers.container(containers.folder("a")) as daemon:
        settled(daemon)
    assert on_disk(containers.folder("a")) == on_disk(containers.folder("b")) == []
