"""The commits whose daemons, command lines and internals are measured: this checkout, or another one.

Measuring code is always that of this checkout; what it talks to by socket or command line is the other
commit's, in an environment of its own with the same versions of everything that is not forged. Where
internals are measured a driver of the same commit does it, `tests/bench/inside.py`, and frames are made and
read by `tests/bench/frames.py` with the commit's own client. Commits from before there was such a driver are
driven by its first version.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from processes import HERE, ONE_THREAD, Asked, Broken, Missing, asked, directory, plain_environment
from sampling import NOT_DRIVEN

_DRIVERS = "tests/bench"
_DRIVER, _FRAMES = "inside.py", "frames.py"
_CLIENT = "forged_client"


class Checkout(msgspec.Struct, frozen=True):
    """A commit that is installed: its interpreter, and the directory of its drivers."""

    name: str
    python: Path
    drivers: Path
    is_this: bool = False

    def script(self, name: str) -> Path:
        """A console script of its environment."""
        return self.python.parent / name

    @property
    def frames(self) -> Frames:
        """Its requests and replies. Raises Missing if it has no driver for them."""
        return _frames(self)

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


class Frames:
    """The functions of a commit's frames.py. What another commit has no frame for raises Missing."""

    def __init__(self, checkout: Checkout, module: ModuleType) -> None:
        self.encode, self.decode = module.encode, module.decode  # as they are: their time counts
        self._checkout = checkout
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if self._checkout.is_this:
            return getattr(self._module, name)
        with self._known():
            found = getattr(self._module, name)
        return self._guarded(found) if callable(found) and not isinstance(found, type) else found

    def _guarded(self, make: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(make)
        def made(*arguments: object, **named: object) -> object:
            with self._known():
                return make(*arguments, **named)

        return made

    @contextlib.contextmanager
    def _known(self) -> Iterator[None]:
        try:
            yield
        except (AttributeError, TypeError) as error:
            raise Missing(f"{self._checkout.name} has no frame for it ({error})") from error


@functools.cache
def _frames(checkout: Checkout) -> Frames:
    if checkout.is_this:
        import frames

        return Frames(checkout, frames)
    file = checkout.driver(_FRAMES)
    where = _output(checkout.python, "-c", f"import {_CLIENT}; print({_CLIENT}.__file__)")
    return Frames(checkout, _beside(file, Path(where.decode().strip()).parents[1]))


def _beside(file: Path, client: Path) -> ModuleType:
    """A module that imports the client of this folder, whatever client this process has imported."""
    spec = importlib.util.spec_from_file_location(f"{file.stem} of {client}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    own = _taken_out()
    sys.path.insert(0, str(client))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(client))
        _taken_out()
        sys.modules.update(own)
    return module


def _taken_out() -> dict[str, ModuleType]:
    """The modules of the client that are imported; afterwards none is."""
    names = [name for name in sys.modules if name.partition(".")[0] == _CLIENT]
    return {name: sys.modules.pop(name) for name in names}


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

    typing_extensions is named because msgspec imports it where it is installed, which every start feels. What
    make holds for other environments does not hold here.
    """
    python, versions = top / "venv/bin/python", top / "versions"
    versions.write_bytes(_output(sys.executable, "-m", "pip", "freeze", "--exclude-editable"))
    _output(sys.executable, "-m", "venv", top / "venv")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", versions]
    server = f"{tree}[{extras}]" if extras else tree
    held = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
    free = {name: value for name, value in os.environ.items() if name not in held}
    _output(*install, "-e", tree / "client", "-e", server, "typing_extensions", env=free)
    return python


def _drivers(tree: Path, top: Path) -> Path:
    """Where the commit's drivers are; for one without the first that there were."""
    place = tree / _DRIVERS
    if not (place / _DRIVER).exists():
        place = top / _DRIVERS
        if first := _first(_DRIVER):
            archive = _git("archive", first, _DRIVERS)
            subprocess.run(["tar", "-x", "-C", top], input=archive, check=True)
    if not (place / _FRAMES).exists():
        place.mkdir(parents=True, exist_ok=True)
        first = _first(_FRAMES)
        source = _git("show", f"{first}:{_DRIVERS}/{_FRAMES}") if first else (HERE / _FRAMES).read_bytes()
        (place / _FRAMES).write_bytes(source)
    return place


def _first(driver: str) -> str:
    """The commit that brought a driver, "" if none has yet."""
    found = _git("log", "--reverse", "--diff-filter=A", "--format=%H", "--", f"{_DRIVERS}/{driver}").split()
    return found[0].decode() if found else ""


def _git(*words: str | Path) -> bytes:
    return _output("git", "-C", HERE.parents[1], *words)


def _output(*words: str | Path, env: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run([str(word) for word in words], capture_output=True, env=env)
    if done.returncode:
        raise Broken(f"{' '.join(map(str, words[:4]))}: {done.stderr.decode().strip()[-300:]}")
    return done.stdout
