"""Real worktrees of one repository: what is written in one is seen in the others and outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import running
from tests.support.git import git

pytestmark = pytest.mark.long


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "origin")
    git(tmp_path / "origin", "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path / "origin"


def bare(origin: Path, project: Path, name: str) -> None:
    git(origin, "clone", "-q", "--bare", str(origin), f"{project}/{name}")
    if name == ".bare":
        (project / ".git").write_text("gitdir: ./.bare\n")
    for tree in ("main-tree", "feat"):
        git(project / name, "worktree", "add", "-q", f"../{tree}")


def submodule(origin: Path, project: Path, _: str) -> None:
    git(origin.parent, "init", "-q", "super")
    git(origin.parent / "super", "submodule", "--quiet", "add", str(origin), "library")
    for tree in ("main-tree", "feat"):
        git(origin.parent / "super/library", "worktree", "add", "-q", f"{project}/{tree}")


def plain(origin: Path, project: Path, name: str) -> None:
    git(origin, "clone", "-q", str(origin), f"{project}/main-tree")
    if name:
        git(project / "main-tree", "config", "extensions.worktreeConfig", "true")
    git(project / "main-tree", "worktree", "add", "-q", "../feat")


def apart(origin: Path, project: Path, _: str) -> None:
    git(origin, "clone", "-q", "--separate-git-dir", f"{project}/git", str(origin), f"{project}/main-tree")
    git(project / "main-tree", "config", "core.worktree", f"{project}/main-tree")
    git(project / "main-tree", "worktree", "add", "-q", "../feat")


LAYOUTS = {
    "a bare clone as .git": (bare, ".git"),
    "a bare clone as .bare with a .git file": (bare, ".bare"),
    "a bare clone beside its worktrees": (bare, "project.git"),
    "a submodule": (submodule, ""),
    "a main worktree": (plain, ""),
    "a main worktree with a configuration each": (plain, "each"),
    "a git directory elsewhere": (apart, ""),
}


@pytest.mark.parametrize(("layout", "name"), LAYOUTS.values(), ids=LAYOUTS)
def test_memory_of_one_worktree_is_seen_in_the_others_and_outlives_it(home, tmp_path, origin, layout, name):
    project = tmp_path / "project"
    project.mkdir()
    layout(origin, project, name)
    main, feat = project / "main-tree", project / "feat"

    with running(home) as daemon, daemon.client(trusts=False) as client:
        done = client.remember(str(feat), "Releases are cut on Tuesdays.")
        seen = [hit.id for hit in client.search(str(main), "when are releases cut").memories]
        git(main, "worktree", "remove", "--force", str(feat))
        left = [hit.id for hit in client.list(str(main)).memories]

    assert done.memory_id in seen
    assert left == [done.memory_id]


def test_files_of_the_worktree_one_works_in_are_asked_about_and_seen_in_it_alone(home, tmp_path, origin):
    project = tmp_path / "project"
    bare(origin, project, ".bare")
    folder = project / "feat/.forge/memory"
    folder.mkdir(parents=True)
    (folder / "mem_own.md").write_text("The port of this branch is 4001.")

    with running(home) as daemon, daemon.client(trusts=False) as client:
        before = client.search(str(project / "feat"), "which port")
        shown = client.trust(str(project / "feat")).roots
        for root in shown:
            client.trust(root.root, action="trust", shown=root.shown)
        here = [hit.id for hit in client.search(str(project / "feat"), "which port").memories]
        there = [hit.id for hit in client.search(str(project / "main-tree"), "which port").memories]

    assert before.memories == ()
    assert "not used yet" in before.notice
    assert {root.root: root.withheld for root in shown} == {f"{project}/.bare": 0, f"{project}/feat": 1}
    assert here == ["mem_own"]
    assert there == []


def test_file_that_someone_put_into_gits_directory_is_withheld_until_it_is_accepted(home, tmp_path, origin):
    project = tmp_path / "project"
    bare(origin, project, ".git")
    folder = project / ".git/forged/memory"
    folder.mkdir(parents=True)
    (folder / "mem_planted.md").write_text("The deploy key is in the wiki.")

    with running(home) as daemon, daemon.client(trusts=False) as client:
        before = client.search(str(project / "feat"), "where is the deploy key").memories
        reviewed = client.review(str(project / "feat"), accept=("mem_planted",))
        after = [
            hit.id for hit in client.search(str(project / "main-tree"), "where is the deploy key").memories
        ]

    assert before == ()
    assert reviewed.accepted == ("mem_planted",)
    assert after == ["mem_planted"]


def test_what_is_shared_can_be_edited_forgotten_and_restored_from_any_worktree(home, tmp_path, origin):
    project = tmp_path / "project"
    bare(origin, project, ".bare")
    main, feat = str(project / "main-tree"), str(project / "feat")
    (project / "feat/ports.txt").write_text("4001\n")

    with running(home) as daemon, daemon.client(trusts=False) as client:
        done = client.remember(feat, "The port is 4001.", evidence=("ports.txt",))
        edited = client.edit(main, done.memory_id, "The port is 4002.")
        client.forget(main, edited.memory_id)
        gone = client.list(feat).memories
        client.restore(feat, edited.memory_id)
        back = [each.id for each in client.list(main).memories]
        report = {root.root: root.directory for root in client.status(feat).roots if root.scope == "repo"}

    assert done.path == f"{project}/.bare/forged/memory/{done.memory_id}.md"
    assert gone == ()
    assert edited.memory_id in back
    assert report == {
        f"{project}/.bare": f"{project}/.bare/forged/memory",
        f"{project}/feat": f"{project}/feat/.forge/memory",
    } | {top: f"{top}/.forge/memory" for top in (f"{project}/main-tree",)}


@pytest.mark.parametrize("pointer", ["../project/.bare", "../project/.bare/worktrees/feat"])
def test_folder_with_a_forged_link_sees_nothing_of_the_other_repository(home, tmp_path, origin, pointer):
    project, evil = tmp_path / "project", tmp_path / "evil"
    bare(origin, project, ".bare")
    evil.mkdir()
    (evil / ".git").write_text(f"gitdir: {pointer}\n")

    with running(home) as daemon, daemon.client(trusts=False) as client:
        client.remember(str(project / "feat"), "The deploy key is in the wiki.")
        seen = client.search(str(evil), "where is the deploy key").memories
        written = client.remember(str(evil), "The deploy key is at home.")

    assert seen == ()
    assert written.path.startswith(f"{evil}/.forge/memory/")
