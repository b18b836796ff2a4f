"""Whose words count as the user's: those from a terminal, and nothing that an agent's shell runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from forged_client import Client
from forged_client import protocol as wire
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Shell, on_disk
from tests.support.daemon.shell import FORGECTL
from tests.support.daemon.terminals import shell_of_its_own

RULE = "What this user wants; apply unless told otherwise now:"
QUESTION = [{"role": "user", "content": "How do we deploy, and where are the walruses?"}]
# Commands of forgectl that would write a text as the user's; `{folder}` has it, and claims that it was typed.
WRITES = {
    "remember": ["remember", "{text}"],
    "remember in user scope": ["remember", "--scope", "user", "{text}"],
    "edit": ["edit", "m0", "{text}"],
    "import of own files": ["import", "--mine", "--yes", "--scope", "repo", "{folder}/.forge/memory"],
}

MOVES = {"move to user scope": ["move", "{text}", "user"]}


@pytest.fixture
def shell(daemon, repo) -> Shell:
    put(repo, memory("m0", "The walruses are in the north."))
    with daemon.client() as client:
        assert client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S).status == "ok"
    return Shell(daemon.home, daemon.socket, repo)


def runs(shell: Shell, who: str, write: str, text: str, folder: Path) -> str:
    """Run forgectl as a person at a terminal, below an agent there, or without a terminal."""
    put(folder / "mine", replace(memory("m7", text), origin="typed"))
    words = (word.format(folder=folder / "mine", text=text) for word in (WRITES | MOVES)[write])
    command = f"{shlex.join([FORGECTL, *words])}; true"
    if who == "agent":
        agent = folder / "claude"
        agent.symlink_to("/bin/sh")
        command = f"{agent} -c {shlex.quote(command)}; true"
    shown = shell_of_its_own(command, on_terminal=who != "service", env=shell.env, folder=shell.directory)
    with shown as lines:
        return "\n".join(lines)


def is_wanted(shell: Shell, text: str, session_id: str = "s") -> bool:
    """True if a block has the text under the heading of the user, False if under another."""
    with Client(shell.socket) as client:
        client.rebuild(str(shell.directory), wait=True, timeout_s=PATIENCE_S)
        block = client.retrieve(str(shell.directory), QUESTION, session_id=session_id, mode="append").text
    assert f"] {text}\n" in block
    return f"] {text}\n" in block.partition(f"{RULE}\n")[2].partition("\nData")[0] + "\n"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("who", ["person", "agent", "service"])
def test_only_a_person_at_a_terminal_writes_under_the_first_heading(shell, tmp_path, who, write):
    text = f"We deploy with make {who}-{list(WRITES).index(write)}."
    shown = runs(shell, who, write, text, tmp_path)

    assert is_wanted(shell, text) == (who == "person"), shown
    if write != "import of own files":
        assert ("kept as written by an agent" in shown) == (who != "person")


@pytest.mark.parametrize("who", ["person", "agent", "service"])
def test_only_a_person_moves_a_memory_under_the_first_heading(shell, tmp_path, who):
    text = f"We deploy with make moved-{who}."
    runs(shell, "person", "remember", text, tmp_path)
    assert is_wanted(shell, text)
    (kept,) = (each for each in on_disk(shell.directory) if each.content == text)

    shown = runs(shell, who, "move to user scope", kept.id, tmp_path / who)

    assert is_wanted(shell, text, "later") == (who == "person"), shown
    assert ("kept as written by an agent" in shown) == (who != "person")


def test_a_text_of_an_agent_is_the_users_once_the_user_says_it(shell, tmp_path):
    """And an agent that says the user's words again takes nothing from them."""
    for number, (who, wanted) in enumerate([("agent", False), ("person", True), ("service", True)]):
        runs(shell, who, "remember", "We deploy with make again.", tmp_path)
        assert is_wanted(shell, "We deploy with make again.", f"s{number}") == wanted


def test_a_program_claims_no_more_than_its_process_shows(shell):
    text = "We deploy with make claims."
    with Client(shell.socket) as client:
        claimed = wire.Remember(workspace=str(shell.directory), content=text, origin="explicit")
        assert "kept as written by an agent" in client.ask(claimed).reason

    assert not is_wanted(shell, text)
