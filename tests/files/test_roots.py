"""Roots of a workspace, on layouts made by hand and by git itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from forged.errors import WorkspaceError
from forged.files import git_layout
from forged.files.roots import Root, repo_root, resolve
from forged.memory import Scope
from tests.support.git import git

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: links NOT checked")


def repo_top(workspace: Path | str, home: Path) -> str | None:
    """Top of the repo root, or None when the request sees the user scope only."""
    *repo, user = resolve(str(workspace), str(home))
    assert user == Root(str(home), Scope.USER)
    return repo[0].top if repo else None


def stores(workspace: Path, home: Path) -> tuple[str, ...]:
    """The first directory of each repo root, the one that is written to first."""
    *repo, _ = resolve(str(workspace), str(home))
    assert all(repo_root(root.top) == root for root in repo if os.path.isdir(root.top))
    return tuple(root.directories[0] for root in repo)


def make(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def as_git(directory: Path) -> Path:
    """A directory that looks like one of git's own."""
    for name in ("objects", "refs"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "HEAD").write_text("ref: refs/heads/main\n")
    return directory


def link_worktree(main: Path, worktree: Path, *, relative: bool = False) -> Path:
    """What `git worktree add` leaves behind; returns git's directory of the worktree."""
    git_dir = make(main / ".git" / "worktrees" / worktree.name)
    make(worktree)
    (git_dir / "commondir").write_text("../..\n")
    back, forth = worktree / ".git", git_dir
    (git_dir / "gitdir").write_text(f"{os.path.relpath(back, git_dir) if relative else back}\n")
    back.write_text(f"gitdir: {os.path.relpath(forth, worktree) if relative else forth}\n")
    return git_dir


# Directories, the workspace among them, and the top that it is of.
LAYOUTS = {
    "below a repository": ((".git", "src/deep"), "src/deep", "."),
    "inside the git directory": ((".git/hooks",), ".git/hooks", "."),
    "a repository in another": ((".git", "vendor/.git"), "vendor", "vendor"),
    "one of two of the same name": (("ann/project/.git", "bob/project/.git"), "bob/project", "bob/project"),
    "a dotted path": (("project/.git",), "/project/./../project/", "project"),
    "the nearest with .forge": ((".forge", "inner/.forge", "inner/src"), "inner/src", "inner"),
    "git above a nearer .forge": ((".git", "src/.forge"), "src", "."),
    "neither git nor .forge": (("plain",), "plain", "plain"),
}


@pytest.mark.parametrize(("there", "workspace", "top"), LAYOUTS.values(), ids=LAYOUTS)
def test_workspace_is_of_the_nearest_repository_else_of_the_nearest_forge(
    tmp_path, home, there, workspace, top
):
    for path in there:
        make(tmp_path / path)

    assert repo_top(f"{tmp_path}/{workspace}", home) == str(tmp_path / top)


def test_worktree_that_was_moved_without_git_is_its_own_root(tmp_path, home):
    link_worktree(tmp_path / "main", tmp_path / "feature")
    (tmp_path / "feature").rename(tmp_path / "copy")

    assert repo_top(tmp_path / "copy", home) == str(tmp_path / "copy")


def test_crafted_commondir_cannot_point_at_another_repo(tmp_path, home):
    # As unpacked from an archive: both halves of the link lie in the downloaded tree and agree.
    make(tmp_path / "victim" / ".git" / "worktrees")
    evil = make(tmp_path / "evil")
    fake = make(evil / "fake" / "worktrees" / "evil")
    (evil / ".git").write_text("gitdir: fake/worktrees/evil\n")
    (fake / "gitdir").write_text("../../../.git\n")
    (fake / "commondir").write_text(f"{tmp_path}/victim/.git\n")

    assert repo_top(evil, home) == str(evil)


def test_link_into_a_foreign_repo_needs_that_repos_agreement(tmp_path, home):
    link_worktree(tmp_path / "victim", tmp_path / "feature")
    evil = make(tmp_path / "evil")
    (evil / ".git").write_text((tmp_path / "feature" / ".git").read_text())

    assert repo_top(evil, home) == str(evil)


def test_symlinked_link_file_is_not_followed(tmp_path, home):
    git_dir = link_worktree(tmp_path / "main", tmp_path / "feature")
    (git_dir / "commondir").rename(git_dir / "real")
    (git_dir / "commondir").symlink_to("real")

    assert repo_top(tmp_path / "feature", home) == str(tmp_path / "feature")


# What a `.git` file may say that git's side does not: `evil/.git`, and what is written beside it.
FORGED = {
    "a bare clone": ("gitdir: ../victim.git\n", {}),
    "a main worktree": ("gitdir: ../victim/.git\n", {}),
    "a linked worktree": ("gitdir: ../victim/.git/worktrees/feature\n", {}),
    "a worktree of a bare clone": ("gitdir: ../victim.git/worktrees/feature\n", {}),
    "a commondir of a bare clone": (
        "gitdir: fake/worktrees/evil\n",
        {"fake/worktrees/evil/gitdir": "{evil}/.git\n", "fake/worktrees/evil/commondir": "{victim}.git\n"},
    ),
    "a commondir of a main worktree": (
        "gitdir: fake/worktrees/evil\n",
        {"fake/worktrees/evil/gitdir": "{evil}/.git\n", "fake/worktrees/evil/commondir": "{victim}/.git\n"},
    ),
    "a directory whose core.worktree is elsewhere": (
        "gitdir: fake\n",
        {"fake/config": "[core]\n\tworktree = {victim}\n"},
    ),
    "a common directory whose main worktree is elsewhere": (
        "gitdir: fake/worktrees/evil\n",
        {
            "fake/config": "[core]\n\tworktree = {victim}\n",
            "fake/worktrees/evil/gitdir": "{evil}/.git\n",
            "fake/worktrees/evil/commondir": "../..\n",
        },
    ),
    "a directory with a commondir": ("", {".git/commondir": "{victim}.git\n", ".git/HEAD": "x"}),
}


@pytest.mark.parametrize(("pointer", "next_to"), FORGED.values(), ids=FORGED)
def test_folder_with_a_forged_link_sees_nothing_of_another_repository(tmp_path, home, pointer, next_to):
    victim, evil = tmp_path / "victim", make(tmp_path / "evil")
    link_worktree(victim, tmp_path / "feature")
    make(victim.with_suffix(".git") / "worktrees" / "feature")
    as_git(victim / ".git")
    (as_git(victim.with_suffix(".git")) / "config").write_text("[core]\n\tbare = true\n")
    for folder in ("victim.git/forged/memory", "victim/.git/forged/memory", "victim/.forge/memory"):
        make(tmp_path / folder)
    if pointer:
        (evil / ".git").write_text(pointer)
    for name, text in next_to.items():
        (evil / name).parent.mkdir(parents=True, exist_ok=True)
        (evil / name).write_text(text.format(evil=evil, victim=victim))
    for folder in ("fake", ".git"):
        if (evil / folder).is_dir():
            as_git(evil / folder)

    assert all(store.startswith(f"{evil}/") for store in stores(evil, home))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a stranger's directory: NOT checked")
@pytest.mark.parametrize("strangers", ["main/.git", "main/.git/worktrees/feature"])
def test_worktree_shares_a_store_with_its_own_owner_only(tmp_path, home, strangers):
    link_worktree(tmp_path / "main", tmp_path / "feature")
    os.chown(tmp_path / strangers, 12345, 12345)

    assert repo_top(tmp_path / "feature", home) == str(tmp_path / "feature")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("worktree = ../project", "../project"),
        ('worktree = "/a # b" ; comment', "/a # b"),
        ('WorkTree="/a\\\\b\\"c"', '/a\\b"c'),
        ("worktree = /a b  # comment", "/a b"),
        ("worktree", None),
    ],
)
def test_core_is_read_as_git_reads_it(tmp_path, line, value):
    (tmp_path / "config").write_text(f"[user]\n\tworktree = /x\n[CORE]\n\t{line}\n[other]\nworktree = /y\n")

    assert git_layout._core_config(str(tmp_path)) == {"worktree": value}


def test_fifo_named_git_neither_blocks_nor_counts(tmp_path, home):
    os.mkfifo(tmp_path / ".git")

    assert repo_top(make(tmp_path / "src"), home) == str(tmp_path / "src")


def test_worktree_of_the_dotfiles_is_no_repo_root(tmp_path, home):
    link_worktree(home, tmp_path / "feature")

    assert repo_top(tmp_path / "feature", home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a stranger's directory: NOT checked")
@pytest.mark.parametrize("marker", [".git", ".forge"])
def test_strangers_marker_above_the_workspace_does_not_count(tmp_path, home, marker):
    os.chown(make(tmp_path / marker), 12345, 12345)
    workspace = make(tmp_path / "mine")

    assert repo_top(workspace, home) == str(workspace)


@pytest.mark.parametrize(
    ("workspace", "sentence"),
    [
        ("", "not an absolute path"),
        ("project", "not an absolute path"),
        ("/nowhere/at/all", "No such file or directory"),
        ("/tmp/a\0b", "not a path in UTF-8"),
        ("/\ud800", "not a path in UTF-8"),
        ("/" + "x" * 300, "File name too long"),
        ("/dev/null", "not a directory"),
    ],
)
def test_unusable_workspace_is_refused_with_a_sentence(home, workspace, sentence):
    with pytest.raises(WorkspaceError, match=sentence):
        resolve(workspace, str(home))


def test_workspace_whose_real_path_is_not_text_is_refused(tmp_path, home):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    os.symlink(b"\xff\xfe", os.fsencode(tmp_path) + b"/link")

    with pytest.raises(WorkspaceError, match="not a path in UTF-8"):
        resolve(str(tmp_path / "link"), str(home))


def test_loop_of_links_is_refused(tmp_path, home):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(WorkspaceError, match="symbolic links"):
        resolve(str(tmp_path / "a"), str(home))


@needs_git
class TestRealGit:
    """The same rules on what the installed git really writes."""

    @pytest.fixture
    def main(self, tmp_path):
        git(tmp_path, "init", "-q", "main")
        git(tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "first")
        return tmp_path / "main"

    def test_worktree_resolves_to_main(self, main, tmp_path, home):
        git(main, "worktree", "add", "-q", "../feature")

        assert repo_top(tmp_path / "feature", home) == str(main)

    def test_submodule_is_its_own_root_also_in_a_worktree(self, main, tmp_path, home):
        git(tmp_path, "init", "-q", "library")
        git(tmp_path / "library", "commit", "-q", "--allow-empty", "-m", "first")
        git(main, "submodule", "--quiet", "add", f"{tmp_path}/library", "library")
        git(main, "commit", "-q", "-m", "library")
        git(main, "worktree", "add", "-q", "../feature")
        git(tmp_path / "feature", "submodule", "--quiet", "update", "--init")

        assert repo_top(main / "library", home) == str(main / "library")
        assert repo_top(tmp_path / "feature" / "library", home) == str(tmp_path / "feature" / "library")

    def test_worktree_of_a_submodule_shares_the_store_of_the_submodule(self, main, tmp_path, home):
        git(tmp_path, "init", "-q", "library")
        git(tmp_path / "library", "commit", "-q", "--allow-empty", "-m", "first")
        git(main, "submodule", "--quiet", "add", f"{tmp_path}/library", "deep/library")
        git(main / "deep/library", "worktree", "add", "-q", f"{tmp_path}/feature")

        assert stores(tmp_path / "feature", home) == stores(main / "deep/library", home)
        assert repo_top(tmp_path / "feature", home) == str(main / "deep/library")

    @pytest.mark.parametrize("name", [".bare", ".git", "project.git"])
    def test_worktrees_of_a_bare_clone_share_a_store_that_outlives_them(self, main, tmp_path, home, name):
        bare = tmp_path / "project" / name
        git(tmp_path, "clone", "-q", "--bare", "main", str(bare))
        for tree in ("one", "two"):
            git(bare, "worktree", "add", "-q", f"../{tree}")
        git(bare, "worktree", "move", "../two", "../three")
        shared = f"{bare}/forged/memory"

        for tree in ("one", "three"):
            own = f"{tmp_path}/project/{tree}/.forge/memory"
            assert stores(make(tmp_path / "project" / tree / "src"), home) == (shared, own)
        for workspace in (bare, bare / "refs" / "heads"):
            assert stores(workspace, home)[0] == shared

    def test_top_with_a_git_file_that_names_the_bare_clone_in_it_shares_its_store(self, main, tmp_path, home):
        project = tmp_path / "project"
        git(tmp_path, "clone", "-q", "--bare", "main", "project/.bare")
        (project / ".git").write_text("gitdir: ./.bare\n")
        git(project, "worktree", "add", "-q", "feature")

        for workspace in (project, project / "feature", project / ".bare"):
            assert stores(workspace, home)[0] == f"{project}/.bare/forged/memory"

    def test_separate_git_directory_is_shared_once_it_names_its_work_tree(self, main, tmp_path, home):
        git(tmp_path, "clone", "-q", "--separate-git-dir", "elsewhere", "main", "project")
        git(tmp_path / "project", "worktree", "add", "-q", "../feature")
        project = f"{tmp_path}/project/.forge/memory"

        assert stores(tmp_path / "project", home) == (project,)
        assert stores(tmp_path / "feature", home)[0] == f"{tmp_path}/elsewhere/forged/memory"
        git(tmp_path / "project", "config", "core.worktree", "../project")
        assert stores(tmp_path / "project", home) == stores(tmp_path / "feature", home) == (project,)
