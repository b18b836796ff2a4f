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
from forged_client.protocol import ListCaptured, Remember
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import (
    FORGECTL,
    FORGED,
    DaemonProcess,
    Shell,
    on_disk,
    processes_with,
    running,
)
from tests.support.git import git

WALRUS, TUSKS = "What does the walrus eat?", "How long do tusks grow?"


class Harness:
    """A session of one agent, which runs its hooks."""

    def __init__(self, daemon: DaemonProcess, repo: Path, name: str = "claude", session: str = "s") -> None:
        self._env = {"HOME": str(daemon.home), "FORGED_SOCKET": daemon.socket}
        self._name = name
        self._base = {"session_id": session, "cwd": str(repo)}

    def run(self, event: str, *signs: str, **fields: object) -> dict:
        """What a hook answers; nothing at all is an empty answer. `signs` are words of its command line."""
        payload = {**self._base, "hook_event_name": event, **fields}
        done = subprocess.run(
            [sys.executable, "-I", "-S", hook.__file__, self._name, *signs],
            input=json.dumps(payload).encode(),
            env={**self._env, "RUN_BY": "script"},
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


# --- talking to the memory --------------------------------------------------------------------------------

ORION, TABS = "The staging database is called orion.", "The owner of the staging host is Nora."


@pytest.fixture
def own(daemon, tmp_path) -> Path:
    """A repository with two memories in the person's own words."""
    top = tmp_path / "own"
    top.mkdir()
    git(top, "init", "-q")
    daemon.trust(top)
    for text in (ORION, TABS):
        Shell(daemon.home, daemon.socket, top).run_as_person("remember", text)
    return top


def left(daemon: DaemonProcess, top: Path) -> list[str]:
    return sorted(each.content for each in on_disk(top))


def told(answer: dict) -> str:
    return answer.get("systemMessage", "")


def test_a_prompt_forgets_the_memory_that_it_means_tells_it_and_undo_brings_it_back(daemon, own):
    claude = Harness(daemon, own, session="forgets")
    (orion,) = (each for each in on_disk(own) if each.content == ORION)

    answer = claude.run(
        "UserPromptSubmit", prompt="Forget that the staging database is orion.", prompt_id="1"
    )
    claude.stop("Done.", "1")

    assert told(answer) == (
        f'forged: forgotten: "{ORION}"; undo within 7 days: `forgectl restore {orion.id}`'
    )
    assert left(daemon, own) == [TABS]
    assert told(claude.run("UserPromptSubmit", prompt="How do tusks grow?", prompt_id="2")) == ""
    with daemon.client() as client:
        newest, *_ = client.ask(ListCaptured(workspace=str(own))).captured
        assert (newest.why, newest.memory_id, newest.text) == ("forgotten", orion.id, "")
    shell = Shell(daemon.home, daemon.socket, own)
    assert f"undo: forgectl restore {orion.id}" in shell.run("captured").out
    assert shell.run("undo", "--yes").out.splitlines()[0] == f"restored: {orion.id}"
    assert left(daemon, own) == [TABS, ORION]
    assert shell.run("undo", "--yes").out == ""


def test_a_library_and_a_script_forget_nothing_by_what_they_say(daemon, own):
    said = "Forget that the staging database is called orion."
    claude = Harness(daemon, own, session="headless")

    claude.run("UserPromptSubmit", "--headless=RUN_BY=script", prompt=said, prompt_id="1")
    claude.run("Stop", "--headless=RUN_BY=script", prompt_id="1", last_assistant_message="Done.")
    with daemon.client() as client:
        client.capture(str(own), [{"role": "user", "content": said}], "library", kind="session_end")
        eventually(lambda: client.status().capture.state == "idle")

    assert left(daemon, own) == [TABS, ORION]


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("Forget what I said about staging.", "is one of several that may be meant"),
        ("```\nForget that the staging database is called orion.\n```\nWhat does this do?", ""),
        ("Don't forget that the staging database is called orion.", ""),
        ("Forget that database, we use files. Run the staging tests.", ""),
        ("That's wrong, the staging database is called lyra.", ""),
    ],
)
def test_a_prompt_that_means_no_memory_for_certain_forgets_none(daemon, own, said, reported):
    claude = Harness(daemon, own, session=said)

    assert reported in told(claude.run("UserPromptSubmit", prompt=said, prompt_id="1"))
    assert left(daemon, own) == [TABS, ORION]


@pytest.mark.parametrize(
    ("reply", "said", "gone"),
    [
        (f"1. {TABS}\n2. {ORION}", "The second one is outdated, drop it from memory.", [ORION]),
        (f"1. {TABS}\n2. {ORION}", "Forget the first one.", [TABS]),
        (f"You told me this: {ORION}", "Forget that one.", [ORION]),
        (f"1. {TABS}\n2. {ORION}", "Forget the one about the owner.", [TABS]),
        (f"1. {TABS}\n2. {ORION}", "Forget that one.", []),
        ("1. Run the tests.\n2. Read the log.", "Forget the second one.", []),
        (f"1. {TABS}\n2. {ORION}", "Forget that endpoint.", []),
        (f"1. {TABS}\n2. {ORION}", "Never mind, forget it.", []),
        (f"1. {TABS}\n2. {ORION}", "The second one is wrong, the database is called lyra.", []),
    ],
)
def test_a_prompt_that_points_to_a_memory_of_the_session_forgets_it(daemon, own, reply, said, gone):
    claude = Harness(daemon, own, session="points")
    shown = claude.prompt("What do you remember about the staging host and database?", "1")
    assert TABS in shown
    assert ORION in shown
    claude.stop(reply, "1")

    answer = told(claude.run("UserPromptSubmit", prompt=said, prompt_id="2"))
    # A slow machine forgets it behind the reply, and the next one says so.
    eventually(lambda: left(daemon, own) == sorted({TABS, ORION} - {*gone}))
    answer += told(claude.run("UserPromptSubmit", prompt="How do tusks grow?", prompt_id="3"))

    assert left(daemon, own) == sorted({TABS, ORION} - {*gone})
    assert [text for text in (TABS, ORION) if f'forgotten: "{text}"; undo within 7 days' in answer] == gone


@pytest.mark.parametrize("sign", [(), ("--headless=RUN_BY=script",)])
def test_what_points_without_a_question_before_or_in_a_script_forgets_nothing(daemon, own, sign):
    claude = Harness(daemon, own, session="unasked")
    question = (
        "What do you remember about the staging database?" if sign else "Where is the staging database?"
    )
    claude.run("UserPromptSubmit", *sign, prompt=question, prompt_id="1")
    claude.run("Stop", *sign, prompt_id="1", last_assistant_message=ORION)

    claude.run("UserPromptSubmit", *sign, prompt="Forget that one.", prompt_id="2")

    assert left(daemon, own) == [TABS, ORION]


def test_what_an_agent_wrote_or_git_tracks_is_named_and_stays(daemon, own):
    with daemon.client() as client:
        by_agent = client.ask(Remember(workspace=str(own), content="The linter is called sirius.")).memory_id
    git(own, "add", "-f", ".")
    git(own, "commit", "-qm", "all")
    claude = Harness(daemon, own, session="named")

    for number, (name, text) in enumerate(
        (("linter is called sirius", by_agent), ("staging database is called orion", "mem_"))
    ):
        answer = claude.run("UserPromptSubmit", prompt=f"Forget that the {name}.", prompt_id=str(number))
        assert "not forgotten yet" in told(answer)
        assert f"`forgectl forget {text}" in told(answer)
    assert len(left(daemon, own)) == 3


def test_a_message_forgets_one_memory_at_most(daemon, own):
    claude = Harness(daemon, own, session="two")
    said = "Forget that the staging database is called orion. Forget that the owner of the host is Nora."

    first, second = told(claude.run("UserPromptSubmit", prompt=said, prompt_id="1")).splitlines()

    assert first.startswith(f'forged: forgotten: "{ORION}"')
    assert second.startswith(f'forged: not forgotten yet: "{TABS}"')
    assert left(daemon, own) == [TABS]


def test_a_question_to_the_memory_brings_what_it_has_and_changes_nothing(daemon, own):
    with daemon.client() as client:
        for number in range(40):
            client.ask(
                Remember(
                    workspace=str(own),
                    content=f"Service s{number} logs to file f{number}.",
                    origin="explicit",
                )
            )
        assert client.rebuild(str(own), wait=True, timeout_s=PATIENCE_S).status == "ok"
    claude = Harness(daemon, own, session="asks")

    text = claude.prompt("What do you remember about Nora?")

    assert text.index(TABS) < text.index("> Service") if "> Service" in text else TABS in text
    assert len(left(daemon, own)) == 42


def test_what_an_agent_remembers_of_the_persons_words_is_no_second_memory(daemon, own):
    said = "From now on we deploy on Tuesdays at nine."
    claude = Harness(daemon, own, session="twins")
    claude.prompt(said, "1")
    with daemon.client() as client:
        client.remember(str(own), "The team deploys on Tuesdays at nine.", cues=["shipping a release"])
    claude.stop("Noted.", "1")

    def own_words() -> list:
        return [each for each in on_disk(own) if "Tuesdays" in each.content and each.origin == "typed"]

    (kept,) = eventually(own_words)
    with daemon.client() as client:
        client.rebuild(str(own), wait=True)  # as the file is there before the map has it
        live = [each for each in client.list(str(own)).memories if "Tuesdays" in each.content]
    assert [each.id for each in live if each.is_head] == [kept.id]
    assert kept.cues == ("shipping a release", "The team deploys on Tuesdays at nine.")
