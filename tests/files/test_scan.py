"""Scans of real directories: what is read, what is reported, what is left alone."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forged.errors import StoreError
from forged.files import atomic
from forged.files.frontmatter import MAX_FILE_BYTES
from forged.files.non_memories import non_memory_files
from forged.files.roots import Root, open_folder
from forged.files.scan import GRACE_S, QUIET_S, scan
from forged.files.snapshot import Snapshot
from forged.memory import Scope
from tests.faults.amount import times

LATER = 60.0


class Clock:
    """Seconds since the epoch as the store sees them: now, or a chosen time after a file's last change."""

    def __init__(self) -> None:
        self.ahead = LATER  # files of a test are old unless it says otherwise

    def __call__(self) -> float:
        return time.time() + self.ahead

    def set_age(self, path: Path, age_s: float) -> None:
        self.ahead = path.stat().st_mtime + age_s - time.time()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "repo/.forge/memory"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def look(tmp_path: Path, clock: Clock) -> Callable[..., Snapshot]:
    return partial(scan, Root(str(tmp_path / "repo"), Scope.REPO), clock=clock)


def put(directory: Path, name: str, body: str = "text", **keys: str) -> Path:
    """Write a file as an editor does that renames."""
    lines = "".join(f"{key}: {value}\n" for key, value in {"id": name, **keys}.items())
    path = directory / f"{name}.md"
    (directory / "new").write_text(f"---\n{lines}---\n{body}")
    (directory / "new").replace(path)
    return path


def bodies(snapshot: Snapshot) -> list[str]:
    return [memory.content for memory in snapshot.memories]


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {os.path.basename(problem.path): problem.reason for problem in snapshot.problems}


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(
    look, directory, tmp_path, monkeypatch
):
    """Who may write to a cloned repository could have any file of the user's read, and sent to a model."""
    file = put(directory, "a")
    outside = put(tmp_path, "a", "of somebody else")
    opened = os.open

    def open_after_swap(path, *arguments, **keywords):
        if path == file.name and not file.is_symlink():
            file.unlink()
            file.symlink_to(outside)
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", open_after_swap)
    snapshot = look()

    assert file.is_symlink()
    assert bodies(snapshot) == []
    assert "a.md" in reasons(snapshot)


def test_second_folder_that_links_to_the_first_counts_once(look, directory):
    put(directory, "a")
    (directory.parent / "memories").symlink_to("memory")

    snapshot = look()

    assert len(snapshot.memories) == 1
    assert snapshot.problems == ()


# Rescans.


def test_only_changed_files_are_opened_and_the_others_stay_the_same_objects(look, directory):
    for name in ("a", "b"):
        put(directory, name)
    before = look()
    put(directory, "b", "new")
    opened: list[object] = []
    # An audit hook stays for ever; emptying `listening` makes it deaf.
    listening = [opened]
    sys.addaudithook(lambda event, args: [heard.append(args[0]) for heard in listening if event == "open"])

    after = look(before)
    listening.clear()

    assert [name for name in opened if str(name).endswith(".md")] == ["b.md"]
    assert after.changed
    assert after.memories[0] is before.memories[0]
    assert after.memories[1].content == "new"


def test_every_kind_of_change_is_noticed(look, directory):
    path = put(directory, "a", "one!")
    snapshot = look()
    stamp = path.stat().st_mtime_ns

    path.write_text(path.read_text().replace("one!", "two!"))
    os.utime(path, ns=(stamp, stamp))  # same inode, size and mtime
    snapshot = look(snapshot)

    assert bodies(snapshot) == ["two!"]


def test_scan_pauses_between_slices_of_work(look, directory):
    for number in range(300):
        put(directory, f"mem_{number}", category=" '{}'".format("x" * 500))
    pauses = []

    look(pause=lambda: pauses.append(1))

    assert len(pauses) > 10


# Which directories are opened.


def test_directory_link_that_stays_inside_is_followed(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / ".forge").mkdir()
    (tmp_path / ".forge/memory").symlink_to("../docs")

    fd = open_folder(str(tmp_path), ".forge/memory")

    assert os.path.samestat(os.fstat(fd), os.stat(tmp_path / "docs"))
    os.close(fd)


@pytest.mark.parametrize("link", [".forge", ".forge/memory"])
def test_directory_link_that_leads_out_is_a_problem_and_nothing_is_read_or_made(tmp_path, link):
    top, outside = tmp_path / "repo", tmp_path / "outside"
    (top / link).parent.mkdir(parents=True)
    (outside / "memory").mkdir(parents=True)
    put(outside / "memory", "a")
    (top / link).symlink_to(outside / "memory" if link.endswith("memory") else outside)

    snapshot = scan(Root(str(top), Scope.REPO))
    with pytest.raises(StoreError, match="leads out"):
        open_folder(str(top), f"{link}/made", atomic.open_or_make)

    assert snapshot.memories == ()
    assert "leads out" in reasons(snapshot)["memory"]
    assert [path.name for path in sorted(outside.rglob("*"))] == ["memory", "a.md"]


def test_link_to_a_neighbour_whose_name_begins_alike_leads_out(tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo2").mkdir()
    (tmp_path / "repo/.forge").symlink_to("../repo2")

    with pytest.raises(StoreError, match="leads out"):
        open_folder(str(tmp_path / "repo"), ".forge/memory")


# What is not read.


def test_other_names_are_no_memories_and_no_problems(look, directory):
    for name in (".hidden.md", ".md", "a.txt", "a.MD", "a.md~", "a.md.bak", "md"):
        (directory / name).write_text("text")

    snapshot = look()

    assert (snapshot.memories, snapshot.problems) == ((), ())


def test_odd_entries_are_problems_and_the_rest_is_read(look, directory, tmp_path):
    put(directory, "good")
    (tmp_path / "outside.md").write_text("secret")
    (directory / "link.md").symlink_to(tmp_path / "outside.md")
    (directory / "loop.md").symlink_to("loop.md")
    (directory / "dangling.md").symlink_to("nowhere")
    (directory / "device.md").symlink_to("/dev/zero")
    (directory / "folder.md").mkdir()
    os.mkfifo(directory / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket.md"))
    with (directory / "sparse.md").open("wb") as file:
        file.truncate(5 * 2**30)
    (directory / "large.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (directory / "broken.md").write_bytes(b"---\nversion: 1\n---\ncaf\xe9\n")
    Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.md")).write_text("text")

    snapshot = look()

    assert bodies(snapshot) == ["text"]
    assert {name: reason.split(";")[0] for name, reason in reasons(snapshot).items()} == {
        "link.md": "is a symbolic link",
        "loop.md": "is a symbolic link",
        "dangling.md": "is a symbolic link",
        "device.md": "is a symbolic link",
        "folder.md": "is not a regular file",
        "pipe.md": "is not a regular file",
        "socket.md": "is not a regular file",
        "sparse.md": "larger than 256 KiB",
        "large.md": "larger than 256 KiB",
        "broken.md": "not a text file in UTF-8 (see line 4)",
        "caf\\udce9.md": "its name is not UTF-8",
    }
    assert look(snapshot) is snapshot


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_file_of_another_user_is_a_problem(look, directory):
    os.chown(put(directory, "a"), 12345, -1)

    assert reasons(look()) == {"a.md": "belongs to another user"}


def test_unreadable_file_is_a_problem_until_its_mode_changes(look, directory):
    path = put(directory, "a")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    before = look()
    path.chmod(0o600)

    assert "permission denied" in reasons(before)["a.md"]
    assert bodies(look(before)) == ["text"]


def test_directory_that_turns_into_a_file_is_a_problem_and_the_other_is_read(look, directory):
    put(directory, "a")
    other = directory.parent / "memories"
    other.mkdir()
    put(other, "b")
    before = look()
    (directory / "a.md").unlink()
    directory.rmdir()
    directory.write_text("")

    after = look(before)

    assert [memory.id for memory in after.memories] == ["b"]
    assert list(reasons(after)) == ["memory"]


def test_directory_that_cannot_be_listed_for_now_is_a_problem_and_nothing_is_lost(
    look, directory, monkeypatch
):
    put(directory, "a")
    before = look()
    put(directory, "b")
    broken_disk = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as broken:
        broken.setattr(os, "scandir", Mock(side_effect=broken_disk))
        during = look(before)

    assert bodies(during) == ["text"]
    assert reasons(during) == {"memory": f"cannot be listed: {atomic.why(broken_disk)}"}
    assert len(look(during).memories) == 2


# Disagreements.


def test_newest_of_several_files_with_one_id_wins(look, directory):
    other = directory.parent / "memories"
    other.mkdir()
    put(directory, "a", "old", id="mem_1", updated_at="2026-01-01T00:00:00Z")
    put(directory, "b", "newest", id="mem_1", updated_at="2026-01-03T00:00:00+01:00")
    put(other, "mem_1", "newer", updated_at="2026-01-02T00:00:00Z", created_at="2026-01-02T00:00:00Z")

    snapshot = look()

    assert bodies(snapshot) == ["newest"]
    duplicates = {
        os.path.basename(p.path) for p in snapshot.problems if f"same id as {directory}/b.md" in p.reason
    }
    assert duplicates == {"a.md", "mem_1.md"}


@pytest.mark.parametrize("names", [("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")])
@pytest.mark.parametrize(("id_", "count"), [("", 1), ("id: mine\n", 2)])
def test_files_with_names_that_look_the_same_are_a_problem(look, directory, names, id_, count):
    """Of one id one is used; of two ids both, and the names are named."""
    first, second = (directory / f"{name}.md" for name in names)
    first.write_text("---\nversion: 1\n---\none")
    before = look()
    second.write_text(f"---\n{id_}version: 1\n---\ntwo")

    for snapshot in (look(before, frozenset({str(second)})), look(before), look()):
        assert len(snapshot.memories) == count
        problems = [each for each in snapshot.problems if "which is not the file's name" not in each.reason]
        assert len(problems) == 1
        assert {str(first), str(second)} == {
            problems[0].path,
            problems[0].reason.split(" as ")[1].split(",")[0],
        }


# What is no memory.

PASSED_BY = {
    "deploy.MD": "ends in .MD",
    "notes.Md": "ends in .Md",
    "api.markdown": "ends in .markdown",
    "todo.txt": "ends in .txt",
    "README": "has no ending",
    "caf\u00e9.mkd": "ends in .mkd",
    "sub/api.md": "in a subfolder",
    "sub/deep/er/api.md": "in a subfolder",
    "sub/plan.txt": "in a subfolder",
    "md": "has no ending",
}
LEFT_OUT = (
    *(
        "mem_1.md",
        ".hidden.md",
        ".obsidian/app.json",
        ".forged-x.tmp",
        "mem_1.md~",
        "#mem_1.md#",
        ".#mem_1.md",
    ),
    *(
        ".mem_1.md.swp",
        "mem_1.md.swo",
        "4913",
        "mem_1.md.bak",
        "mem_1.md___jb_tmp___",
        "mem_1.md.tmp",
        "sub/x.md~",
    ),
)


@given(
    st.sets(st.sampled_from(sorted(PASSED_BY))),
    st.sets(st.sampled_from(LEFT_OUT)),
    st.sampled_from([".forge/memory", ".forge/memories"]),
)
def test_files_that_a_scan_passes_by_are_named_but_for_copies_of_editors(named, left_out, folder):
    with TemporaryDirectory() as top:
        for name in (*named, *left_out):
            path = Path(top, folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text")
        root = Root(os.path.realpath(top), Scope.REPO)

        found = {each.path: each.reason for each in non_memory_files(root)}
        snapshot = scan(root, clock=Clock())

    assert set(found) == {f"{root.top}/{folder}/{name}" for name in named}
    assert all(PASSED_BY[path.removeprefix(f"{root.top}/{folder}/")] in why for path, why in found.items())
    # Each file is named once: as a memory, by the scan, or here.
    assert not set(found) & {*snapshot.paths, *(each.path for each in snapshot.problems)}


def test_links_and_devices_next_to_memories_are_named_and_not_opened(directory):
    (directory / "far").symlink_to("/")
    (directory / "far.txt").symlink_to("/etc/passwd")
    os.mkfifo(directory / "pipe")
    (directory / "loop").mkdir()
    (directory / "loop/back").symlink_to(directory)

    found = {Path(each.path).name: each.reason.split(";")[0] for each in non_memory_files(_root(directory))}

    link = "is a symbolic link"
    assert found == {"far": link, "far.txt": link, "back": link, "pipe": "is not a regular file"}


def _root(directory: Path) -> Root:
    return Root(str(directory.parents[1]), Scope.REPO)


# Files that are being saved.


HALF = "---\nid: a\nver"


@pytest.mark.parametrize(
    ("saved", "age_s"),
    [(HALF, QUIET_S + 0.1), ("", GRACE_S - 0.5)],
    ids=["half written", "truncated"],
)
def test_file_that_is_being_saved_in_place_keeps_its_last_good_memory(look, directory, clock, saved, age_s):
    path = put(directory, "a", "whole")
    before = look()
    path.write_text(saved)
    clock.set_age(path, age_s)

    during = look(before)

    assert bodies(during) == ["whole"]
    assert during.unsettled
    assert not during.changed
    assert during.problems == ()


def test_file_that_stays_broken_is_a_problem(look, directory, clock):
    path = put(directory, "a", "whole")
    before = look()
    path.write_text(HALF)
    clock.set_age(path, QUIET_S)
    during = look(before)
    clock.set_age(path, GRACE_S + 0.1)

    after = look(during)

    assert after.memories == ()
    assert "closing" in reasons(after)["a.md"]
    assert not after.unsettled


def test_first_half_of_a_text_is_not_taken_for_the_text(look, directory, clock):
    path = put(directory, "a", "old text")
    before = look()
    with path.open("r+") as file:
        file.truncate(0)
        file.write("---\nid: a\n---\nnew ")
        file.flush()
        clock.set_age(path, QUIET_S / 2)
        during = look(before)
        file.write("words")
    clock.set_age(path, QUIET_S + 0.1)
    after = look(during)

    assert (bodies(during), during.unsettled) == (["old text"], True)
    assert (bodies(after), after.unsettled) == (["new words"], False)


def test_file_that_grows_while_it_is_read_is_looked_at_again(look, directory, monkeypatch):
    # The kernel's answer is the seam: a file system where the size lags behind the content.
    path = put(directory, "a")
    real = os.fstat

    def lagging(fd: int) -> os.stat_result:
        status = real(fd)
        return (
            os.stat_result((*status[:6], status.st_size - 1, *status[7:]))
            if status.st_ino == inode
            else status
        )

    inode = path.stat().st_ino
    monkeypatch.setattr(os, "fstat", lagging)
    during = look()
    monkeypatch.undo()
    after = look(during)

    assert (during.memories, during.unsettled) == ((), True)
    assert (bodies(after), after.unsettled) == (["text"], False)


# Scans of the files that a watcher named.


NAMES = ("a", "b", "c", "d")
ACTIONS = st.sampled_from(
    (
        "write",
        "write other id",
        "break",
        "questionable",
        "touch",
        "remove",
        "link",
        "write in the other folder",
    )
)


@settings(
    max_examples=times(60, 15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(ACTIONS, st.sampled_from(NAMES)), max_size=6), st.sets(st.sampled_from(NAMES)))
def test_naming_the_changed_files_tells_the_same_as_looking_at_all(tmp_path_factory, changes, there):
    top = tmp_path_factory.mktemp("repo")
    folders = [top / ".forge/memory", top / ".forge/memories"]
    for folder in folders:
        folder.mkdir(parents=True)
    look = partial(scan, Root(str(top), Scope.REPO), clock=lambda: time.time() + LATER)
    for name in sorted(there):
        put(folders[0], name)
    before = look()
    for action, name in changes:
        change(action, name, folders)

    named = frozenset(str(folder / f"{name}.md") for folder in folders for _, name in changes)
    some, every = look(before, files=named), look(before)

    assert (some.memories, some.paths, some.problems) == (every.memories, every.paths, every.problems)
    assert some.changed == every.changed


def change(action: str, name: str, folders: list[Path]) -> None:
    path = folders[0] / f"{name}.md"
    match action:
        case "write":
            put(folders[0], name, "new")
        case "write other id":
            put(folders[0], name, id="a")
        case "break":
            (folders[0] / f"{name}.md").write_bytes(b"---\nid: a\n")
        case "questionable":
            put(folders[0], name, scope="user")
        case "touch" if path.is_file():
            os.utime(path, (1, 1))
        case "remove":
            path.unlink(missing_ok=True)
        case "link":
            path.unlink(missing_ok=True)
            path.symlink_to("elsewhere")
        case "write in the other folder":
            put(folders[1], name, "elsewhere")
