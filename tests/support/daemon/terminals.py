"""Processes on a terminal of their own, without a parent among the processes of the tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.clock import PATIENCE_S

# Leaves its parent, and runs a shell on a new terminal, or without any; copies its output.
_LEAVE = """
import os, pty, sys, time
on_terminal, script, starter = sys.argv[1] == "terminal", sys.argv[2], os.getpid()
if os.fork():
    os._exit(0)
os.setsid()
while os.getppid() == starter:
    time.sleep(0.001)
if not on_terminal:
    os.execv("/bin/sh", ["sh", "-c", script])
pid, terminal = pty.fork()
if not pid:
    os.execv("/bin/sh", ["sh", "-c", script])
try:
    while data := os.read(terminal, 65536):
        os.write(1, data)
except OSError:  # the other side is closed
    pass
os.waitpid(pid, 0)
"""


@contextlib.contextmanager
def shell_of_its_own(
    script: str, *, on_terminal: bool = True, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[Iterator[str]]:
    """Run a script of `sh`, and yield the lines of its output; the output is at its end afterwards."""
    place = "terminal" if on_terminal else "none"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _LEAVE, place, script],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        env=env,
        cwd=folder,
    ) as left:
        os.close(writing)
        assert left.wait(PATIENCE_S) == 0
    with open(reading, encoding="utf-8", errors="replace") as output:
        yield (line.rstrip("\r\n") for line in output)
        output.read()
