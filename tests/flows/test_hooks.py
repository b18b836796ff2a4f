"""Hooks of harnesses at a real daemon, as the processes that a harness starts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import Client, hook
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import DaemonProcess, running

WALRUS, TUSKS = "What does the walrus eat?", "How long do tusks grow?"


class Harness:
    """A session of one agent, which runs its hooks."""

    def __init__(self, daemon: DaemonProcess, repo: Path, name: str = "claude", session: str = "s") -> None:
        self._env = {"HOME": str(daemon.home), "FORGED_SOCKET": daemon.socket}
        self._name = name
        self._base = {"session_id": session, "cwd": str(repo)}

    def run(self, event: str, **fields: object) -> dict:
        """What a hook answers; nothing at all is an empty answer."""
        payload = {**self._base, "hook_event_name": event, **fields}
        done = subprocess.run(
            [sys.executable, "-I", "-S", hook.__file__, self._name],
            input=json.dumps(payload).encode(),
            env=self._env,
            capture_output=True,
            timeout=20,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return json.loads(done.stdout) if done.stdout else {}

    def prompt(self, text: str, turn: str = "") -> str:
        """What is injected for a prompt."""
        answer = self.run("UserPromptSubmit", prompt=text, prompt_id=turn or text)
        return context_of(answer)

    def stop(self, reply: str, turn: str, **fields: object) -> dict:
        return self.run("Stop", prompt_id=turn, last_assistant_message=reply, **fields)


def context_of(answer: dict) -> str:
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory) -> Iterator[DaemonProcess]:
    with running(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


@pytest.fixture
def client(daemon, repo) -> Iterator[Client]:
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    with daemon.client() as client:
        assert client.rebuild(str(repo), wait=True, timeout_s=20).status == "ok"
        yield client


def test_a_prompt_gets_its_memories_once(client, daemon, repo):
    claude = Harness(daemon, repo)

    first = claude.run("UserPromptSubmit", prompt=WALRUS, prompt_id="1")
    second = claude.run("UserPromptSubmit", prompt=TUSKS, prompt_id="2")

    assert first["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    text = context_of(first)
    assert "The walrus eats clams." in text
    assert "Tusks grow for life." in text
    assert text.count("<forged-memories ") == text.count("</forged-memories ") == 1
    assert second == {}


def test_a_turn_is_captured_when_it_ends(client, daemon, repo):
    claude = Harness(daemon, repo, session="captured")

    claude.prompt("From now on, always deploy on Fridays.", "t")
    assert claude.stop("Understood.", "t", stop_hook_active=True) == {}

    eventually(lambda: "Fridays" in " ".join(each.content for each in client.list(str(repo)).memories))
