"""Whatever changes a file, the map follows: editors, git, whole directories, ten thousand files.

The oracle is the directory itself: ids and texts of what the daemon lists against what lies on disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from tests.support.clock import eventually
from tests.support.daemon import DaemonProcess, running
from tests.support.git import git


def in_place(directory: Path) -> None:
    (directory / "mem_a.md").write_text("the second text")


def by_rename(directory: Path) -> None:
    fresh = directory / "mem_a.md.swp"
    fresh.write_text("the second text")
    fresh.rename(directory / "mem_a.md")


def all_deleted(directory: Path) -> None:
    shutil.rmtree(directory.parent)


def another_directory(directory: Path) -> None:
    other = directory.parent / "elsewhere"
    other.mkdir()
    (other / "mem_b.md").write_text("in the other directory")
    directory.rename(directory.parent / "old")
    other.rename(directory)


@pytest.mark.parametrize(
    "edit", [in_place, by_rename, all_deleted, another_directory], ids=lambda edit: edit.__name__
)
def test_an_edit_is_followed_and_the_next_ones_as_well(daemon, repo, edit):
    _put(repo, "mem_a", "the first text")
    _follows(daemon, repo)

    edit(_directory(repo))
    _follows(daemon, repo)

    for name in ("mem_c", "mem_d"):
        _put(repo, name, f"and then {name}")
        _follows(daemon, repo)


def test_a_save_in_two_halves_never_loses_the_memory(daemon, repo):
    _put(repo, "mem_a", "---\ncategory: patterns\n---\nthe walrus text")
    _follows(daemon, repo, texts=["the walrus text"])

    with daemon.client() as client, open(_directory(repo) / "mem_a.md", "r+") as file:
        file.truncate(0)
        file.write("---\ncateg")
        file.flush()
        seen = [client.search(str(repo), "walrus").status for _ in range(40)]
        file.write("ory: patterns\n---\nthe walrus text, again")
    _follows(daemon, repo, texts=["the walrus text, again"])

    assert set(seen) == {"ok"}


def test_git_checkout_away_and_back(daemon, tmp_path):
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    git(top, "commit", "-q", "--allow-empty", "-m", "empty")
    git(top, "checkout", "-q", "-b", "memories")
    for number in range(20):
        _put(top, f"mem_{number}", f"memory number {number}")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "memories")
    _follows(daemon, top)

    for _ in range(3):
        git(top, "checkout", "-q", "main")
        assert not _directory(top).exists()
        _follows(daemon, top)
        git(top, "checkout", "-q", "memories")
        _follows(daemon, top)


@pytest.mark.long
def test_ten_thousand_files_at_once(daemon, repo):
    _put(repo, "mem_first", "here before the others")
    _follows(daemon, repo)

    for number in range(10_000):
        (_directory(repo) / f"mem_{number:05d}.md").write_text(f"memory number {number} of a great many")

    with daemon.client() as client:
        eventually(lambda: _status_of(client, repo).memories == 10_001)
        hits = client.search(str(repo), "number 7777").memories
    assert hits[0].id == "mem_07777"


@pytest.mark.inotify
def test_a_repository_of_many_directories_costs_at_most_eight_watches(home, repo):
    for outer in range(40):
        for inner in range(50):
            (repo / f"d{outer}/d{inner}").mkdir(parents=True)
    _put(repo, "mem_a", "text")
    with running(home) as daemon, daemon.client() as client:
        _follows(daemon, repo)

        assert eventually(lambda: _status_of(client, repo).watches) <= 8
        # While the watches are set anew, the old ones still stand.
        eventually(lambda: _inotify_watches(daemon.pid) <= 8 + 4)  # the repository's and the user root's


def _directory(top: Path) -> Path:
    return top / ".forge/memory"


def _put(top: Path, name: str, text: str) -> None:
    _directory(top).mkdir(parents=True, exist_ok=True)
    (_directory(top) / f"{name}.md").write_text(text)


def _follows(daemon: DaemonProcess, top: Path, *, texts: list[str] | None = None) -> None:
    """Wait until what the daemon lists is what lies on disk."""
    if texts is None:
        files = _directory(top).glob("*.md") if _directory(top).exists() else ()
        texts = [file.read_text() for file in files if os.fsencode(file).isascii()]
    with daemon.client() as client:
        eventually(
            lambda: (
                sorted(r.content for r in client.list(str(top), scope="repo", limit=1000).memories)
                == sorted(texts)
            )
        )


def _status_of(client, top: Path):
    return next(r for r in client.status(str(top)).roots if r.root == str(top))


def _inotify_watches(pid: int) -> int:
    watches = 0
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            watches += sum(line.startswith("inotify ") for line in entry.read_text().splitlines())
    return watches
