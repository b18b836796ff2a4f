"""Two protocols: each surface says so in one sentence, and goes on.

The other one is a copy of the whole program that counts one version further. Each is client and daemon once.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import forged
import forged_client
from forged_client.protocol import PROTOCOL_VERSION
from tests.mcp import agent
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess

LATER = PROTOCOL_VERSION + 1
# As whoever counts the version further has to, for tests hold these frames against the protocol.
_SPOKEN = rf"\xacprotocol_min\x0{LATER}\xacprotocol_max\x0{LATER}"
_CHANGED = {
    "forged_client/protocol.py": ((f"PROTOCOL_VERSION = {PROTOCOL_VERSION}", f"PROTOCOL_VERSION = {LATER}"),),
    "forged_client/hook.py": ((r'HELLO = b"\x84\xa4type', rf'HELLO = b"\x86{_SPOKEN}\xa4type'),),
    "forged/cli/fast.py": (
        (r'HELLO = b"\x83\xa4type', rf'HELLO = b"\x85{_SPOKEN}\xa4type'),
        (rf'b"\xa8protocol\x0{PROTOCOL_VERSION}"', rf'b"\xa8protocol\x0{LATER}"'),
    ),
}
PROMPT = {"session_id": "s", "source": "startup", "prompt": "hi"}


class Installation:
    """A program under a path of its own."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.env = {"PYTHONPATH": str(top)}

    def run(self, *words: str, env: Mapping[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.top,
            env={**env, **self.env},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def forgectl(self, *words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        line = 'import sys; sys.argv[0] = "forgectl"; from forged.cli import main; main()'
        return self.run(sys.executable, "-c", line, *words, env=env)

    def hook(self, event: str, *, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        program = f"{self.top}/forged_client/hook.py"
        given = json.dumps({**PROMPT, "hook_event_name": event, "cwd": str(self.top)})
        return self.run(sys.executable, "-I", "-S", program, "claude", env=env, given=given)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, Installation]:
    """Both, by what they are to each other."""
    found = {}
    for name in ("older", "newer"):
        top = tmp_path_factory.mktemp(name)
        for package in (forged, forged_client):
            shutil.copytree(
                Path(package.__file__).parent,
                top / package.__name__,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        found[name] = Installation(top)
    for file, changes in _CHANGED.items():
        path = found["newer"].top / file
        text = path.read_text()
        for before, after in changes:
            assert text.count(before) == 1, (file, before)
            text = text.replace(before, after)
        path.write_text(text)
    return found


@contextlib.contextmanager
def serving(home: Path, installation: Installation) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(home, env=installation.env)
    try:
        daemon.start()
        yield daemon
        assert "Traceback" not in daemon.log(), daemon.log()
    finally:
        daemon.close()


@pytest.mark.parametrize(("of_client", "of_daemon"), [("older", "newer"), ("newer", "older")])
def test_each_surface_says_in_one_sentence_that_the_other_speaks_another_protocol(
    installed, home, repo, of_client, of_daemon
):
    ours, numbers = installed[of_client], {"older": PROTOCOL_VERSION, "newer": LATER}
    reported = f"this daemon speaks protocol {numbers[of_daemon]}, the client {numbers[of_client]} to"
    with serving(home, installed[of_daemon]) as daemon:
        env = {**daemon.env, "FORGED_WORKSPACE": str(repo)}
        shells = {
            words: ours.forgectl(*words.split(), env=env)
            for words in ("ping", "status", "retrieve x", "search x", "list")
        }
        hooks = {each: ours.hook(each, env=env) for each in ("SessionStart", "UserPromptSubmit", "Stop")}
        program = (*agent.COMMAND[:-1], f"{ours.top}/forged/mcp/bridge.py")
        with agent.started(repo, env, command=program) as bridge:
            searched = bridge.failing("search_memories", query="x", hypotheses=["Walruses swim."])
            alive = bridge.result("ping")

    for words, done in shells.items():
        assert reported in done.stderr, (words, done)
        assert "Traceback" not in done.stderr
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (69, "", 1), (words, done)
    notice = json.loads(hooks["SessionStart"].stdout)["systemMessage"]
    assert notice.startswith("forged has no memory in this session: ")
    assert reported in notice
    assert "\n" not in notice
    assert [(done.returncode, done.stderr) for done in hooks.values()] == [(0, "")] * 3
    assert [hooks[each].stdout for each in ("UserPromptSubmit", "Stop")] == ["", ""]
    assert reported in searched
    assert "\n" not in searched
    assert alive == {}
