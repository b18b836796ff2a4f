"""A daemon in which hundreds of repositories are written to, and what it holds of the kernel for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from forged_client.protocol import Document
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess, capturing

pytestmark = [pytest.mark.inotify, pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")]

FEW_ROOTS, ROOTS = 60, 500
MOST_INSTANCES = 3


def watches(pid: int) -> list[int]:
    """How many watches each inotify instance of a process holds."""
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{number}") == "anon_inode:inotify":
                found.append(Path(f"/proc/{pid}/fdinfo/{number}").read_bytes().count(b"inotify wd:"))
        except FileNotFoundError:
            continue
    return found


@contextmanager
def most_instances(pid: int) -> Iterator[Callable[[], int]]:
    """The most instances that a process has held inside, counted all the time."""
    most, ended = 0, Event()

    def count() -> None:
        nonlocal most
        while not ended.wait(0.01):
            if (now := len(watches(pid))) > most:
                # A number that was closed and given away while it looked counts twice.
                most = max(most, min(now, len(watches(pid))))

    counting = Thread(target=count)
    counting.start()
    try:
        yield lambda: most
    finally:
        ended.set()
        counting.join()


@pytest.mark.parametrize("roots", [FEW_ROOTS, pytest.param(ROOTS, marks=pytest.mark.long)])
def test_roots_written_to_cost_three_inotify_instances_and_what_is_gone_is_given_back(home, tmp_path, roots):
    tops = [tmp_path / f"repo{number}" for number in range(roots)]
    gone = tops[: roots * 4 // 5]
    for top in tops:
        (top / ".git").mkdir(parents=True)
    with (
        capturing(home) as stage,
        stage.daemon.client(trusts=False) as client,
        most_instances(stage.daemon.pid) as most,
    ):
        pid = stage.daemon.pid
        for number, top in enumerate(tops):
            written = client.remember(str(top), f"The port of service {number} is {9000 + number}.")
            assert written.status == "ok", written
        for number in range(20):
            client.remember(str(tops[0]), "Be short.", scope="agent", agent_id=f"agent{number}")
        stage.captured(tops[1], "Remember that we always deploy with make ship.")
        client.ingest([Document(source="deploys", text="They run on Tuesdays.")])
        assert 1 <= most() <= MOST_INSTANCES

        eventually(lambda: len(watches(pid)) == 2, 2 * PATIENCE_S)
        before = sum(watches(pid))
        for top in gone:
            shutil.rmtree(top)
        # Not all of a root may have been watched yet at `before`, so at least one of its watches has to go.
        eventually(lambda: sum(watches(pid)) <= before - len(gone), 2 * PATIENCE_S)
        assert most() <= MOST_INSTANCES


def _few(limit: str, left: int) -> tuple[str, ...]:
    return ("unshare", "-Ur", "sh", "-c", f'echo {left} >/proc/sys/user/{limit} && exec "$@"', "sh")


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        ("max_inotify_instances", 0),
        ("max_inotify_instances", 1),
        ("max_inotify_instances", 2),
        ("max_inotify_watches", 6),
    ],
)
def test_daemon_with_few_instances_or_watches_left_answers_finds_edits_and_says_so(
    home, tmp_path, limit, left
):
    few = _few(limit, left)
    if subprocess.run([*few, "true"], capture_output=True).returncode:
        pytest.skip("NOT TESTED: limits of inotify; no user namespace can be made here")
    tops = [tmp_path / f"repo{number}" for number in range(3)]
    daemon = DaemonProcess(home, command=(*few, sys.executable, "-m", "forged"))
    try:
        daemon.start()
        with daemon.client() as client:
            for top in tops:
                (top / ".git").mkdir(parents=True)
                written = client.remember(str(top), "The port is 9000.")
                assert written.status == "ok", written
                client.remember(str(top), "Deploy with make ship.")
                (file,) = [each for each in top.rglob("mem_*.md") if "9000" in each.read_text()]
                file.write_text(file.read_text().replace("9000", "9111"))

            def found(top: Path) -> bool:
                return any("9111" in each.content for each in client.list(str(top)).memories)

            for top in tops:
                eventually(lambda top=top: found(top), 2 * PATIENCE_S)

            def is_said() -> bool:
                watched = [each.watch for each in client.status().roots]
                return any(each.startswith("polling") and "used up" in each for each in watched)

            eventually(is_said, 2 * PATIENCE_S)
        daemon.stop()
        assert "never retrieved" not in daemon.log()
        assert "Traceback" not in daemon.log()
    finally:
        daemon.close()
