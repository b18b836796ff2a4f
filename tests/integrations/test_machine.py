"""Where an agent and forged lie on a machine, and which programs are never run."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from forged.integrations import agent_rows, machine_of


def test_hooks_run_this_interpreter_and_files_that_are_there(machine):
    python, *flags, hook, agent, _, _ = machine.hook_command("claude")

    assert python == sys.executable
    assert flags == ["-I", "-S"]
    assert os.path.isfile(hook)
    assert os.path.isfile(machine.bridge)
    assert agent == "claude"


def ended(machine):
    """Return exit code and output of an agent's shell that runs a hook."""
    run = ["/bin/sh", "-c", machine.hook_shell_line("claude")]
    payload = b'{"hook_event_name": "Stop"}'
    done = subprocess.run(run, input=payload, env={}, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("gone", ["python", "hook"])
def test_a_hook_of_which_a_part_is_gone_says_nothing_and_ends_well(machine, gone, tmp_path):
    """With another code some agents stop the turn."""
    fields = {gone: str(tmp_path / "old forged" / gone)}

    assert ended(machine) == (0, b"", b"")
    assert ended(msgspec.structs.replace(machine, **fields)) == (0, b"", b"")


def test_a_program_is_found_in_path_and_where_installers_put_it(machine, stand_in, home):
    path = stand_in("codex")
    next_to = stand_in("claude", folder=home / ".local/bin")

    assert machine.program("codex") == str(path)
    assert machine.program("claude") == str(next_to)
    assert machine.program("gemini") == ""


@pytest.mark.parametrize("where", ["node_modules/.bin", "."])
def test_a_program_of_the_repository_where_the_person_works_is_never_one(
    machine, stand_in, repo, programs, where
):
    """Neither by PATH nor by a link that lies elsewhere; one of the same name elsewhere is found."""
    hostile = stand_in("claude", folder=repo / where)
    environ = {**machine.environ, "PATH": f"{hostile.parent}:{programs}"}
    inside = msgspec.structs.replace(machine, environ=environ, workspace=str(repo / "src"))
    (repo / "src").mkdir()
    assert inside.program("claude") == ""

    (programs / "claude").symlink_to(hostile)
    assert inside.program("claude") == ""

    (programs / "claude").unlink()
    stand_in("claude")
    assert inside.program("claude") == str(programs / "claude")


def test_neither_a_folder_that_is_relative_nor_a_file_that_no_one_may_run_is_looked_at(
    machine, programs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (programs / "claude").write_text("#!/bin/sh\n")
    relative = msgspec.structs.replace(machine, environ={"PATH": f":.:programs:{programs}"})

    assert relative.program("claude") == ""


def test_a_home_that_is_a_repository_may_bring_its_own_programs(machine, stand_in, home):
    (home / ".git").mkdir()
    path = stand_in("claude", folder=home / ".local/bin")
    at_home = msgspec.structs.replace(machine, workspace=str(home))

    assert at_home.program("claude") == str(path)


def test_an_agents_own_variable_moves_its_folder(home, repo):
    environ = {
        "HOME": str(home),
        "CODEX_HOME": "/c",
        "GEMINI_CLI_HOME": "/g",
        "CLAUDE_CONFIG_DIR": "relative",
    }
    machine = machine_of(environ, str(repo))

    assert machine.folder(agent_rows()["codex"]) == "/c"
    assert machine.folder(agent_rows()["gemini"]) == "/g/.gemini"
    assert machine.folder(agent_rows()["claude"]) == f"{home}/.claude"
    assert machine.folder(agent_rows()["opencode"]) == f"{home}/.config/opencode"


def test_what_the_person_has_moved_is_known_by_its_variables(machine):
    moved = {
        **machine.environ,
        "FORGED_SOCKET": "/s/forged.sock",
        "XDG_STATE_HOME": "",
        "OPENAI_API_KEY": "sk",
    }

    assert machine.custom_locations == {}
    assert msgspec.structs.replace(machine, environ=moved).custom_locations == {
        "FORGED_SOCKET": "/s/forged.sock"
    }


def test_a_runtime_directory_is_moved_only_where_no_one_would_look(machine):
    usual, moved = ({"XDG_RUNTIME_DIR": place} for place in (f"/run/user/{os.geteuid()}/", "/srv/run"))

    assert msgspec.structs.replace(machine, environ=usual).custom_locations == {}
    assert msgspec.structs.replace(machine, environ=moved).custom_locations == moved
