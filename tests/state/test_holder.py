"""The daemon that has the file open, by a record that counts while its writer lives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.errors import StoreError
from forged.state import State, holder
from forged.state.database import Database, connect
from forged.state.holder import in_use_message
from tests.state.conftest import a_governor, event, opened
from tests.support.clock import eventually, later

SOCKET = "/run/user/7/forged/forged.sock"
UNKNOWN = "another program has "
HOLDING = """
import sys, time
from forged.state.holder import Holder
holder = Holder(*sys.argv[1:])
holder.sign()
print("signed", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def holding(path: Path, address: str = SOCKET) -> Iterator[subprocess.Popen[str]]:
    """Another process that says that it has the file open."""
    command = [sys.executable, "-c", HOLDING, str(path), address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "signed\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(directory: Path) -> Path:
    directory.mkdir()
    return directory / "state.db"


def record(path: Path) -> Path:
    return path.with_name(path.name + holder.SUFFIX)


async def test_a_second_daemon_says_who_has_the_file_and_takes_over_when_that_one_ends(
    directory, monkeypatch
):
    monkeypatch.setattr("forged.state.database._BUSY_S", 0.1)
    first = State(str(directory), a_governor(), SOCKET)
    await first._open()
    await first.pauses.set("/srv/repo", True)
    async with opened(directory) as second:
        reported = (
            f"another daemon of yours (pid {os.getpid()}, socket {SOCKET}) has {directory}/state.db open"
        )
        assert second.problem.startswith(reported)
        assert second.problem.endswith(f"or end it: `FORGED_SOCKET={SOCKET} forgectl stop`")
        assert (second.trouble, second.warnings) == (second.problem, (second.problem,))
        assert (second.pauses.reason(()), second.pauses.listed()) == (second.problem, ())
        with pytest.raises(StoreError, match="another daemon of yours"):
            await second.events.put(event())

        await first.close()
        await later(5.1)
        await asyncio.wait_for(second.events.restored.wait(), 60)
        assert (second.trouble, second.warnings, second.pauses.listed()) == ("", (), ("/srv/repo",))
        assert json.loads(record(directory / "state.db").read_bytes())["pid"] == os.getpid()
    assert not record(directory / "state.db").exists()


def test_the_record_is_for_its_owner_alone_and_gone_with_it(path):
    before = os.umask(0)
    try:
        one = holder.Holder(str(path), SOCKET)
        one.sign()
    finally:
        os.umask(before)
    assert record(path).stat().st_mode & 0o777 == 0o600
    one.release()
    assert not record(path).exists()


def test_what_a_killed_daemon_left_is_not_believed_and_the_next_one_writes_anew(path):
    with holding(path, "/old.sock") as process:
        assert f"(pid {process.pid}, socket /old.sock)" in in_use_message(str(path))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert record(path).exists()
        assert in_use_message(str(path)).startswith(UNKNOWN)
    with holding(path) as process:
        assert f"(pid {process.pid}, socket {SOCKET})" in in_use_message(str(path))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"pid": 1}',
        b"\xff",
        b"[" * 9000,
        b'{"pid":1,"socket":"\\u001b[2J","place":"","host":""}',
    ],
)
def test_a_record_that_says_less_or_something_odd_is_none(path, data):
    with holding(path):
        record(path).write_bytes(data)
        assert in_use_message(str(path)).startswith(UNKNOWN)


def test_a_link_a_pipe_and_a_second_name_are_neither_read_nor_written(path, tmp_path):
    victim = tmp_path / "victim"
    for make in (
        lambda: record(path).symlink_to(victim),
        lambda: os.link(victim, record(path)),
        lambda: os.mkfifo(record(path)),
    ):
        victim.write_text("mine")
        make()
        one = holder.Holder(str(path), SOCKET)
        one.sign()
        assert in_use_message(str(path)).startswith(UNKNOWN)
        one.release()
        assert victim.read_text() == "mine"
        record(path).unlink()


@pytest.mark.parametrize("place", ["another boot", "pid:[1] mnt:[1]"])
def test_where_pid_and_path_mean_something_else_that_is_said_and_the_page_named(path, monkeypatch, place):
    with holding(path) as process:
        monkeypatch.setattr(holder, "_place", lambda: place)
        reported = in_use_message(str(path))
    assert f"(pid {process.pid}, socket {SOCKET})" in reported
    assert f"runs in another container or machine ({os.uname().nodename})" in reported
    assert "`forgectl docs containers`" in reported
    assert "FORGED_SOCKET=" not in reported


async def test_a_record_that_could_not_be_written_at_first_is_written_later(path):
    record(path).mkdir()
    database = Database(str(path), SOCKET)
    await database.open(connect, lambda _: None)
    assert in_use_message(str(path)).startswith(UNKNOWN)
    record(path).rmdir()
    await database.sign()
    assert SOCKET in in_use_message(str(path))
    await database.close()


def test_another_program_that_has_the_file_open_is_not_called_a_daemon(path, monkeypatch):
    monkeypatch.setattr("forged.state.database._BUSY_S", 0.1)
    locking = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", locking, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            with pytest.raises(StoreError, match=f"{UNKNOWN}{path} open"):
                connect(str(path))
        finally:
            process.kill()
    eventually(lambda: connect(str(path)).close() is None)
