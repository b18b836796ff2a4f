"""Tests that a run leaves out are counted at its end, and a named test always runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S

_TOP = Path(__file__).parents[1]
_SPEED = "tests/entities/test_graph.py"
_NAMED = f"{_SPEED}::test_a_hostile_question_takes_a_moment"
_LONG = "tests/test_house.py"
_FEW = ("unshare", "-Ur", "sh", "-c", 'echo 8 >/proc/sys/user/max_inotify_instances && exec "$@"', "sh")
_NEEDS = "fewer than 24 inotify instances"


def _few_work() -> bool:
    try:
        return subprocess.run([*_FEW, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def run(*arguments: str, before: tuple[str, ...] = (), env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=_TOP,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "FORGED_FAULTS": "short", **(env or {})},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,  # a whole run of pytest
    )
    assert done.returncode in {0, 5}, done.stdout  # 5: all were left out
    return done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "with a worker"])
def test_what_asserts_a_speed_or_takes_long_is_counted_and_not_run(workers, tmp_path):
    reported = tmp_path / "told"
    said = run(
        _SPEED, _LONG, "-k", "hostile or flow_enters", *workers, env={"FORGED_LEFT_OUT": str(reported)}
    )

    assert "1  are long: `make test-all` runs them" in said
    assert "2  assert a speed: `make bench` runs them" in said
    assert reported.read_text().splitlines()[0] == "left out: 3 tests"


@pytest.mark.parametrize("asked", [(_NAMED,), ("-m", "speed", _SPEED)], ids=["by name", "by marker"])
def test_what_is_asked_for_is_collected(asked):
    assert _NAMED in run("--collect-only", *asked)


def test_where_few_inotify_instances_are_left_what_needs_more_is_skipped_and_counted():
    if not _few_work():
        pytest.skip("NOT TESTED: this user may not make a user namespace")

    said = run("tests/writing/test_batches.py", "-k", "looks_at_nothing", before=_FEW)

    assert f"1  NOT TESTED: {_NEEDS} are free for this user" in said
