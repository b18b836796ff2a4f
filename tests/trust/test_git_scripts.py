"""Everyday git in a trusted repository: what is merged counts, what another branch brings is withheld.

Each script starts in a clone of a repository with one memory, which a person trusts on `main`, and returns
what counts and what is withheld at its end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forged.trust import provenance
from tests.data.memories import memory, put
from tests.support.git import git
from tests.trust.people import Person, clone, commit, person, upstream

BASE = "of_theirs"


def pull(theirs: Path, ours: Path) -> None:
    commit(theirs, memory("new", "pulled"))
    git(ours, "pull", "--quiet")


def rebase_on_a_stale_main(theirs: Path, ours: Path) -> None:
    """Main was not pulled for long; a branch of ours is rebased on what was fetched."""
    git(ours, "checkout", "--quiet", "-b", "work")
    (ours / "code").write_text("x")
    commit(ours)
    commit(theirs, memory("new", "merged upstream"))
    git(ours, "fetch", "--quiet")
    git(ours, "rebase", "--quiet", "origin/main")


def squash_merge(theirs: Path, ours: Path) -> None:
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory("new", "of a feature"))
    git(theirs, "checkout", "--quiet", "main")
    git(theirs, "merge", "--quiet", "--squash", "feature")
    commit(theirs)
    git(ours, "pull", "--quiet")


def feature_branch_deleted(theirs: Path, ours: Path) -> None:
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory("new", "of a feature"))
    git(theirs, "checkout", "--quiet", "main")
    git(theirs, "merge", "--quiet", "feature")
    git(theirs, "branch", "--quiet", "-d", "feature")
    git(ours, "pull", "--quiet", "--prune")


def detached_head(theirs: Path, ours: Path) -> None:
    commit(theirs, memory("new", "for a while"))
    git(theirs, "rm", "--quiet", ".forge/memory/new.md")
    commit(theirs)
    git(ours, "pull", "--quiet")
    git(ours, "checkout", "--quiet", "HEAD~1")


def linked_worktree(theirs: Path, ours: Path) -> None:
    """Its memories are those of the main worktree."""
    commit(theirs, memory("new", "pulled"))
    git(ours, "pull", "--quiet")
    git(ours, "worktree", "add", "--quiet", "../beside", "-b", "elsewhere")
    commit(ours.parent / "beside", memory("elsewhere", "lies where nobody looks"))


def carriage_returns(theirs: Path, ours: Path) -> None:
    """Lines end with two characters here and with one in git."""
    git(ours, "config", "core.autocrlf", "true")
    commit(theirs, memory("new", "two\nlines"))
    git(ours, "pull", "--quiet")
    assert b"\r\n" in (ours / ".forge/memory/new.md").read_bytes()
    (ours / ".forge/memory/new.md").touch()  # git has to compare bytes now


def merge_of_ours(theirs: Path, ours: Path) -> None:
    commit(theirs, memory("new", "of theirs"))
    commit(ours, memory("mine", "of ours"))
    git(ours, "pull", "--quiet", "--no-rebase")


def stash_and_back(theirs: Path, ours: Path) -> None:
    put(ours, memory("new", "written by hand"))
    yield
    git(ours, "stash", "--quiet", "--include-untracked")
    git(ours, "stash", "pop", "--quiet")


def edit_and_commit(theirs: Path, ours: Path) -> None:
    git(ours, "checkout", "--quiet", "-b", "work")
    put(ours, memory("new", "written by hand"))
    yield
    commit(ours)


def colleague_s_branch(theirs: Path, ours: Path) -> None:
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory("new", "nobody has reviewed this"))
    git(ours, "fetch", "--quiet")
    git(ours, "checkout", "--quiet", "feature")


def cherry_pick(theirs: Path, ours: Path) -> None:
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory("new", "nobody has reviewed this"))
    git(ours, "fetch", "--quiet")
    git(ours, "checkout", "--quiet", "-b", "work")
    git(ours, "cherry-pick", "origin/feature")


def branch_merged_into_a_branch(theirs: Path, ours: Path) -> None:
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory("new", "nobody has reviewed this"))
    git(ours, "fetch", "--quiet")
    git(ours, "checkout", "--quiet", "-b", "work")
    git(ours, "merge", "--quiet", "origin/feature")


def conflict(theirs: Path, ours: Path) -> None:
    """Both sides lie in the file, and git has stored it nowhere."""
    git(theirs, "checkout", "--quiet", "-b", "feature")
    commit(theirs, memory(BASE, "their words"))
    git(ours, "checkout", "--quiet", "-b", "work")
    commit(ours, memory(BASE, "our words"))
    git(ours, "fetch", "--quiet")
    git(ours, "merge", "--quiet", "origin/feature", check=False)
    assert "<<<<<<<" in (ours / f".forge/memory/{BASE}.md").read_text()


def remote_of_a_stranger(theirs: Path, ours: Path) -> None:
    """Its default branch is not the one that is trusted, whatever git says."""
    commit(theirs, memory("new", "of a stranger's main"))
    shutil.copytree(theirs, ours.parent / "fork")
    git(theirs, "reset", "--quiet", "--hard", "HEAD~1")
    git(ours, "remote", "add", "stranger", f"file://{ours.parent / 'fork'}")
    git(ours, "fetch", "--quiet", "stranger")
    git(ours, "remote", "set-head", "stranger", "main")
    git(ours, "checkout", "--quiet", "-b", "look", "stranger/main")


SCRIPTS = [
    (pull, {BASE, "new"}, {}),
    (rebase_on_a_stale_main, {BASE, "new"}, {}),
    (squash_merge, {BASE, "new"}, {}),
    (feature_branch_deleted, {BASE, "new"}, {}),
    (detached_head, {BASE, "new"}, {}),
    (linked_worktree, {BASE, "new"}, {}),
    (carriage_returns, {BASE, "new"}, {}),
    (merge_of_ours, {BASE, "new", "mine"}, {}),
    (stash_and_back, {BASE, "new"}, {}),
    (edit_and_commit, {BASE, "new"}, {}),
    (colleague_s_branch, {BASE}, {"new": provenance.OTHER_BRANCH}),
    (cherry_pick, {BASE}, {"new": provenance.OTHER_BRANCH}),
    (branch_merged_into_a_branch, {BASE}, {"new": provenance.OTHER_BRANCH}),
    (conflict, set(), {}),  # it is no memory at all: `tests/files` says how it is named
    (remote_of_a_stranger, {BASE}, {"new": provenance.OTHER_BRANCH}),
]


def carried_out(script, theirs: Path, ours: Path, one: Person) -> None:
    """A script that yields is looked at there, as a daemon does that is told of a change."""
    for _ in script(theirs, ours) or ():
        one.look(ours)


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
@pytest.mark.parametrize(
    ("script", "counting", "withheld"), SCRIPTS, ids=[script.__name__ for script, _, _ in SCRIPTS]
)
async def test_what_is_merged_counts_and_what_another_branch_brings_is_withheld(
    tmp_path, script, counting, withheld, options
):
    theirs = upstream(tmp_path / "theirs", *options)
    ours = clone(theirs, tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        assert one.look(ours)[0] == set()
        await one.trust.trust(str(ours))
        carried_out(script, theirs, ours, one)

        assert one.look(ours) == (counting, withheld)


async def test_a_shallow_clone_is_judged_by_what_is_there(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours", "--depth", "1")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        pull(theirs, ours)
        git(theirs, "checkout", "--quiet", "-b", "feature")
        commit(theirs, memory("evil", "nobody has reviewed this"))
        git(ours, "fetch", "--quiet", "--depth", "1", "origin", "feature")
        git(ours, "checkout", "--quiet", "FETCH_HEAD")

        assert one.look(ours) == ({BASE, "new"}, {"evil": provenance.OTHER_BRANCH})


async def test_a_submodule_is_a_root_of_its_own_that_its_parent_s_trust_does_not_cover(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    parent = upstream(tmp_path / "parent")
    git(parent, "submodule", "--quiet", "add", f"file://{theirs}", "part")
    commit(parent)
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(parent))
        assert one.look(parent / "part")[0] == set()
        await one.trust.trust(str(parent / "part"))
        commit(theirs, memory("new", "of the submodule"))
        git(parent / "part", "pull", "--quiet", "origin", "main")
        assert one.counting(parent / "part") == {BASE, "new"}


async def test_what_is_withheld_counts_once_it_is_merged_or_reviewed(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        colleague_s_branch(theirs, ours)
        put(ours, memory("draft", "by hand"))
        commit_of_two = memory("other", "nobody has reviewed this either")
        commit(theirs, commit_of_two)
        git(ours, "pull", "--quiet")
        assert one.look(ours) == (
            {BASE, "draft"},
            {"new": provenance.OTHER_BRANCH, "other": provenance.OTHER_BRANCH},
        )

        (reviewed,) = [each for each in (await one.trust.describe(str(ours))).withheld if each.id == "other"]
        await one.trust.approve(str(ours), [reviewed.sha256])
        assert one.counting(ours) == {BASE, "draft", "other"}

        git(theirs, "checkout", "--quiet", "main")
        git(theirs, "merge", "--quiet", "feature")
        git(ours, "fetch", "--quiet")
        assert one.look(ours) == ({BASE, "draft", "other", "new"}, {})


async def test_where_the_trusted_branch_is_gone_the_default_one_takes_its_place(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    git(ours, "checkout", "--quiet", "-b", "work")
    async with person(tmp_path / "state") as one:
        assert (await one.trust.trust(str(ours))).branch == "refs/heads/work"
        git(ours, "checkout", "--quiet", "main")
        git(ours, "branch", "--quiet", "-D", "work")
        pull(theirs, ours)
        assert one.counting(ours) == {BASE, "new"}


async def test_while_git_is_at_work_nothing_new_counts(tmp_path):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        put(ours, memory("new", "by hand"))
        (ours / ".git/index.lock").touch()
        assert one.look(ours) == ({BASE}, {"new": provenance.BUSY})
        (ours / ".git/index.lock").unlink()
        assert one.counting(ours) == {BASE, "new"}


async def test_nothing_is_asked_of_git_while_nothing_moves(tmp_path, monkeypatch):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        colleague_s_branch(theirs, ours)
        assert one.withheld(ours) == {"new"}
        monkeypatch.setattr("forged.trust.git._PROGRAMS", ())
        assert one.look(ours) == ({BASE}, {"new": provenance.OTHER_BRANCH})
        git(ours, "branch", "another")
        assert one.look(ours) == ({BASE}, {"new": "there is no git"})


async def test_git_that_hangs_or_does_not_end_its_talk_costs_its_limit_and_nothing_counts(
    tmp_path, monkeypatch
):
    ours = clone(upstream(tmp_path / "theirs"), tmp_path / "ours")
    slow = tmp_path / "slow"
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        put(ours, memory("new", "by hand"))
        monkeypatch.setattr("forged.trust.git._PROGRAMS", (str(slow),))
        monkeypatch.setattr("forged.trust.git._LIMIT_S", 0.2)
        for script, why in (
            ("exec sleep 60", "git took longer than 0.2 s"),
            ("exec yes", "git's output is too long"),
        ):
            slow.write_text(f"#!/bin/sh\n{script}\n")
            slow.chmod(0o755)
            monkeypatch.setattr("forged.trust.git._MOST_BYTES", 1 << 16)
            counting, withheld = one.look(ours)
            assert counting == {BASE}
            assert withheld["new"].startswith(why)


async def test_no_program_of_the_repository_is_run(tmp_path):
    theirs = upstream(tmp_path / "theirs")
    ours = clone(theirs, tmp_path / "ours")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    (ours / ".gitattributes").write_text("*.md filter=trap diff=trap\n")
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "core.askPass"),
        *("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.textconv"),
    ):
        git(ours, "config", key, str(trap))
    git(ours, "config", "core.hooksPath", str(tmp_path))
    async with person(tmp_path / "state") as one:
        await one.trust.trust(str(ours))
        put(ours, memory("new", "by hand"), memory(BASE, "edited by hand"))
        assert one.look(ours) == (set(), {"new": provenance.FILTERED, BASE: provenance.FILTERED})
    assert not (tmp_path / "ran").exists()
