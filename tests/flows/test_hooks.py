"""Hooks of harnesses at a real daemon, as the processes that a harness starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import Client, hook
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL, FORGED, DaemonProcess, Shell, processes_with, running

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
            cwd=self._base["cwd"],
            capture_output=True,
            timeout=PATIENCE_S,
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


@pytest.fixture
def client(daemon, repo) -> Iterator[Client]:
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    with daemon.client() as client:
        assert client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S).status == "ok"
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


def test_forgectl_does_the_same_for_a_person(client, daemon, repo):
    payload = {
        "session_id": "by-hand",
        "cwd": str(repo),
        "hook_event_name": "UserPromptSubmit",
        "prompt": WALRUS,
    }
    env = {"HOME": str(daemon.home), "FORGED_SOCKET": daemon.socket}

    def call(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        data = json.dumps(payload).encode()
        return subprocess.run(
            [FORGECTL, "hook", *arguments], input=data, env=env, capture_output=True, timeout=PATIENCE_S
        )

    done = call("claude")
    assert "clams" in context_of(json.loads(done.stdout))
    for wrong in ((), ("emacs",), ("claude", "codex"), ("--what",)):
        done = call(*wrong)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_person_who_gives_it_nothing_to_read_is_informed_what_it_wants(daemon, repo):
    code, said = Shell(daemon.home, daemon.socket, repo).on_terminal("hook", "claude")

    assert code == 2
    assert "forgectl hook AGENT < event.json" in said


def test_a_prompt_whose_turn_never_ends_is_judged_by_the_next_daemon(home, repo):
    with running(home) as daemon:
        claude = Harness(daemon, repo)
        claude.prompt("Remember that deploys happen on Fridays.", "1")
        daemon.stop()
        daemon.start()

        with daemon.client() as client:
            eventually(
                lambda: "Fridays" in " ".join(each.content for each in client.list(str(repo)).memories)
            )


def test_the_first_prompt_after_a_login_starts_the_daemon(home, repo):
    put(repo, memory("m0", "The walrus eats clams."))
    lexical = '[memory]\nembedding_model = "builtin:lexical"\n'
    daemon = DaemonProcess(home, config=lexical, command=(FORGED,))
    try:
        daemon.start()
        daemon.trust(repo)
        daemon.stop()
        claude = Harness(daemon, repo)

        first = claude.prompt(WALRUS, "1")
        with daemon.client() as client:
            eventually(lambda: client.ping().status == "ok")
        assert "clams" in (first or claude.prompt(f"{WALRUS} Really.", "2"))
    finally:
        for left in processes_with(daemon.socket):
            os.kill(left, signal.SIGTERM)
        eventually(lambda: not processes_with(daemon.socket))
        daemon.close()
