"""A copy of the repository that may be broken, and pytest runs in it.

The copy has a virtual environment of its own, whose path file names the copy first and the packages of the
running environment after it. So every process of a test runs the mutated source: the tests drop PYTHONPATH,
and start daemons, workers and `forgectl` from the interpreter's own directory. A run ends at its time limit
with all that it started. Every rewritten file gets a modification time that no version of it had before:
bytecode of another version is never taken for it, however fast one follows the other.
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
# "FAILED tests/a.py::test_b[c d] - why"; what stands in brackets is left out, for it changes with the tests.
_RED = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+)", re.MULTILINE)
_STARTED = re.compile(r"^(tests/[^\s\[]+::[^\s\[]+)", re.MULTILINE)
# What a conftest imports cannot be imported: pytest names no test then.
_NO_CONFTEST = "while loading conftest"


class Result(msgspec.Struct, frozen=True):
    """How a run ended; `by` is the first test that was red, or that was running when time was up."""

    red: bool
    by: str = ""
    hung: bool = False
    output: str = ""


class Scratch:
    """`tree` is the copy, `python` the interpreter that runs it."""

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
        """The copy with this bug in it; afterwards without. Raises Gone and Ambiguous."""
        spot = place(mutation, self.tree)
        self._write(spot.path, spot.mutated)
        try:
            yield spot.path
        finally:
            self._write(spot.path, spot.original)

    def run(self, tests: Sequence[str], limit_s: float, options: Sequence[str] = ("-x",)) -> Result:
        """Run these tests. Raises LookupError when pytest fails and no test does: none was found."""
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)  # no example of another mutation
        # Not below the copy, for nothing watches it there, and short: sockets have paths of 107 bytes.
        where = f"--basetemp={self._root / 't'}"
        command = [str(self.python), "-m", "pytest", "-v", "--tb=line", "-p", "no:cacheprovider"]
        code, output = self._finish([*command, where, *options, *tests], limit_s)
        started, first = _STARTED.findall(output), _RED.search(output)
        if code and not (started or first or _NO_CONFTEST in output):
            raise LookupError(output[-2000:])
        # Without a word about a test, time was up, or something was left open, which is a failure at the end.
        by = first[1] if first else [tests[0], *started][-1]
        return Result(red=code != 0, by=by, hung=code is None, output=output)

    def _finish(self, command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """The exit code, None if it had to be killed, and what was printed."""
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
        """Daemons have sessions of their own; they are known by the path of this directory, which is new."""
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
    """A copy in a temporary directory, removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="mutants-")).resolve()
    try:
        yield Scratch(root, repo)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _site_of(environment: Path) -> Path:
    scheme = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", vars=scheme))
