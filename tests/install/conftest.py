"""A copy of what is committed, and new environments into which README's own commands install it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemon import is_alive, wait_for_end

REPO = Path(__file__).parents[2]
# How this machine reaches a package index is its own affair. Read before the tests empty the environment.
# What holds the versions still is README's affair.
_INDEX = {
    name: value
    for name, value in os.environ.items()
    if not name.endswith("_CONSTRAINT")
    if name.startswith("PIP_") or name.lower().endswith("_proxy") or name == "SSL_CERT_FILE"
}


def blocks(document: str, section: str, language: str = "sh") -> list[str]:
    """The code of one section of a document, as it is written. What stands in code is no heading."""
    text = (REPO / document).read_text(encoding="utf-8")
    heading, found = "", []
    for title, fence, code in re.findall(
        r"^## ([^\n]*)$|^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        heading = title or heading
        if (heading, fence) == (section, language) and not title:
            found.append(code)
    assert found, f"{document} has no {language} code under {section!r}"
    return found


@dataclass(frozen=True)
class Place:
    """A person with a home of their own; `path` is what their shell finds programs in."""

    home: Path
    path: str = "/usr/local/bin:/usr/bin:/bin"

    def run(self, script: str, directory: Path, **variables: str) -> str:
        """What a script of commands prints; it ends at the first that fails, and the test with it."""
        env = {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8", **_INDEX, **variables}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def daemons(self) -> list[int]:
        """Processes that have this home in their environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and is_alive(int(entry.name)):
                try:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if f"HOME={self.home}".encode() in variables:
                    found.append(int(entry.name))
        return found

    def stop(self) -> None:
        """End what still runs for this person."""
        for pid in self.daemons():
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, 15)
        for pid in self.daemons():
            wait_for_end(pid)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this checkout, somewhere else: nothing may be found by lying beside it."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPO / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPO / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A person with an empty home; whatever they started is ended."""
    place = Place(tmp_path_factory.mktemp("home"))
    yield place
    place.stop()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository to work in."""
    top = tmp_path_factory.mktemp("work")
    (top / ".git").mkdir()
    return top
