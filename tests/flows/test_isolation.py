"""One daemon, many projects: a request sees its own repository and the user, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import running
from tests.support.git import git

_AGENT = Path(__file__).parent / "agents" / "retrieving.py"
_EACH = 125


@pytest.mark.long
def test_sixteen_agents_on_two_repositories_never_get_a_foreign_memory(home, tmp_path):
    first, second = tmp_path / "first", home / "work" / "second"
    worktree = tmp_path / "linked"
    for repo, canary in ((first, "canary-first"), (second, "canary-second")):
        _repository(repo)
        _remember(repo, canary)
    _remember(home, "canary-user")
    git(first, "worktree", "add", "-q", str(worktree), "-b", "side")

    with running(home) as daemon:
        daemon.trust(first, second)
        agents = [
            subprocess.Popen(
                [sys.executable, str(_AGENT), daemon.socket, str(workspace), str(_EACH)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for workspace in (first, worktree, second, second / "src") * 4
        ]
        results = [agent.communicate(timeout=120)[0].split() for agent in agents]

    own = [{"canary-first", "canary-user"}] * 2 + [{"canary-second", "canary-user"}] * 2
    assert [int(answered) for answered, *_ in results] == [_EACH] * 16
    assert [set(seen) for _, *seen in results] == own * 4


def test_equal_ids_in_two_repositories_stay_apart(home, tmp_path):
    first, second = tmp_path / "a" / "same", tmp_path / "b" / "same"
    for repo, text in ((first, "the port is 4001"), (second, "the port is 4002")):
        _repository(repo)
        _file(repo, "mem_port", text)

    with running(home) as daemon, daemon.client() as client:
        texts = [client.search(str(repo), "which port").memories[0].content for repo in (first, second)]

    assert texts == ["the port is 4001", "the port is 4002"]


def _repository(top: Path) -> None:
    (top / "src").mkdir(parents=True)
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "start")


def _remember(top: Path, canary: str) -> None:
    _file(top, f"mem_{canary}", f"The deploy script lives in {canary}.")


def _file(top: Path, name: str, text: str) -> None:
    directory = top / ".forge/memory"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.md").write_text(text)
