"""Checkouts to measure: this one, or another commit in an environment of its own.

The measuring code is always that of this checkout. The measured daemon or command line is the other
commit's, with the same versions of all packages except forged. Internals are measured by a driver of the
same commit, `tests/bench/inside.py`. `tests/bench/frames.py` encodes and decodes frames with the commit's
own client. Commits without a driver use its first version.
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
    """An installed commit: its interpreter, and the directory of its drivers."""

    name: str
    python: Path
    drivers: Path
    is_this: bool = False

    def script(self, name: str) -> Path:
        """Return the path of a console script of its environment."""
        return self.python.parent / name

    @property
    def frames(self) -> Frames:
        """Return its requests and replies. Raises Missing if it has no driver for them."""
        return _frames(self)

    def driver(self, name: str) -> Path:
        """Return the path of a driver of the commit. Raises Missing if it has none."""
        path = self.drivers / name
        if not path.exists():
            raise Missing(f"{self.name} has no driver for it")
        return path

    @contextlib.contextmanager
    def inside(self, *words: str | int | Path, driver: str = "inside.py") -> Iterator[Asked]:
        """Run a case of its own driver. Raises Missing if another commit has none, Broken if it fails."""
        command = [self.python, self.driver(driver), *map(str, words)]
        with asked(command, plain_environment(**ONE_THREAD)) as running:
            if not running.is_ready():
                complaint = running.complaint()
                if self.is_this or running.code != NOT_DRIVEN:
                    raise Broken(complaint)
                raise Missing(f"{self.name} has no driver for it ({complaint})")
            yield running


class Frames:
    """The functions of a commit's frames.py; a missing frame raises Missing."""

    def __init__(self, checkout: Checkout, module: ModuleType) -> None:
        self.encode, self.decode = module.encode, module.decode  # unguarded, because their time counts
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
    return Frames(checkout, _client_module(file, Path(where.decode().strip()).parents[1]))


def _client_module(file: Path, client: Path) -> ModuleType:
    """Import a module with the client of this folder, whatever client this process has imported."""
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
    """Remove the imported modules of the client, and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] == _CLIENT]
    return {name: sys.modules.pop(name) for name in names}


def this() -> Checkout:
    """Return the checkout of this interpreter."""
    return Checkout("this checkout", Path(sys.executable), HERE, is_this=True)


@contextlib.contextmanager
def checked_out(revision: str, extras: str = "") -> Iterator[Checkout]:
    """Check out another commit with a worktree and an environment of its own, both gone at the end.

    `extras` of its distribution are installed too. Raises Missing if there is no such commit here.
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
    """Install the commit with the versions of this environment; return its interpreter."""
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
    """Return the folder of the commit's drivers; the first version for a commit without one."""
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
    """Return the commit that added a driver, "" if none has yet."""
    found = _git("log", "--reverse", "--diff-filter=A", "--format=%H", "--", f"{_DRIVERS}/{driver}").split()
    return found[0].decode() if found else ""


def _git(*words: str | Path) -> bytes:
    return _output("git", "-C", HERE.parents[1], *words)


def _output(*words: str | Path, env: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run([str(word) for word in words], capture_output=True, env=env)
    if done.returncode:
        raise Broken(f"{' '.join(map(str, words[:4]))}: {done.stderr.decode().strip()[-300:]}")
    return done.stdout
