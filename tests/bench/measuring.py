"""What all measurements share: figures and their limits, sampling in turn, processes that end.

A figure is a ratio of two things that were sampled in turn in one run, because absolute times move by a
factor of two on a shared machine and ratios hardly do. A peer that is not there is `Missing`: it is named and
skipped. An answer that is wrong is `Broken`: a fast wrong answer is no figure.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

HERE = Path(__file__).parent


class Missing(Exception):  # noqa: N818 - reads as the state it names
    """The peer or tool that a ratio needs is not on this machine."""


class Broken(Exception):  # noqa: N818
    """What was measured gave a wrong answer."""


class Figure(msgspec.Struct, frozen=True):
    """One ratio of one run. `raw` are the times, sizes and counts that it was made from, with their unit."""

    name: str
    ratio: float
    limit: float
    raw: dict[str, str]

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


Measurement = Callable[[], Sequence[Figure]]


def in_turn(
    cases: Mapping[str, Callable[[], object]], rounds: int, *, calls: int = 1
) -> dict[str, list[float]]:
    """Seconds of every call: all cases once to warm up, then A, B, C, A, B, C, ... `calls` at a time."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for call in cases.values():
        call()
    for _ in range(rounds):
        for name, call in cases.items():
            for _ in range(calls):
                taken[name].append(timed(call))
    return taken


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def p50(seconds: Sequence[float]) -> float:
    return statistics.median(seconds)


def p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(0.99 * len(seconds)))]


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def needs(*, program: str = "", package: str = "") -> None:
    """Raise Missing when a program is not on PATH or a package cannot be imported."""
    if program and shutil.which(program) is None:
        raise Missing(f"`{program}` is not on PATH")
    if package and find_spec(package) is None:
        raise Missing(f"the Python package `{package}` is not installed")


def plain_environment(**more: str) -> dict[str, str]:
    """An environment without this process's Python settings: they would change what starting costs."""
    return {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **more}


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory of its own with a short path, for sockets too."""
    path = Path(tempfile.mkdtemp(prefix="fb"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def process(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is gone at the end, whatever happens."""
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


@contextlib.contextmanager
def on_one_core(*pids: int) -> Iterator[None]:
    """This process, and what it starts meanwhile, on one core, with `pids` beside it.

    Between two cores the hypervisor's wake-up is measured, twice what the code costs.
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


def rss_mib(pid: int) -> float:
    """Resident memory of a process, from Linux's /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def environment() -> dict[str, str]:
    """What a reader needs to judge the figures."""
    import numpy as np

    return {
        "cpu": _cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "openblas": _blas(),
        "executable": sys.executable,
    }


def _cpu() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or "unknown"


def _blas() -> str:
    """Kernels that OpenBLAS chose: without AVX-512 small blocks gain less (performance-anchors.md 2d)."""
    if find_spec("threadpoolctl") is None:
        return "unknown (install threadpoolctl to see it)"
    from threadpoolctl import threadpool_info

    found = [f"{lib.get('version')} {lib.get('architecture')}" for lib in threadpool_info()]
    return ", ".join(found) or "none"
