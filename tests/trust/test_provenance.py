"""Origin of a file's bytes in a root without a decision: all bytes from git are withheld.

`own` roots had nothing foreign at the first look, `unknown` ones had something. The same table is tried with
a daemon in `tests/flows/test_trust_by_bytes.py`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from forged.files import MemoryStore, Root, repo_root, scan
from forged.memory import Scope
from forged.trust import provenance
from tests.data.memories import memory, put
from tests.faults.amount import times
from tests.support.git import git
from tests.trust.people import Person, commit, own_file, person
from tests.trust.ways import CANARY, FOLDER, NAMES, WAYS, lies_there, stopped_script, their_side

MINE = memory("mem_1", "Ports start at 9000.\n")


async def written(one: Person, top: Path, *memories) -> None:
    """As the daemon writes: on record, then on disk."""
    root = Root(os.path.realpath(top), Scope.REPO)
    await one.trust.record_own(root, [own_file(root, each) for each in memories])
    put(top, *memories)


async def begun(one: Person, top: Path, state: str = "own", *options: str) -> Path:
    """A repository with one memory that `forged` wrote, which is committed."""
    top.mkdir(parents=True, exist_ok=True)
    git(top, "init", "--quiet", *options)
    if state == "unknown":
        put(top, memory("here_before", "lay there at the first look"))
    one.look(top)
    await one.trust.save()
    await written(one, top, MINE)
    assert one.counting(top) == {"mem_1"}
    assert (await one.trust.describe(os.path.realpath(top))).state == state
    commit(top)
    return top


def texts(one: Person, top: Path) -> str:
    """All that counts in a root."""
    one.look(top)
    root = Root(os.path.realpath(top), Scope.REPO)
    return "\n".join(each.content for each in one.trust.admit(root, scan(root)).memories)


@pytest.mark.parametrize("state", ["own", pytest.param("unknown", marks=pytest.mark.long)])
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
async def test_nothing_that_git_brings_counts_in_a_root_that_no_one_was_asked_about(tmp_path, way, state):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours", state)
        their_side(ours, tmp_path / "theirs")
        way(tmp_path / "theirs", ours)
        assert lies_there(ours)
        assert CANARY not in texts(one, ours)


@pytest.mark.parametrize("way", WAYS[:6], ids=NAMES[:6])
async def test_the_same_with_sha256(tmp_path, way):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours", "own", "--object-format=sha256")
        their_side(ours, tmp_path / "theirs")
        way(tmp_path / "theirs", ours)
        assert CANARY not in texts(one, ours)
        put(ours, memory("by_hand", "written by hand"))
        assert "written by hand" in texts(one, ours)


async def test_what_a_person_writes_counts_at_once_and_still_when_it_is_committed(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("mem_1", "edited by hand"), memory("new", "new by hand"))
        assert one.counting(ours) == {"mem_1", "new"}
    async with person(tmp_path / "state") as one:  # killed: nothing was saved at an end
        commit(ours)
        assert one.look(ours) == ({"mem_1", "new"}, {})
        git(ours, "checkout", "--quiet", "HEAD~1")
        git(ours, "checkout", "--quiet", "main")
        assert one.look(ours) == ({"mem_1", "new"}, {})


async def test_a_file_that_is_only_meant_to_be_added_is_still_the_person_s(tmp_path):
    """Its entry in the index names a blob of no bytes."""
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("new", "new by hand"))
        git(ours, "add", "--intent-to-add", "--all")
        assert one.counting(ours) == {"mem_1", "new"}


@pytest.mark.parametrize(
    "command", [("add", "--all"), ("commit", "--quiet", "--all", "-m", "quick"), ("stash",)]
)
async def test_what_git_holds_at_the_first_look_is_asked_about_even_if_the_person_wrote_it(tmp_path, command):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("mem_1", "edited by hand"))
        git(ours, *command)
        if command == ("stash",):
            git(ours, "stash", "pop")
        assert one.look(ours) == (set(), {"mem_1": provenance.FROM_GIT})


async def test_what_git_brought_stays_withheld_after_git_has_pruned_it(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        their_side(ours, tmp_path / "theirs")
        git(ours, "restore", "--source=mate/pr", ".")
        assert set(one.look(ours)[1].values()) == {provenance.FROM_GIT}
    prune(ours)
    async with person(tmp_path / "state") as one:
        assert one.look(ours) == (set(), {"mem_1": provenance.FROM_GIT, "evil": provenance.FROM_GIT})


async def test_what_a_branch_brought_into_a_trusted_root_stays_withheld_after_git_has_pruned_it(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        await one.trust.trust(os.path.realpath(ours), "follow")
        their_side(ours, tmp_path / "theirs")
        git(ours, "restore", "--source=mate/pr", ".")
        assert one.look(ours) == (set(), dict.fromkeys(("mem_1", "evil"), provenance.OTHER_BRANCH))
        prune(ours)
        assert one.look(ours) == (set(), dict.fromkeys(("mem_1", "evil"), provenance.OTHER_BRANCH))
        git(ours, "pull", "--quiet", f"file://{tmp_path / 'theirs'}", "pr", check=False)
        git(ours, "checkout", "--quiet", "--", ".", check=False)
        git(ours, "fetch", "--quiet", f"file://{tmp_path / 'theirs'}", "pr")
        git(ours, "reset", "--quiet", "--hard", "FETCH_HEAD")
        assert one.look(ours) == ({"mem_1", "evil"}, {})  # it is merged now


def prune(top: Path) -> None:
    git(top, "update-ref", "-d", "refs/remotes/mate/pr")
    (top / ".git/FETCH_HEAD").unlink(missing_ok=True)
    git(top, "reflog", "expire", "--expire=now", "--all")
    git(top, "gc", "--quiet", "--prune=now")


async def test_a_revoked_root_forgets_nothing_of_what_git_brought(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        their_side(ours, tmp_path / "theirs")
        git(ours, "restore", "--source=mate/pr", ".")
        assert one.counting(ours) == set()
        await one.trust.trust(os.path.realpath(ours))
        assert one.counting(ours) == {"mem_1", "evil"}
        prune(ours)
        await one.trust.revoke(os.path.realpath(ours))
        assert one.look(ours) == (set(), {"mem_1": provenance.FROM_GIT, "evil": provenance.FROM_GIT})


# --- in another form --------------------------------------------------------------------------------------

FORMS = {
    "autocrlf": ("", {"core.autocrlf": "true"}, "one\ntwo {}\n"),
    "eol": ("*.md text eol=crlf\n", {}, "one\ntwo {}\n"),
    "eol of a mixture": ("*.md text eol=crlf\n", {}, "one\r\ntwo {}\nthree\n"),
    "text of a mixture": ("*.md text\n", {"core.autocrlf": "true"}, "one\r\ntwo {}\nthree\n"),
    "crlf of a mixture": ("*.md crlf\n", {"core.autocrlf": "true"}, "one\r\ntwo {}\nthree\n"),
    "ident": ("*.md ident\n", {}, "$Id$ two {}\n"),
    "ident and eol": ("*.md ident text eol=crlf\n", {}, "$Id$\ntwo {}\n"),
    "encoding": ("*.md working-tree-encoding=ISO-8859-1\n", {}, "\u00e9 two {}\n"),
    "another encoding": ("*.md working-tree-encoding=UTF-7\n", {}, "\u00e9 1 + 2 {}\n"),
    "filter": ("*.md filter=upper\n", {"filter.upper.smudge": "sed s/two/three/"}, "one\ntwo {}\n"),
}


@pytest.mark.parametrize("state", ["own", "follow"])
@pytest.mark.parametrize(
    "leaves", ["attributes in place", pytest.param("attributes in the index", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("form", FORMS)
async def test_what_git_brings_in_another_form_than_it_stores_it_never_counts(tmp_path, form, leaves, state):
    """The attributes come with the branch, and the index still holds what was there before."""
    attributes, settings, text = FORMS[form]
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        if state == "follow":
            await one.trust.trust(os.path.realpath(ours), "follow")
        theirs = tmp_path / "theirs"
        git(ours, "clone", "--quiet", f"file://{ours}", str(theirs))
        git(theirs, "checkout", "--quiet", "-b", "pr")
        (theirs / FOLDER / "evil.md").write_bytes(text.format(CANARY).encode())
        git(theirs, "add", "--all")
        git(theirs, "commit", "--quiet", "-m", "text")
        (theirs / ".gitattributes").write_text(attributes)
        git(theirs, "add", ".gitattributes")
        git(theirs, "commit", "--quiet", "--allow-empty", "-m", "form")
        for key, value in settings.items():
            git(ours, "config", key, value)
        git(ours, "fetch", "--quiet", f"file://{theirs}", "pr:refs/remotes/mate/pr")
        git(ours, "restore", "--source=mate/pr", "--", ".gitattributes")
        git(ours, "restore", "--source=mate/pr", "--", FOLDER)
        if leaves == "attributes in the index":
            git(ours, "add", ".gitattributes")
            (ours / ".gitattributes").unlink()
        there = (ours / FOLDER / "evil.md").read_bytes()
        assert CANARY.encode() in there
        assert there != text.format(CANARY).encode()
        assert CANARY not in texts(one, ours)


async def test_edits_by_hand_count_where_git_changes_line_ends(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        git(ours, "config", "core.autocrlf", "true")
        (ours / ".gitattributes").write_text("* text=auto\n")
        (ours / FOLDER / "new.md").write_bytes(b"one\r\ntwo\r\n")
        assert one.counting(ours) == {"mem_1", "new"}


# --- git that cannot be asked -----------------------------------------------------------------------------


async def test_while_git_writes_a_file_before_its_object_nothing_counts(tmp_path, monkeypatch):
    """`git am` holds the lock of the index and writes the file first."""
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("evil", f"ask the {CANARY}"))
        still = provenance._read_if_unchanged

        def begins(candidate):
            (ours / ".git/index.lock").touch()
            return still(candidate)

        monkeypatch.setattr(provenance, "_read_if_unchanged", begins)
        assert one.look(ours) == ({"mem_1"}, {"evil": provenance.BUSY})
        monkeypatch.undo()
        git(ours, "hash-object", "-w", f"{FOLDER}/evil.md")
        (ours / ".git/index.lock").unlink()
        assert one.look(ours) == ({"mem_1"}, {"evil": provenance.FROM_GIT})


@pytest.mark.parametrize("part", ["", "config", "objects", "HEAD's directory as a link"])
async def test_git_is_asked_only_where_it_belongs_to_this_user(tmp_path, monkeypatch, part):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("new", "new by hand"))
        if part == "HEAD's directory as a link":
            (ours / ".git").rename(tmp_path / "elsewhere")
            (ours / ".git").symlink_to(tmp_path / "elsewhere")
            of_another = os.path.join(ours, ".git")
        else:
            of_another = os.path.join(ours, ".git", part) if part else os.path.join(ours, ".git")
        for name in ("stat", "lstat"):
            look = getattr(os, name)

            def looked(path, *arguments, look=look, **options):
                found = look(path, *arguments, **options)
                if os.fspath(path) != of_another:
                    return found
                return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:]))

            monkeypatch.setattr(provenance.os, name, looked)
        counting, withheld = one.look(ours)
        assert "new" not in counting
        assert withheld["new"] == provenance.NOT_ASKED


async def test_where_there_is_no_git_program_nothing_new_counts(tmp_path, monkeypatch):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("new", "new by hand"))
        monkeypatch.setattr("forged.trust.git._PROGRAMS", ())
        assert one.look(ours) == ({"mem_1"}, {"new": "there is no git"})
        monkeypatch.undo()
        assert one.counting(ours) == {"mem_1", "new"}


@pytest.mark.parametrize("loss", ["alternate", "objects", "alternates that are a pipe"])
async def test_where_objects_may_be_missing_nothing_new_counts(tmp_path, loss):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        their_side(ours, tmp_path / "theirs")
        objects = ours / ".git/objects"
        git(ours, "restore", "--source=mate/pr", ".")
        match loss:
            case "alternate":
                prune(ours)
                (objects / "info/alternates").write_text(f"{tmp_path}/not-mounted\n")
            case "objects":
                objects.rename(tmp_path / "objects")
            case _:
                prune(ours)
                os.mkfifo(objects / "info/alternates")
        counting, withheld = one.look(ours)
        assert counting == set()
        assert set(withheld) == {"mem_1", "evil"}


async def test_in_a_partial_clone_nothing_is_fetched_and_edits_by_hand_count(tmp_path):
    async with person(tmp_path / "state") as one:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        git(theirs, "init", "--quiet")
        (theirs / "code").write_text("x")
        commit(theirs)
        git(theirs, "config", "uploadpack.allowFilter", "true")
        ours = tmp_path / "ours"
        git(theirs, "clone", "--quiet", "--filter=blob:none", f"file://{theirs}", str(ours))
        trap = trapped(tmp_path)
        git(ours, "config", "remote.origin.uploadpack", str(trap))
        assert one.counting(ours) == set()
        await written(one, ours, MINE)
        put(ours, memory("new", "new by hand"))
        assert one.counting(ours) == {"mem_1", "new"}
    assert not (tmp_path / "ran").exists()


def trapped(folder: Path) -> Path:
    trap = folder / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    trap.chmod(0o755)
    return trap


async def test_no_program_of_the_repository_is_run(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        trap = trapped(tmp_path)
        (ours / ".gitattributes").write_text("*.md filter=trap diff=trap merge=trap\n")
        for key in (
            *(
                "core.fsmonitor",
                "core.sshCommand",
                "core.pager",
                "core.editor",
                "diff.external",
                "core.askPass",
            ),
            *("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.textconv"),
            *("merge.trap.driver", "core.alternateRefsCommand", "credential.helper", "alias.cat-file"),
            *("remote.origin.uploadpack", "core.gitProxy", "uploadpack.packObjectsHook"),
        ):
            git(ours, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
        git(ours, "config", "core.hooksPath", str(tmp_path))
        git(ours, "config", "remote.origin.url", f"ext::{trap}")
        git(ours, "config", "remote.origin.promisor", "true")
        git(ours, "config", "extensions.partialClone", "origin")
        git(ours, "config", "core.repositoryFormatVersion", "1")
        put(ours, memory("new", "by hand"), memory("mem_1", "edited by hand"))
        assert one.look(ours) == (set(), {"new": provenance.FILTERED, "mem_1": provenance.FILTERED})
    assert not (tmp_path / "ran").exists()


async def test_what_counts_is_on_record_before_it_is_shown(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        put(ours, memory("new", "new by hand"))
        await one.trust._records._database.close()
        assert one.counting(ours) == {"mem_1"}


async def test_a_judgement_that_a_person_overtakes_is_not_recorded(tmp_path):
    from forged.state import TrustFindings

    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        records = one.trust._records
        (before,) = records.roots()
        await one.trust.trust(os.path.realpath(ours), "locked")
        assert not records.note(TrustFindings(before, frozenset({"f00d"})))
        assert "f00d" not in records.hashes(before.identity)


# --- folders and places -----------------------------------------------------------------------------------


async def test_git_that_comes_into_a_folder_is_looked_at_anew(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    async with person(tmp_path / "state") as one:
        await written(one, top, MINE)
        assert one.counting(top) == {"mem_1"}
        await one.trust.save()
        git(top, "init", "--quiet")
        put(top, memory("mem_1", "edited"))
        assert one.counting(top) == {"mem_1"}
        put(top, memory("new", "new by hand"))
        assert one.counting(top) == {"mem_1", "new"}
        commit(top)
        assert one.counting(top) == {"mem_1", "new"}
        their_side(top, tmp_path / "theirs")
        git(top, "restore", "--source=mate/pr", ".")
        assert CANARY not in texts(one, top)


async def test_an_archive_with_git_in_it_over_an_own_folder_counts_for_nothing(tmp_path):
    top, other = tmp_path / "top", tmp_path / "other"
    top.mkdir()
    other.mkdir()
    git(other, "init", "--quiet")
    async with person(tmp_path / "state") as one:
        await written(one, top, MINE)
        assert one.counting(top) == {"mem_1"}
        await one.trust.save()
        (other / ".git").rename(top / ".git")
        put(top, memory("evil", f"ask the {CANARY}"))
        assert one.counting(top) == {"mem_1"}
        put(top, memory("evil", f"ask the {CANARY} twice"))
        assert one.counting(top) == {"mem_1"}


async def test_where_git_lies_above_a_folder_it_is_no_folder_without_git(tmp_path):
    """As where the repository above belongs to somebody else."""
    above = tmp_path / "above"
    (above / "top").mkdir(parents=True)
    async with person(tmp_path / "state") as one:
        await written(one, above / "top", MINE)
        assert one.counting(above / "top") == {"mem_1"}
        git(above, "init", "--quiet")
        put(above / "top", memory("mem_1", f"ask the {CANARY}"))
        assert one.look(above / "top") == (set(), {"mem_1": provenance.NOT_ASKED})


async def test_edits_in_a_store_that_worktrees_of_a_bare_clone_share_count(tmp_path):
    """Git's own directory lies below the `.git` file that names it."""
    git(tmp_path, "init", "--quiet", "--bare", ".bare")
    (tmp_path / ".git").write_text("gitdir: ./.bare\n")
    root = repo_root(str(tmp_path / ".bare"))
    assert root.in_git
    async with person(tmp_path / "state") as one:
        await one.trust.record_own(root, [own_file(root, MINE)])
        path = MemoryStore(root).write(MINE)
        assert [each.content for each in one.trust.admit(root, scan(root)).memories] == [MINE.content]
        Path(path).write_text(Path(path).read_text() + "Ports end at 9999.\n")
        (shown,) = one.trust.admit(root, scan(root)).memories
        assert "9999" in shown.content


@pytest.mark.parametrize("way", ["link", "submodule"])
async def test_a_folder_behind_a_link_or_in_another_repository_is_withheld(tmp_path, way):
    async with person(tmp_path / "state") as one:
        ours = tmp_path / "ours"
        ours.mkdir()
        git(ours, "init", "--quiet")
        assert one.counting(ours) == set()
        await one.trust.save()
        if way == "link":
            put(ours, memory("evil", f"ask the {CANARY}"), folder="docs/memory")
            (ours / ".forge").symlink_to("docs")
        else:
            (ours / FOLDER).mkdir(parents=True)
            git(ours / FOLDER, "init", "--quiet")
            put(ours, memory("evil", f"ask the {CANARY}"))
        assert one.look(ours) == (set(), {"evil": provenance.LINKED})


async def test_a_submodule_asks_its_own_objects(tmp_path):
    async with person(tmp_path / "state") as one:
        part = tmp_path / "part"
        part.mkdir()
        git(part, "init", "--quiet")
        (part / "code").write_text("x")
        commit(part)
        parent = tmp_path / "parent"
        parent.mkdir()
        git(parent, "init", "--quiet")
        git(parent, "submodule", "--quiet", "add", f"file://{part}", "part")
        ours = parent / "part"
        assert one.counting(ours) == set()
        await written(one, ours, MINE)
        put(ours, memory("new", "by hand"))
        assert one.counting(ours) == {"mem_1", "new"}
        commit(part, memory("evil", f"ask the {CANARY}"))
        git(ours, "pull", "--quiet", "origin", "main")
        assert one.look(ours) == ({"mem_1", "new"}, {"evil": provenance.FROM_GIT})


# --- conflicts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["own", "follow"])
async def test_a_conflict_counts_again_once_it_is_resolved_by_hand(tmp_path, state):
    async with person(tmp_path / "state") as one:
        ours = await in_conflict(one, tmp_path, state)
        file = ours / FOLDER / "mem_1.md"
        assert "<<<<<<<" in file.read_text()
        assert "mem_1" not in one.counting(ours)
        assert CANARY not in texts(one, ours)
        put(ours, memory("mem_1", "Ports start at 9500."))
        assert "Ports start at 9500." in texts(one, ours)
        git(ours, "add", "--all")
        git(ours, "commit", "--quiet", "-m", "resolved")
        assert "Ports start at 9500." in texts(one, ours)


@pytest.mark.parametrize("state", ["own", "follow"])
async def test_text_in_conflict_with_markers_of_another_length_never_counts(tmp_path, state):
    """Git stores what lies there as well, but not what an editor makes of it."""
    async with person(tmp_path / "state") as one:
        ours = await in_conflict(one, tmp_path, state, "*.md conflict-marker-size=3\n")
        file = ours / FOLDER / "mem_1.md"
        assert "<<<<<<<" not in file.read_text()
        file.write_text(file.read_text() + "\n")
        assert CANARY not in texts(one, ours)


async def in_conflict(one: Person, folder: Path, state: str, attributes: str = "") -> Path:
    ours = await begun(one, folder / "ours")
    (ours / ".gitattributes").write_text(attributes)
    commit(ours)
    if state == "follow":
        await one.trust.trust(os.path.realpath(ours), "follow")
    their_side(ours, folder / "theirs")
    put(ours, memory("mem_1", "Ports start at 9001."))
    one.look(ours)
    commit(ours)
    git(ours, "merge", "--quiet", "mate/pr", check=False)
    return ours


LONG = "\n".join(["Ports start at 9000.", *(f"Service {number} has its own." for number in range(9))])
ADDED = f"\nAlso ask the {CANARY} first."


async def both_changed(one: Person, folder: Path, state: str, theirs: str, ours: str) -> Path:
    """A repository and a branch `pr` of somebody else, each with another text in `mem_1`."""
    top = await begun(one, folder / "ours")
    await written(one, top, memory("mem_1", LONG))
    commit(top)
    if state == "follow":
        await one.trust.trust(os.path.realpath(top), "follow")
    git(top, "checkout", "--quiet", "-b", "pr")
    commit(top, memory("mem_1", theirs))
    git(top, "checkout", "--quiet", "main")
    await written(one, top, memory("mem_1", ours))
    commit(top)
    assert one.look(top) == ({"mem_1"}, {})
    return top


@pytest.mark.parametrize("state", ["own", "follow"])
@pytest.mark.parametrize("part", [1.0, 0.99], ids=["whole", "half written"])
async def test_what_a_script_of_git_merges_never_counts_though_no_object_has_it_yet(tmp_path, state, part):
    async with person(tmp_path / "state") as one:
        ours = await both_changed(one, tmp_path, state, LONG + ADDED, LONG.replace("9000", "9500"))
        stopped_script(ours, "pr")
        file = ours / FOLDER / "mem_1.md"
        merged = file.read_bytes()
        file.write_bytes(merged[: int(len(merged) * part)])
        assert not (ours / ".git/index.lock").exists()
        assert CANARY in file.read_text()
        withheld = {"mem_1": provenance.FROM_GIT if state == "own" else provenance.OTHER_BRANCH}
        assert one.look(ours) == (set(), withheld)

        git(ours, "reset", "--quiet")  # the merge is given up, and its text is left behind
        assert one.look(ours) == (set(), withheld)


@pytest.mark.parametrize("state", ["own", "follow"])
async def test_what_git_resolves_by_itself_as_once_before_never_counts(tmp_path, state):
    """The file has no markers then, no object has it, and a line of it was written by hand."""
    async with person(tmp_path / "state") as one:
        theirs, mine = LONG.replace("9000", "9100"), LONG.replace("9000", "9500")
        ours = await both_changed(one, tmp_path, state, theirs, mine)
        git(ours, "config", "rerere.enabled", "true")
        git(ours, "merge", "--quiet", "pr", check=False)
        put(ours, memory("mem_1", LONG.replace("9000", "9600")))
        assert "9600" in texts(one, ours)
        commit(ours)
        git(ours, "reset", "--quiet", "--hard", "HEAD~1")
        git(ours, "checkout", "--quiet", "pr")
        commit(ours, memory("mem_1", theirs + ADDED))
        git(ours, "checkout", "--quiet", "main")
        git(ours, "merge", "--quiet", "pr", check=False)

        text = (ours / FOLDER / "mem_1.md").read_text()
        assert "9600" in text
        assert CANARY in text
        assert "<<<<<<<" not in text
        assert one.counting(ours) == set()


@pytest.mark.parametrize("state", ["own", "follow"])
async def test_a_merge_that_a_person_edits_counts_and_sides_chosen_by_hand_do_not(tmp_path, state):
    async with person(tmp_path / "state") as one:
        ours = await both_changed(one, tmp_path, state, LONG + ADDED, LONG.replace("9000", "9500"))
        stopped_script(ours, "pr")
        file = ours / FOLDER / "mem_1.md"
        text = file.read_text()
        file.write_text(text.replace("\n", "\r\n") + "\n\n")
        assert one.counting(ours) == set()
        file.write_text(text.replace(ADDED, "\nAsk nobody."))
        assert "Ask nobody." in texts(one, ours)


@pytest.mark.parametrize("lacks", ["git lacks a side of a merge", "git keeps more resolutions"])
async def test_where_git_cannot_say_what_it_merges_nothing_new_counts(tmp_path, monkeypatch, lacks):
    async with person(tmp_path / "state") as one:
        ours = await both_changed(one, tmp_path, "own", LONG + ADDED, LONG.replace("9000", "9500"))
        stopped_script(ours, "pr")
        if "side" in lacks:
            blob = git(ours, "rev-parse", f":3:{FOLDER}/mem_1.md")
            (ours / ".git/objects" / blob[:2] / blob[2:]).unlink()
        else:
            (ours / ".git/rr-cache/1").mkdir(parents=True)
            (ours / ".git/rr-cache/1/postimage").write_text("x")
            (ours / ".git/rr-cache/none").write_text("x")
            monkeypatch.setattr("forged.trust.git_files._MOST_KEPT", 0)
        counting, withheld = one.look(ours)
        assert counting == set()
        assert withheld["mem_1"].startswith(lacks)


async def test_a_side_that_is_a_repository_has_no_lines(tmp_path):
    async with person(tmp_path / "state") as one:
        ours = await both_changed(one, tmp_path, "own", LONG + ADDED, LONG.replace("9000", "9500"))
        stopped_script(ours, "pr")
        path = f"{FOLDER}/mem_1.md"
        base, mine = (git(ours, "rev-parse", f":{stage}:{path}") for stage in (1, 2))
        git(ours, "update-index", "--force-remove", path)
        lines = (f"100644 {base} 1\t{path}", f"100644 {mine} 2\t{path}", f"160000 {'1' * 40} 3\t{path}")
        git(ours, "update-index", "--index-info", given="\n".join(lines) + "\n")
        put(ours, memory("mem_1", "Ports start at 9600."))
        assert "9600" in texts(one, ours)


# --- a property -------------------------------------------------------------------------------------------


def _git_moves(ours: Path, one: random.Random) -> tuple[str, ...]:
    ref = one.choice(["mate/pr", "main", "HEAD~1", "mate/other"])
    return one.choice(
        [
            ("checkout", "-f", "--detach", ref),
            ("checkout", "-f", "main"),
            ("restore", f"--source={ref}", "."),
            ("checkout", ref, "--", "."),
            ("merge", "-m", "x", ref),
            ("merge", "-X", "theirs", "-m", "x", ref),
            ("merge", "--abort"),
            ("cherry-pick", "-n", ref),
            ("cherry-pick", "--abort"),
            ("reset", "--hard"),
            ("stash", "--include-untracked"),
            ("stash", "pop"),
            ("add", "--all"),
            ("commit", "--quiet", "-a", "-m", "x"),
            ("rebase", ref),
            ("rebase", "--abort"),
            ("gc", "--quiet", "--prune=now"),
            ("repack", "-a", "-d", "-q"),
        ]
    )


@pytest.mark.parametrize("seed", range(times(8, 3)))
async def test_text_that_only_git_brought_never_counts_whatever_is_done(tmp_path, seed):
    """Any sequence of git's commands and edits by hand, with a look now and then."""
    chance = random.Random(seed)
    async with person(tmp_path / "state") as one:
        ours = await begun(one, tmp_path / "ours")
        their_side(ours, tmp_path / "theirs")
        git(tmp_path / "theirs", "checkout", "--quiet", "-b", "other")
        (tmp_path / "theirs" / FOLDER / "other.md").write_text(f"The {CANARY} has another branch.\n")
        commit(tmp_path / "theirs")
        git(ours, "fetch", "--quiet", f"file://{tmp_path / 'theirs'}", "other:refs/remotes/mate/other")
        for step in range(25):
            if chance.random() < 0.3:
                name = chance.choice(["mem_1", "hand", "evil"])
                put(ours, memory(name, f"by hand {step}"))
            else:
                git(ours, *_git_moves(ours, chance), check=False)
            if chance.random() < 0.6:
                assert CANARY not in texts(one, ours), step
        assert CANARY not in texts(one, ours)
