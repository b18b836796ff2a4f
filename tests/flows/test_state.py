"""The daemon's state from outside: damaged, mended by a person, cleaned of what was forgotten."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Shell, Stage, capturing, contents, of_threads, running, stored
from tests.support.reading import bytes_of

FACT = "Walruses keep the harbour keys in the blue box."


def state_of(home: Path) -> Path:
    return home / ".local/state/forged"


def raw(home: Path) -> dict[str, bytes]:
    return {str(path): held for path, held in bytes_of(state_of(home).rglob("*")).items()}


@contextmanager
def damaged(home: Path, needle: bytes) -> Iterator[Stage]:
    """A daemon whose file had a byte flipped between two runs."""
    with capturing(home) as stage:
        eventually((state_of(home) / "state.copy").exists)
        stage.daemon.stop()
        path = state_of(home) / "state.db"
        data = bytearray(path.read_bytes())
        data[data.rindex(needle) + 1] ^= 4
        path.write_bytes(data)
        stage.daemon.start()
        yield stage


def test_flipped_byte_pauses_everything_is_named_and_ended_by_one_command(home, repo):
    put(repo, memory("m1", FACT))
    with damaged(home, b"version") as stage:
        shell = Shell(home, stage.daemon.socket, repo)
        stage.load(repo)
        status, doctor = shell.run("status"), shell.run("doctor")
        held = stage.ask(repo, "Where are the harbour keys?").status
        refused = stage.capture(repo, "hello").outcome
        resumed = shell.run("resume", "--all")
        after = stage.ask(repo, "Where are the harbour keys?")
        stage.daemon.stop()
        stage.daemon.start()
        again = stage.client.status()

    assert "state.db was damaged" in status.out
    assert "`forgectl resume --all` ends that" in status.out
    assert "state.db was damaged" in doctor.out
    assert "      fix: `forgectl resume --all`\n" in doctor.out
    assert "config show" not in doctor.out
    assert (held, refused, resumed.code) == ("disabled", "rejected", 0)
    assert FACT in after.text
    assert (again.capture.paused, again.warnings) == ((), ())


def test_after_forget_now_no_byte_of_the_text_is_in_the_state_directory(home, repo):
    """Not in the file, its journal, the trash, or what was set aside."""
    with capturing(home, classifier_model="m") as stage:
        stage.settle()
        put(repo, memory("m1", FACT), memory("m2", FACT))
        stage.load(repo)
        stage.client.forget(str(repo), "m1")  # to the trash
        with stage.hanging():
            stage.capture(repo, f"I say: {FACT}", kind="explicit", session="a")
            stage.capture(repo, f"I say: {FACT}", kind="compaction", session="b")
            stage.until(lambda now: now.spooled == 2)
            (state_of(home) / "state.db.damaged-20260101").write_text(FACT)
            before = {Path(name).name for name, data in raw(home).items() if FACT.encode() in data}
            stage.client.forget(str(repo), "m2", erase_now=True)
            left = {name for name, data in raw(home).items() if b"harbour keys" in data}
        stage.settle()

    assert {"state.db-wal", "m1.md", "state.db.damaged-20260101"} <= before
    assert left == set()
    assert {name for name, data in raw(home).items() if b"harbour keys" in data} == set()


def test_ping_and_status_do_not_wait_for_the_file(home, repo):
    """A pipe in its place would keep whoever opens it for ever; it is refused, and all else goes on."""
    state_of(home).mkdir(parents=True)
    os.mkfifo(state_of(home) / "state.db")
    with running(home) as daemon:
        with daemon.client() as client:
            assert client.ping().status == "ok"
            eventually(lambda: "not a regular file" in " ".join(client.status().warnings))
            assert client.capture(str(repo), [{"role": "user", "content": "x"}], "s").outcome == "rejected"
        assert daemon.stop() == 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED: strace is not installed")
def test_a_retrieve_waits_for_no_disk(stage, repo, tmp_path):
    put(repo, memory("m1", FACT))
    stage.load(repo)
    eventually((state_of(stage.daemon.home) / "state.copy").exists)
    log = tmp_path / "calls"
    calls = "trace=fsync,fdatasync,sync_file_range,pread64,pwrite64,openat,rename,unlink"
    tracing = subprocess.Popen(
        ["strace", "-f", "-qq", "-y", "-e", calls, "-o", str(log), "-p", str(stage.daemon.pid)],
        stderr=subprocess.PIPE,
    )
    try:
        if not _is_traced(stage.daemon.pid):
            pytest.skip("NOT TESTED: this user may not trace a process")
        for number in range(20):
            assert FACT in stage.ask(repo, f"Where are the harbour keys, for the {number}. time?").text
        seen = log.read_text()
        stage.capture(repo, "something durable", kind="compaction")
        eventually(lambda: "fdatasync" in log.read_text())  # it would have been seen
    finally:
        tracing.send_signal(signal.SIGINT)
        tracing.communicate(timeout=PATIENCE_S)
    assert [line for line in seen.splitlines() if "sync" in line or "/state" in line or "64(" in line] == []


def _is_traced(pid: int) -> bool:
    """Whether strace has taken hold of every thread."""

    def tracers() -> set[str]:
        return {status.split("TracerPid:\t")[1].split()[0] for status in of_threads(pid, "status")}

    deadline = time.monotonic() + PATIENCE_S
    while "0" in tracers() and time.monotonic() < deadline:
        time.sleep(0.01)
    return "0" not in tracers()


def test_nothing_is_left_of_a_turn_that_came_to_something(rules, repo):
    assert contents(rules.captured(repo, "We use ninja here."))
    eventually(lambda: stored(state_of(rules.daemon.home), "events", "journal", "dead") == [])
