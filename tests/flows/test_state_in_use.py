"""Causes of an unreadable state: each has its own message, and none is called a pause."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.state import database
from forged_client.protocol import Hook
from tests.data.memories import memory, put
from tests.mcp.agent import started
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess, Shell, running

pytestmark = pytest.mark.long

TEXT = "Ports start at 9000."
CALLED = ("paused", "withheld", "until the user decides")
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Where do our ports start?"}


@pytest.fixture
def left(home: Path, repo: Path) -> Path:
    """The state directory of a daemon that wrote a memory and ended."""
    with running(home) as daemon, daemon.client(trusts=False) as client:
        assert client.remember(str(repo), TEXT, scope="repo").status == "ok"
        assert client.remember(str(repo), "Answer in English.", scope="user").status == "ok"
    return home / ".local/state/forged"


@contextlib.contextmanager
def in_use(state: Path, home: Path) -> Iterator[str]:
    with running(home) as first:
        eventually((state / "state.db.holder").exists, PATIENCE_S)
        yield f"another daemon of yours (pid {first.pid}, socket {first.socket}) has {state}/state.db open"


@contextlib.contextmanager
def a_directory(state: Path, home: Path) -> Iterator[str]:
    (state / "state.db").rename(home / "kept")
    (state / "state.db").mkdir()
    yield f"cannot use {state}/state.db: Is a directory"


@contextlib.contextmanager
def a_pipe(state: Path, home: Path) -> Iterator[str]:
    (state / "state.db").rename(home / "kept")
    os.mkfifo(state / "state.db")
    yield f"{state}/state.db is not a regular file of this user"


@contextlib.contextmanager
def newer(state: Path, home: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(state / "state.db")) as connection, connection:
        connection.isolation_level = None
        database.put(connection, "meta", "version", "999")
    yield "newer"


@contextlib.contextmanager
def older(state: Path, home: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(state / "state.db")) as connection, connection:
        connection.isolation_level = None
        database.put(connection, "meta", "version", str(database.FORMAT - 1))
    yield "state.db is of an older forged"


@contextlib.contextmanager
def damaged(state: Path, home: Path) -> Iterator[str]:
    (state / "state.db").write_bytes(b"noise" * 4096)
    yield "state.db was damaged"


CAUSES = {
    "in use": in_use,
    "a directory": a_directory,
    "a pipe": a_pipe,
    "newer": newer,
    "older": older,
    "damaged": damaged,
}


def hooked(daemon: DaemonProcess, repo: Path, session: str) -> str:
    with daemon.client(trusts=False) as client:
        payload = json.dumps({**PROMPT, "session_id": session, "cwd": str(repo)}).encode()
        return client.ask(Hook(harness="claude", payload=payload)).output.decode()


@pytest.mark.parametrize("cause", CAUSES)
def test_each_surface_says_the_cause_and_never_a_pause(left, home, repo, cause):
    with CAUSES[cause](left, home) as why, running(home) as daemon:
        shell = Shell(home, daemon.socket, repo)
        eventually(lambda: why in shell.run("status").out, PATIENCE_S)
        shell.run("rebuild", "--wait")
        status = shell.run("status").out
        details = shell.run("status", "--all").out
        said = {
            "retrieve": shell.run("retrieve", "Where do our ports start?").err,
            "doctor": shell.run("doctor").out,
            "first line of status": status.partition("\n")[0],
            "capture": next(line for line in details.splitlines() if "  capture  " in line),
        }
        whole = [status, details, shell.run("list").err, shell.run("search", "ports").err]
        if cause not in ("damaged", "older"):  # then a new file takes its place, and writing goes on
            said |= {
                "remember": shell.run("remember", "Use tabs.").err,
                "trust": shell.run("trust", "--yes").err,
            }
            said["after a refusal"] = shell.run("status").out.partition("\n")[0]
        with started(repo, daemon.env) as agent:
            said["memory_status"] = agent.tool("memory_status")
        said["hook"], again = hooked(daemon, repo, "s1"), hooked(daemon, repo, "s1")

    assert {name: why in text.replace("\\/", "/") for name, text in said.items()} == dict.fromkeys(
        said, True
    ), said
    assert [word for word in CALLED for text in (*whole, *said.values()) if word in text.lower()] == []
    assert said["capture"].startswith("FAILING")
    assert again == ""


def test_when_the_other_daemon_ends_the_second_takes_over_and_says_nothing_more(left, home, repo):
    with running(home) as first, running(home) as second:
        shell = Shell(home, second.socket, repo)
        reported = f"another daemon of yours (pid {first.pid}, socket {first.socket})"
        eventually(lambda: reported in shell.run("status").out, PATIENCE_S)
        put(repo, memory("mem_foreign", "Ports are the marsupial's."))
        refused, undecided = shell.run("remember", "Use tabs."), shell.run("trust", "--yes")
        helps = shell.run("status").out.partition("`FORGED_SOCKET=")[2].partition("`")[0]
        socket, _, command = helps.partition(" ")
        ended = Shell(home, socket, repo).run(*command.split()[1:])
        eventually(lambda: TEXT in shell.run("retrieve", "Where do our ports start?").out, PATIENCE_S)
        after = shell.run("status").out
        review = shell.run("review").out
        written = shell.run("remember", "Use tabs.")

    assert (refused.code, reported in refused.err, ended.code) == (69, True, 0)
    assert (undecided.code, reported in undecided.err) == (69, True)
    assert "mem_foreign" in review, "what could not be put on record is decided all the same"
    assert "; no problems\n" in after, after
    assert not any(word in after for word in (reported, "NOT USED", "FAILING", "was refused"))
    assert written.code == 0
