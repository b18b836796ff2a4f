"""Containers that share a HOME: the same path is another folder for the daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import hook
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL

_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")


def _can_unshare() -> bool:
    """Whether containers can be had; in an ordinary user's namespace / is nobody's, and not trusted."""
    if shutil.which("unshare") is None or os.geteuid():
        return False
    return subprocess.run((*_NAMESPACES, "true"), capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not _can_unshare(), reason="NOT TESTED: containers, which take root")


class Container:
    """A mount namespace in which `project` lies at `place`; commands run in it, and a daemon stays."""

    def __init__(self, home: Path, project: Path, place: Path, **variables: str) -> None:
        self.place = place
        self._env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **variables}
        self._env["FORGED_MEMORY__EMBEDDING_MODEL"] = "builtin:lexical"
        script = f'mount --bind "{project}" "{place}" && echo ready && exec sleep infinity'
        self._process = subprocess.Popen(
            (*_NAMESPACES, "sh", "-c", script), env=self._env, stdout=subprocess.PIPE
        )
        assert self._process.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        (self._pid,) = eventually(lambda: children.read_text().split(), PATIENCE_S)

    def run(self, *command: str, given: bytes = b"", within: str = "") -> subprocess.CompletedProcess[bytes]:
        """Run a command in it, in its project."""
        inside = ("nsenter", "--target", self._pid, "--mount", "--pid")
        script = f'cd "{self.place}/{within}" && exec "$0" "$@"'
        return subprocess.run(
            (*inside, "sh", "-c", script, *command),
            env=self._env,
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
        )

    def forgectl(self, *arguments: str, **how: str) -> tuple[int, str]:
        done = self.run(FORGECTL, *arguments, **how)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def hook(self, **payload: str) -> str:
        given = json.dumps({"session_id": "s", "cwd": str(self.place), **payload}).encode()
        done = self.run(sys.executable, "-I", "-S", hook.__file__, "claude", given=given)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def close(self) -> None:
        """End all that runs in it, as the end of its first process does."""
        os.kill(int(self._pid), signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


@pytest.fixture
def place(tmp_path) -> Path:
    """Where every container has its project."""
    place = tmp_path / "workspaces/project"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def projects(tmp_path) -> list[Path]:
    found = [tmp_path / name for name in "ab"]
    for each in found:
        (each / ".git").mkdir(parents=True)
    return found


@pytest.fixture
def containers(home, projects, place) -> Iterator[list[Container]]:
    both = [Container(home, project, place) for project in projects]
    try:
        yield both
    finally:
        for each in both:
            each.close()


def memories(project: Path) -> list[str]:
    return [path.read_text().partition("\n---\n")[2] for path in project.glob(".forge/memory/*.md")]


def test_a_path_that_is_another_folder_in_another_container_is_refused_in_every_verb(containers, projects):
    one, other = containers
    assert one.forgectl("remember", "The ports of A start at 1111.")[0] == 0
    (written,) = projects[0].glob(".forge/memory/*.md")

    for verb in (
        ["retrieve", "which ports?"],
        ["remember", "The ports of B start at 2222."],
        ["search", "ports"],
        ["list"],
        ["search", "ports", "--scope", "repo"],
        ["show", written.stem],
        ["forget", written.stem, "--yes"],
        ["edit", written.stem, "changed"],
        ["move", written.stem, "user"],
        ["trust", "--yes"],
        ["review"],
        ["pause"],
        ["why"],
        ["status"],
        ["rebuild"],
        ["captured"],
    ):
        code, said = other.forgectl(*verb)
        assert (code != 0, "is another folder or file for the daemon" in said, "1111" in said) == (
            True,
            True,
            False,
        ), (verb, said)
    assert other.hook(hook_event_name="UserPromptSubmit", prompt="Which ports do we use?") == ""
    assert [memories(project) for project in projects] == [["The ports of A start at 1111."], []]
    assert "1111" in one.forgectl("retrieve", "which ports?")[1]
    assert "1111" in one.hook(hook_event_name="UserPromptSubmit", prompt="Which ports do we use?")


def test_a_path_that_is_in_one_container_alone_is_refused_and_one_in_none_is_as_everywhere(
    containers, projects
):
    one, other = containers
    one.forgectl("ping")
    one.forgectl("remember", "The ports of A start at 1111.")
    (projects[1] / "only").mkdir()
    code, said = other.forgectl("retrieve", "which ports?", within="only")
    assert (code != 0, "is not there for the daemon" in said) == (True, True)
    code, said = one.forgectl("review", "nowhere")
    assert "cannot be used: No such file or directory" in said


def test_the_same_folder_mounted_in_both_is_agreed_upon(home, projects, place):
    one, other = Container(home, projects[0], place), Container(home, projects[0], place)
    try:
        assert one.forgectl("remember", "The ports of A start at 1111.")[0] == 0
        code, said = other.forgectl("retrieve", "which ports?")
        assert (code, "1111" in said) == (0, True)
    finally:
        one.close()
        other.close()


def test_a_transcript_that_is_another_file_for_the_daemon_is_not_read(home, containers, projects, place):
    one, other = containers
    assert one.forgectl("remember", "The ports of A start at 1111.")[0] == 0
    for project in projects:
        (project / "t.jsonl").write_text("{}\n")
    log = home / ".local/state/forged/forged.log"
    for who, is_refused in ((one, False), (other, True)):
        reported = {"session_id": str(is_refused), "cwd": str(home), "transcript_path": f"{place}/t.jsonl"}
        assert who.hook(hook_event_name="Stop", **reported) == ""
        assert ("t.jsonl' is another folder or file for the daemon" in log.read_text()) is is_refused


def test_one_daemon_after_the_other_sees_its_own_project_alone(home, projects, place):
    one = Container(home, projects[0], place)
    one.forgectl("remember", "The ports of A start at 1111.")
    one.close()
    other = Container(home, projects[1], place)
    try:
        _, said = other.forgectl("retrieve", "which ports?")
        assert "1111" not in said
        assert other.forgectl("remember", "The ports of B start at 2222.")[0] == 0
        assert [memories(project) for project in projects] == [
            ["The ports of A start at 1111."],
            ["The ports of B start at 2222."],
        ]
    finally:
        other.close()


@pytest.mark.inotify
def test_a_second_daemon_on_one_state_names_the_container_that_has_it_until_that_one_ends(
    home, projects, place, tmp_path
):
    """Both have a socket of their own and share the rest of HOME; a pid of there means nothing here."""
    both = []
    for project in projects:
        own = tmp_path / f"run-{project.name}"
        own.mkdir(mode=0o700)
        both.append(Container(home, project, place, XDG_RUNTIME_DIR=str(own)))
    first, second = both
    try:
        assert first.forgectl("remember", "Ports start at 9000.")[0] == 0
        assert second.forgectl("ping")[0] == 0
        reported = (
            f"{tmp_path}/run-a/forged/forged.sock) has {home}/.local/state/forged/state.db open; it runs in"
        )
        eventually(lambda: reported in second.forgectl("status")[1].partition("\n")[0], PATIENCE_S)
        _, status = second.forgectl("status")
        code, refused = second.forgectl("remember", "Tabs, not spaces.")
        assert ("`forgectl docs containers`" in status, "paused" in status.lower()) == (True, False)
        assert (code, reported in refused, memories(projects[1])) == (69, True, [])
        both.remove(first)
        first.close()
        eventually(lambda: second.forgectl("remember", "Tabs, not spaces.")[0] == 0, PATIENCE_S)
        assert second.forgectl("status")[1].startswith("on")
        second.forgectl("stop")
    finally:
        for each in both:
            each.close()
    assert [[text.strip() for text in memories(project)] for project in projects] == [
        ["Ports start at 9000."],
        ["Tabs, not spaces."],
    ]
