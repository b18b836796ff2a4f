"""Run README's commands from fresh clones in surroundings that people have, and print a table.

    python tests/install/surroundings.py                       all of them: make demo, make test, make install
    python tests/install/surroundings.py space umask --commands demo install
    python tests/install/surroundings.py --commands test --tests tests/postgres tests/cli

In: what is committed in this checkout. Out: a row for each surrounding and command, and the end of
each log that is red; exit code 1 where any is. Each has a clone and an environment of its own in a 0700
folder, which is gone at the end.
An ordinary user needs a python3 with venv that this user may run (`--python`), and is skipped without.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).parents[2]
INSTANCES_LEFT = 8
_ORDINARY = "nobody"


@dataclass(frozen=True)
class Surrounding:
    """Where and as whom the commands run."""

    folder: str = "forged"
    home: str = "home"
    umask: int = 0o022
    env: dict[str, str] = field(default_factory=dict)
    user: str = ""
    takes_instances: bool = False


SURROUNDINGS = {
    "private": Surrounding(),
    "space": Surrounding(folder="a clone of mine", home="a home of mine"),
    "user": Surrounding(user=_ORDINARY),
    "umask": Surrounding(umask=0o077),
    "zone": Surrounding(env={"TZ": "America/Los_Angeles"}),
    "locale": Surrounding(env={"LANG": "C", "LC_ALL": "C"}),
    "inotify": Surrounding(takes_instances=True),
}
COMMANDS = ("demo", "test", "install")


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*SURROUNDINGS, []], metavar="SURROUNDING")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="these tests in place of all")
    parser.add_argument("--python", default="", help="the python3 of an ordinary user")
    asked = parser.parse_args()
    rows = []
    for name in asked.names or SURROUNDINGS:
        for row in _tried(name, SURROUNDINGS[name], asked):
            rows.append(row)
            print("  ".join(map(str, row)), flush=True)
    print("\n| surrounding | command | exit | seconds | said |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    sys.exit(any(row[2] not in (0, "skipped") for row in rows))


def _tried(name: str, where: Surrounding, asked: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    python = asked.python or (_python_of_all() if where.user and os.geteuid() == 0 else sys.executable)
    if not python:
        yield name, "-", "skipped", 0, f"{where.user} can run no python3 with venv"
        return
    base = Path(tempfile.mkdtemp(prefix="forged-at-"))
    try:
        clone, home = base / where.folder, base / where.home
        home.mkdir()
        subprocess.run(("git", "clone", "--quiet", "--no-hardlinks", str(REPO), str(clone)), check=True)
        as_user = os.geteuid() == 0 and bool(where.user)
        if as_user:
            subprocess.run(("chown", "-R", f"{where.user}:", str(base)), check=True)
        for command in asked.commands:
            words = ["make", command, f"PYTHON={python}"]
            if command == "test" and asked.tests:
                _run(["make", ".venv/.installed", f"PYTHON={python}"], clone, home, where, as_user)
                words = [".venv/bin/python", "-m", "pytest", "-n", "2", "--dist", "loadfile", *asked.tests]
            began = time.monotonic()
            with _instances_taken() if where.takes_instances else contextlib.nullcontext():
                code, said = _run(words, clone, home, where, as_user)
            yield name, command, code, round(time.monotonic() - began), _gist(said)
            if code:
                print(said[-12000:], flush=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _run(words: list[str], clone: Path, home: Path, where: Surrounding, as_user: bool) -> tuple[int, str]:
    """Exit code and output of a command, in an environment that a new shell of this person would have."""
    kept = {name: os.environ[name] for name in os.environ if name.startswith("PIP_") or "CERT" in name}
    kept = {name: value for name, value in kept.items() if not name.endswith("_CONSTRAINT")}
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **kept, "HOME": str(home), **where.env}
    identity = {"user": where.user, "group": pwd.getpwnam(where.user).pw_gid} if as_user else {}
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(
            words,
            cwd=clone,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            umask=where.umask,
            extra_groups=[] if as_user else None,
            check=False,
            **identity,
        )
        log.seek(0)
        return done.returncode, log.read().decode("utf-8", "replace")


def _gist(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    counts = [line.strip("= ") for line in lines if re.search(r"\d+ (passed|failed|error)", line)]
    return (counts or lines or [""])[-1][:120]


def _python_of_all() -> str:
    """A python3 that every user may run, where it has venv; nothing where there is none."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        tried = (path, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))")
        if (
            os.access(path, os.X_OK)
            and not subprocess.run(tried, capture_output=True, check=False).returncode
        ):
            return path
    return ""


@contextlib.contextmanager
def _instances_taken() -> Iterator[None]:
    """All but a few of this user's inotify instances are in use by another program."""
    libc, taken = ctypes.CDLL(None, use_errno=True), []
    try:
        while (descriptor := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
            taken.append(descriptor)
        for descriptor in taken[-INSTANCES_LEFT:]:
            os.close(descriptor)
        del taken[-INSTANCES_LEFT:]
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


if __name__ == "__main__":
    main()
