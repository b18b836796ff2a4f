"""Processes under measurement: start, end, rounds, pinning and memory.

Raises `Missing` for a peer or tool that is not on this machine, `Broken` for a wrong answer or a failed
process of the bench. Linux only where /proc is read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # as the daemon has it


class Missing(Exception):  # noqa: N818 - reads as the state it names
    """A prerequisite of a ratio is missing; the message has it, and how to install it."""


class Broken(Exception):  # noqa: N818
    """The measured side gave a wrong answer or none."""


def need_program(name: str, how: str) -> None:
    """Raise Missing when a program is not on PATH."""
    if shutil.which(name) is None:
        raise Missing(f"{name} is not installed ({how})")


def need_package(name: str, distribution: str) -> None:
    """Raise Missing when a Python package cannot be found."""
    if find_spec(name) is None:
        raise Missing(f"{distribution} is not installed (`make bench`, or pip install {distribution})")


def plain_environment(**more: str) -> dict[str, str]:
    """Return an environment without this process's settings for Python and OpenBLAS.

    Some shared machines set OPENBLAS_CORETYPE; with foreign kernels a ratio is meaningless.
    """
    return {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **more}


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """Yield a directory of its own with a short path, for sockets too."""
    path = Path(tempfile.mkdtemp(prefix="fb"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def process(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child that is gone at the end, in any case."""
    child = subprocess.Popen([str(word) for word in command], env=env, **options)  # type: ignore[call-overload]
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(6)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Asked:
    """A process that prints `ready`, and then a number for every line of its input."""

    def __init__(self, child: subprocess.Popen[bytes], errors: Path) -> None:
        self.pid = child.pid
        self._child = child
        self._errors = errors

    def is_ready(self) -> bool:
        assert self._child.stdout is not None
        return self._child.stdout.readline() == b"ready\n"

    def figure(self) -> float:
        """Measure one round. Raises Broken when the process is gone."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(b"\n")
            self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise Broken(self.complaint())
        return float(line)

    def complaint(self) -> str:
        """Return the last line of its stderr."""
        self._child.wait(30)
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return said[-1] if said else f"exit code {self.code} without a word"

    @property
    def code(self) -> int | None:
        return self._child.returncode


@contextlib.contextmanager
def asked(command: Sequence[str | Path], env: Mapping[str, str]) -> Iterator[Asked]:
    """Start such a process; it may not have become ready."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with directory() as place:
        said = place / "errors"
        with open(said, "wb") as errors, process(command, env, stderr=errors, **pipes) as child:
            yield Asked(child, said)


@contextlib.contextmanager
def peer(*words: str | int) -> Iterator[Asked]:
    """Run a case of peers.py in a process of its own. Raises Missing when it does not become ready."""
    command = [sys.executable, HERE / "peers.py", *map(str, words)]
    with directory() as home, asked(command, plain_environment(HOME=str(home), **ONE_THREAD)) as running:
        if not running.is_ready():
            raise Missing(f"{words[0]} cannot be used here: {running.complaint()}")
        yield running


@contextlib.contextmanager
def on_one_core(*pids: int) -> Iterator[None]:
    """Pin this process and its new children to one core, with `pids`.

    Between two cores the hypervisor's wake-up is measured, twice the cost of the code.
    """
    every = os.sched_getaffinity(0)
    one = {max(every)}
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), one)
    os.sched_setaffinity(0, one)
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def family(pid: int) -> tuple[int, ...]:
    """Return a process and all of its descendants."""
    children = [
        int(child)
        for thread in os.listdir(f"/proc/{pid}/task")
        for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    ]
    return (pid, *(each for child in children for each in family(child)))


def rss_mib(*pids: int) -> float:
    """Return the resident memory of processes; shared pages count for each."""
    return sum(_kib(f"/proc/{pid}/status", "VmRSS:") for pid in pids) / 1024


def peak_mib(pid: int) -> float:
    """Return the peak resident memory of a process."""
    return _kib(f"/proc/{pid}/status", "VmHWM:") / 1024


def pss_mib(*pids: int) -> float:
    """Return the memory of processes, where a page of n processes counts as an n-th for each."""
    return sum(_kib(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in pids) / 1024


def _kib(path: str, field: str) -> int:
    return int(Path(path).read_text().split(field)[1].split()[0])
