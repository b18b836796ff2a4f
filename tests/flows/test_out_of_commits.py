"""`git add -A` does not stage a memory, whatever wrote it, until a person wants that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forged.trust.exclude_file import LINE
from forged_client import Client
from forged_client.protocol import Edge
from tests.support.daemon import Shell, capturing, running
from tests.support.git import git

pytestmark = pytest.mark.long

TEXT = "Releases are cut on Tuesdays."


@pytest.fixture
def top(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "project")
    git(tmp_path / "project", "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path / "project"


def exclude(top: Path) -> Path:
    return top / ".git/info/exclude"


def staged(top: Path) -> list[str]:
    git(top, "add", "-A")
    return [each for each in git(top, "diff", "--cached", "--name-only").splitlines() if "mem_" in each]


def has_line(top: Path) -> int:
    return exclude(top).read_bytes().splitlines().count(LINE)


def without_line(top: Path) -> None:
    exclude(top).write_bytes(exclude(top).read_bytes().replace(LINE + b"\n", b""))


def ids(client: Client, top: Path, count: int) -> list[str]:
    return [client.remember(str(top), f"{TEXT} {number}").memory_id for number in range(count)]


# What is prepared before git forgets to ignore, and the write of a new daemon after that.
WRITES: dict[str, tuple[Callable[[Client, Path], list[str]], Callable[[Client, Path, list[str]], object]]] = {
    "remember": (
        lambda client, top: ids(client, top, 0),
        lambda client, top, _: client.remember(str(top), TEXT),
    ),
    "edit": (
        lambda client, top: ids(client, top, 1),
        lambda client, top, there: client.edit(str(top), there[0], TEXT),
    ),
    "relate": (
        lambda client, top: ids(client, top, 2),
        lambda client, top, there: client.edit(str(top), there[0], relate=[Edge(there[1])]),
    ),
    "move": (
        lambda client, top: [client.remember(str(top), TEXT, scope="user").memory_id],
        lambda client, top, there: client.move(str(top), there[0], "repo"),
    ),
    "restore": (
        lambda client, top: [*client.forget(str(top), ids(client, top, 1)[0]).ids],
        lambda client, top, there: client.restore(str(top), there[0]),
    ),
    "forget": (
        lambda client, top: [
            client.edit(
                str(top), client.edit(str(top), ids(client, top, 1)[0], "two").memory_id, "3"
            ).memory_id
        ],
        lambda client, top, there: client.forget(str(top), there[0], version_only=True),
    ),
}


@pytest.mark.parametrize(("prepare", "write"), WRITES.values(), ids=WRITES)
def test_no_way_of_writing_leaves_anything_to_stage(home, top, prepare, write):
    with running(home) as daemon:
        with daemon.client() as client:
            there = prepare(client, top)
        daemon.stop()
        without_line(top)
        daemon.start()
        with daemon.client() as client:
            write(client, top, there)

    assert list((top / ".forge/memory").glob("mem_*.md"))
    assert staged(top) == []
    assert has_line(top) == 1


def test_what_is_captured_is_not_staged_and_the_person_is_informed_once(home, top):
    with capturing(home) as stage:
        assert stage.captured(top, "We always check errors with errors.As here.")
        reported = [stage.client.retrieve(str(top), ["errors"], session_id=each).notice for each in "ab"]

    assert staged(top) == []
    assert "info/exclude" in reported[0]
    assert reported[1] == ""


def test_write_that_adds_the_line_says_so_once_also_over_a_restart(home, top):
    with running(home) as daemon:
        with daemon.client() as client:
            reasons = [client.remember(str(top), f"{TEXT} {number}").reason for number in range(2)]
        daemon.stop()
        daemon.start()
        with daemon.client() as client:
            reasons.append(client.remember(str(top), "another").reason)
            status = {root.root: root.git for root in client.status(str(top)).roots}

    assert ["info/exclude" in each for each in reasons] == [True, False, False]
    assert has_line(top) == 1
    assert "info/exclude" in status[str(top)]


def test_person_who_wants_them_committed_says_so_for_one_repository(home, top, tmp_path):
    git(tmp_path, "init", "-q", "other")
    with running(home) as daemon:
        at = Shell(home, daemon.socket, top)
        at.run("remember", TEXT)
        Shell(home, daemon.socket, tmp_path / "other").run("remember", TEXT)
        done = at.run("trust", "--commit")
        left = has_line(top)
        daemon.stop()
        daemon.start()
        at.run("remember", "something else")

        assert (done.code, left, has_line(top), has_line(tmp_path / "other")) == (0, 0, 0, 1), done.err
        assert len(staged(top)) == 2
        git(top, "reset", "-q")
        assert at.run("trust", "--exclude").code == 0
        assert has_line(top) == 1


def test_configuration_that_wants_them_committed_takes_the_lines_out_at_the_next_start(home, top, tmp_path):
    git(tmp_path, "init", "-q", "kept")
    with running(home) as daemon, daemon.client() as client:
        client.remember(str(top), TEXT)
        client.remember(str(tmp_path / "kept"), TEXT)
        client.trust(str(tmp_path / "kept"), action="git", git="exclude")
    config = '[memory]\ngit = "commit"\n'
    with running(home, config=config) as daemon, daemon.client() as client:
        client.remember(str(top), "something else")
        reports = {root.root: root.git for root in client.status(str(top)).roots}

    assert (has_line(top), has_line(tmp_path / "kept")) == (0, 1)
    assert "committed" in reports[str(top)]


def test_repository_cannot_say_it_for_itself(home, top):
    (top / ".forge").mkdir()
    (top / ".forge/config.toml").write_text('[memory]\ngit = "commit"\n')
    with running(home) as daemon, daemon.client() as client:
        client.remember(str(top), TEXT)
        warnings = client.status(str(top)).warnings

    assert has_line(top) == 1
    assert any("a repository may not set memory.git" in each for each in warnings)


def test_uninstalling_takes_every_line_out_and_names_what_stays(home, top, tmp_path):
    git(tmp_path, "init", "-q", "other")
    with running(home) as daemon:
        at = Shell(home, daemon.socket, top)
        for each in (top, tmp_path / "other"):
            Shell(home, daemon.socket, each).run("remember", TEXT)
        exclude(tmp_path / "other").rename(tmp_path / "elsewhere")
        exclude(tmp_path / "other").symlink_to(tmp_path / "elsewhere")
        done = at.run("setup", "--remove", "--yes")

    assert has_line(top) == 0
    assert LINE.decode() in (tmp_path / "elsewhere").read_text()
    assert "symbolic link" in done.out + done.err
    assert done.code != 0


def test_refused_line_is_said_in_status_and_tried_again_when_asked(home, top):
    exclude(top).unlink()
    exclude(top).symlink_to("/dev/null")
    with running(home) as daemon, daemon.client() as client:
        written = client.remember(str(top), TEXT)
        (problem,) = [each.git_problem for each in client.status(str(top)).roots if each.root == str(top)]
        exclude(top).unlink()
        client.trust(str(top), action="git", git="exclude")
        (after,) = [each.git_problem for each in client.status(str(top)).roots if each.root == str(top)]

    assert written.status == "ok"
    assert "symbolic link" in problem
    assert after == ""
    assert has_line(top) == 1
