"""Closed outputs: a sentence where possible, an exit code, and never a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from forged_client.protocol import Status
from tests.cli import reports
from tests.support.clock import PATIENCE_S
from tests.support.daemon import FORGECTL

needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
FULL = "forgectl: the output could not be written: No space left on device\n"
CLOSED = "forgectl: the output could not be written: Bad file descriptor\n"


def run(daemon, words: str, redirected: str) -> tuple[int, str]:
    """Exit code and what came on stderr."""
    daemon.answers[Status] = reports.status()
    env = {**os.environ, "FORGED_SOCKET": daemon.path, "LANG": "C.UTF-8"}
    command = f"{shlex.quote(FORGECTL)} {words} {redirected}"
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stderr


@needs_full
@pytest.mark.parametrize("words", ["status", "ping", "ping --json", "--help", "docs"])
def test_a_full_disk_is_a_sentence_and_exit_code_74(daemon, words):
    assert run(daemon, words, ">/dev/full") == (74, FULL)


def test_a_closed_stdout_is_a_sentence_and_exit_code_74(daemon):
    assert run(daemon, "status", ">&-") == (74, CLOSED)


@pytest.mark.parametrize(
    ("words", "redirected", "code"),
    [
        ("ping", ">&- 2>&-", 74),
        ("ping", ">/dev/null 2>&-", 0),
        ("nonsense", "2>&-", 2),
        pytest.param("nonsense", "2>/dev/full", 2, marks=needs_full),
        pytest.param("search x --timeout 0.01", "2>/dev/full", 2, marks=needs_full),
        pytest.param("ping", ">/dev/full 2>/dev/full", 74, marks=needs_full),
    ],
)
def test_with_no_one_to_tell_the_exit_code_stays(daemon, words, redirected, code):
    assert run(daemon, words, redirected) == (code, "")
