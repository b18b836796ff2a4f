"""Every example in the client's README and manual page runs with a real daemon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import Client
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Stage, capturing, contents, on_disk

REPO = Path(__file__).parents[2]
README, PAGE = REPO / "client" / "README.md", REPO / "forged" / "docs" / "client.md"


@pytest.fixture
def stage(home) -> Iterator[Stage]:
    with capturing(home) as stage:
        yield stage


# Before what is shown: a reply that says that something failed ends the program.
_CHECKED = """
from forged_client import AsyncClient, Client

def checked(request, reply):
    assert reply.status in ("ok", "empty"), (request, reply)
    return reply

async def awaited(self, request, ask=AsyncClient.ask, **options):
    return checked(request, await ask(self, request, **options))

def asked(self, request, ask=Client.ask, **options):
    return checked(request, ask(self, request, **options))

AsyncClient.ask, Client.ask = awaited, asked
"""


def code(page: Path) -> str:
    """All that a page shows of Python, one block after the other."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return "\n".join(blocks)


def run(text: str, top: Path, stage: Stage) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHECKED + text.replace("/home/me/project", str(top))],
        env={
            "HOME": str(stage.daemon.home),
            "PATH": os.environ["PATH"],
            "FORGED_SOCKET": stage.daemon.socket,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_agent_of_the_readme_hears_what_there_is_and_tells_what_was_said(stage, repo):
    stage.client.remember(str(repo), "The build needs libfoo because the parser links it.")
    stage.load(repo)

    reported = run(
        code(README).replace('    return "Because', '    print(system)\n    return "Because', 1), repo, stage
    )
    stage.settle()

    assert "no memories" not in reported
    assert reported.count("The build needs libfoo because the parser links it.") == 2  # a block of each turn
    assert "We ship on Tuesdays." in contents(on_disk(repo))


def test_every_verb_is_shown_in_the_manual_and_does_what_it_says(stage, repo):
    shown = code(PAGE)
    verbs = {name for name in dir(Client) if name[0] != "_"}

    reported = run(shown, repo, stage).splitlines()
    stage.settle()

    assert {verb for verb in verbs - {"ask"} if f"forged.{verb}(" not in shown} == set()
    assert reported[1] == "3 Releases go out on Mondays. ()"
    assert "The tests run with pytest." in contents(on_disk(repo))
    assert contents(on_disk(stage.daemon.home, "user")) == ["A release is built by ansible."]
