"""Scratch copy of the repository that may be broken, and pytest runs in it.

The copy has a virtual environment of its own, whose path file names the copy first and the packages of the
running environment after it. So every process of a test runs the mutated source. The tests drop PYTHONPATH,
and start daemons, workers and `forgectl` from the interpreter's own directory. A run ends at its time limit
with all of its processes. Every rewritten file gets a new modification time, so that bytecode of another
version is never used.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.mutations.mutation import Mutation, place

REPO = Path(__file__).parents[2]

_LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    "__pycache__",
    "build",
    "dist",
    "*.egg-info",
)
_SCRIPTS = ("forged", "forgectl")
# "FAILED tests/a.py::test_b[c d] - why"; the part in brackets is left out, because it varies.
_RED = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+)", re.MULTILINE)
_STARTED = re.compile(r"^(tests/[^\s\[]+::[^\s\[]+)", re.MULTILINE)
# A conftest's import fails: pytest names no test then.
_NO_CONFTEST = "while loading conftest"


class Result(msgspec.Struct, frozen=True):
    """Result of a run; `by` is the first failed test, or the one that was running at the time limit."""

    red: bool
    by: str = ""
    hung: bool = False
    output: str = ""


class Scratch:
    """A scratch copy: `tree` is the copy, `python` its interpreter."""

    def __init__(self, root: Path, repo: Path = REPO) -> None:
        self._root = root
        self.tree = root / "tree"
        self.python = root / "venv" / "bin" / "python"
        self.site = _site_of(root / "venv")
        self._stamps = itertools.count(1_000_000_000)
        shutil.copytree(repo, self.tree, ignore=_LEFT_OUT, symlinks=True)
        venv.create(root / "venv", symlinks=True, with_pip=False)
        self._let_import_the_copy()

    @contextlib.contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[Path]:
        """Plant a bug in the copy for the duration of the block. Raises Gone and Ambiguous."""
        spot = place(mutation, self.tree)
        self._write(spot.path, spot.mutated)
        try:
            yield spot.path
        finally:
            self._write(spot.path, spot.original)

    def run(self, tests: Sequence[str], limit_s: float, options: Sequence[str] = ("-x",)) -> Result:
        """Run these tests. Raises LookupError if pytest fails without a failed test."""
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)  # no example of another mutation
        # Not below the copy, where no file is watched, and short: sockets have paths of 107 bytes.
        where = f"--basetemp={self._root / 't'}"
        command = [str(self.python), "-m", "pytest", "-v", "--tb=line", "-p", "no:cacheprovider"]
        code, output = self._finish([*command, where, *options, *tests], limit_s)
        started, first = _STARTED.findall(output), _RED.search(output)
        if code and not (started or first or _NO_CONFTEST in output):
            raise LookupError(output[-2000:])
        # Without a failed test, the time was up, or a resource was left open, which fails at the end.
        by = first[1] if first else [tests[0], *started][-1]
        return Result(red=code != 0, by=by, hung=code is None, output=output)

    def _finish(self, command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Return the exit code, None if it had to be killed, and the output."""
        log = self._root / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self._kill_what_is_left(process)
        return code, log.read_text(encoding="utf-8", errors="replace")

    def _kill_what_is_left(self, process: subprocess.Popen[bytes]) -> None:
        """Kill daemons, which have sessions of their own, by the path of this new directory."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        listed = subprocess.run(["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, _, arguments = line.strip().partition(" ")
            if f"{self._root}{os.sep}" in arguments:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def _let_import_the_copy(self) -> None:
        installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lines = [str(self.tree), str(self.tree / "client"), *sorted(installed)]
        (self.site / "copy.pth").write_text("\n".join(lines) + "\n")
        for name in _SCRIPTS:
            source = Path(sys.executable).parent / name
            _, _, body = source.read_text().partition("\n")
            script = self.python.parent / name
            script.write_text(f"#!{self.python}\n{body}")
            script.chmod(0o755)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        stamp = next(self._stamps)
        os.utime(path, (stamp, stamp))


@contextlib.contextmanager
def scratch(repo: Path = REPO) -> Iterator[Scratch]:
    """Yield a copy in a temporary directory, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="mutants-")).resolve()
    try:
        yield Scratch(root, repo)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _site_of(environment: Path) -> Path:
    scheme = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", vars=scheme))
