"""The commits whose daemons, command lines and internals are measured: this checkout, or another one.

Measuring code is always that of this checkout; what it talks to by socket or command line is the other
commit's, in an environment of its own with the same versions of everything that is not forged. Where
internals are measured a driver of the same commit does it, `tests/bench/inside.py`; commits from before there
was one are driven by its first version.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from processes import HERE, ONE_THREAD, Asked, Broken, Missing, asked, directory, plain_environment
from sampling import NOT_DRIVEN

_DRIVER = "tests/bench/inside.py"


class Checkout(msgspec.Struct, frozen=True):
    """A commit that is installed: its interpreter, and the directory of its drivers."""

    name: str
    python: Path
    drivers: Path
    is_this: bool = False

    def script(self, name: str) -> Path:
        """A console script of its environment."""
        return self.python.parent / name

    def driver(self, name: str) -> Path:
        """A driver of the commit. Raises Missing if it has none."""
        path = self.drivers / name
        if not path.exists():
            raise Missing(f"{self.name} has no driver for it")
        return path

    @contextlib.contextmanager
    def inside(self, *words: str | int | Path, driver: str = "inside.py") -> Iterator[Asked]:
        """A case of its own driver. Raises Missing if another commit has none, Broken if it fails."""
        command = [self.python, self.driver(driver), *map(str, words)]
        with asked(command, plain_environment(**ONE_THREAD)) as running:
            if not running.is_ready():
                complaint = running.complaint()
                if self.is_this or running.code != NOT_DRIVEN:
                    raise Broken(complaint)
                raise Missing(f"{self.name} has no driver for it ({complaint})")
            yield running


def this() -> Checkout:
    """What this interpreter runs."""
    return Checkout("this checkout", Path(sys.executable), HERE, is_this=True)


@contextlib.contextmanager
def checked_out(revision: str, extras: str = "") -> Iterator[Checkout]:
    """Another commit in a worktree and an environment of its own, both gone at the end.

    `extras` are those of its distribution that are wanted. Raises Missing if there is no such commit here.
    """
    with directory() as top:
        tree = top / "tree"
        try:
            _git("rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}")
        except Broken as broken:
            raise Missing(f"commit {revision} is not in this clone (git fetch --unshallow)") from broken
        _git("worktree", "add", "--quiet", "--detach", tree, revision)
        try:
            yield Checkout(revision, _installed(tree, top, extras), _drivers(tree, top))
        finally:
            _git("worktree", "remove", "--force", tree)


def _installed(tree: Path, top: Path, extras: str) -> Path:
    """An interpreter with the commit installed, and beside it what this one has, version by version.

    typing_extensions is named because msgspec imports it where it is installed, which every start feels.
    """
    python, versions = top / "venv/bin/python", top / "versions"
    versions.write_bytes(_output(sys.executable, "-m", "pip", "freeze", "--exclude-editable"))
    _output(sys.executable, "-m", "venv", top / "venv")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", versions]
    server = f"{tree}[{extras}]" if extras else tree
    _output(*install, "-e", tree / "client", "-e", server, "typing_extensions")
    return python


def _drivers(tree: Path, top: Path) -> Path:
    """Where the commit's drivers are; for one without the first that there were."""
    if (tree / _DRIVER).exists():
        return tree / "tests/bench"
    first = _git("log", "--reverse", "--diff-filter=A", "--format=%H", "--", _DRIVER).split()
    if first:
        archive = _git("archive", first[0].decode(), "tests/bench")
        subprocess.run(["tar", "-x", "-C", top], input=archive, check=True)
    return top / "tests/bench"


def _git(*words: str | Path) -> bytes:
    return _output("git", "-C", HERE.parents[1], *words)


def _output(*words: str | Path) -> bytes:
    done = subprocess.run([str(word) for word in words], capture_output=True)
    if done.returncode:
        raise Broken(f"{' '.join(map(str, words[:4]))}: {done.stderr.decode().strip()[-300:]}")
    return done.stdout
