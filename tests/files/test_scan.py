"""Scans of real directories: what is read, what is reported, what is left alone."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forged.files.frontmatter import MAX_FILE_BYTES
from forged.files.scan import GRACE_S, QUIET_S, Snapshot
from forged.files.store import MemoryStore

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
def store(tmp_path: Path, clock: Clock) -> MemoryStore:
    return MemoryStore(str(tmp_path / "repo"), "repo", clock=clock)


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


def test_missing_directories_are_an_empty_root(tmp_path):
    snapshot = MemoryStore(str(tmp_path / "nowhere"), "repo").scan()

    assert (snapshot.memories, snapshot.problems) == ((), ())
    assert not (tmp_path / "nowhere").exists()


def test_memories_come_sorted_by_id_with_their_paths(store, directory):
    for name in ("c", "a", "b"):
        put(directory, name)

    snapshot = store.scan()

    assert [memory.id for memory in snapshot.memories] == ["a", "b", "c"]
    assert snapshot.paths == tuple(str(directory / f"{name}.md") for name in "abc")


def test_folder_of_the_go_program_is_read_too(store, directory):
    put(directory, "a")
    other = directory.parent / "memories"
    other.mkdir()
    put(other, "b")

    assert [memory.id for memory in store.scan().memories] == ["a", "b"]


def test_second_folder_that_links_to_the_first_counts_once(store, directory):
    put(directory, "a")
    (directory.parent / "memories").symlink_to("memory")

    snapshot = store.scan()

    assert len(snapshot.memories) == 1
    assert snapshot.problems == ()


# Rescans.


def test_nothing_changed_gives_the_same_snapshot(store, directory):
    put(directory, "a")
    os.mkfifo(directory / "b.md")
    before = store.scan()

    assert store.scan(before) is before


def test_only_changed_files_are_opened(store, directory):
    for name in ("a", "b"):
        put(directory, name)
    before = store.scan()
    put(directory, "b", "new")
    opened: list[object] = []
    # An audit hook stays for ever; emptying `listening` makes it deaf.
    listening = [opened]
    sys.addaudithook(lambda event, args: [heard.append(args[0]) for heard in listening if event == "open"])

    store.scan(before)
    listening.clear()

    assert [name for name in opened if str(name).endswith(".md")] == ["b.md"]


def test_memory_that_did_not_change_stays_the_same_object(store, directory):
    put(directory, "a")
    put(directory, "b")
    before = store.scan()
    put(directory, "b", "new")

    after = store.scan(before)

    assert after.changed
    assert after.memories[0] is before.memories[0]
    assert after.memories[1].content == "new"


def test_file_that_was_only_touched_changes_nothing(store, directory):
    path = put(directory, "a")
    before = store.scan()
    os.utime(path, (1, 1))

    after = store.scan(before)

    assert not after.changed
    assert after.memories[0] is before.memories[0]
    assert store.scan(after) is after


def test_removed_file_is_gone_from_the_next_snapshot(store, directory):
    put(directory, "a")
    path = put(directory, "b")
    before = store.scan()
    path.unlink()

    after = store.scan(before)

    assert after.changed
    assert [memory.id for memory in after.memories] == ["a"]


def test_every_kind_of_change_is_noticed(store, directory):
    path = put(directory, "a", "one!")
    snapshot = store.scan()
    stamp = path.stat().st_mtime_ns

    path.write_text(path.read_text().replace("one!", "two!"))
    os.utime(path, ns=(stamp, stamp))  # same inode, size and mtime
    snapshot = store.scan(snapshot)

    assert bodies(snapshot) == ["two!"]


def test_scan_pauses_between_slices_of_work(store, directory):
    for number in range(300):
        put(directory, f"mem_{number}", category=" '{}'".format("x" * 500))
    pauses = []

    store.scan(None, lambda: pauses.append(1))

    assert len(pauses) > 10


# What is not read.


def test_other_names_are_no_memories_and_no_problems(store, directory):
    for name in (".hidden.md", ".md", "a.txt", "a.MD", "a.md~", "a.md.bak", "md"):
        (directory / name).write_text("text")

    snapshot = store.scan()

    assert (snapshot.memories, snapshot.problems) == ((), ())


def test_odd_entries_are_problems_and_the_rest_is_read(store, directory, tmp_path):
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
    (directory / "broken.md").write_text("---\nversion: x\n---\n")
    Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.md")).write_text("text")

    snapshot = store.scan()

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
        "broken.md": "`version` is 'x'",
        "caf\\udce9.md": "its name is not UTF-8",
    }
    assert store.scan(snapshot) is snapshot


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_file_of_another_user_is_a_problem(store, directory):
    os.chown(put(directory, "a"), 12345, -1)

    assert reasons(store.scan()) == {"a.md": "belongs to another user"}


def test_unreadable_file_is_a_problem_until_its_mode_changes(store, directory):
    path = put(directory, "a")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    before = store.scan()
    path.chmod(0o600)

    assert "permission denied" in reasons(before)["a.md"]
    assert bodies(store.scan(before)) == ["text"]


def test_longest_possible_name_is_read(store, directory):
    put(directory, "x" * 252)

    assert len(store.scan().memories) == 1


@pytest.mark.parametrize("link", [".forge", ".forge/memory"])
def test_directory_that_leads_out_of_the_repo_is_a_problem(tmp_path, link):
    outside = tmp_path / "outside/memory"
    outside.mkdir(parents=True)
    put(outside, "a")
    (tmp_path / "repo" / link).parent.mkdir(parents=True)
    (tmp_path / "repo" / link).symlink_to(outside if link.endswith("memory") else outside.parent)

    snapshot = MemoryStore(str(tmp_path / "repo"), "repo").scan()

    assert snapshot.memories == ()
    assert "leads out" in reasons(snapshot)["memory"]


def test_directory_that_turns_into_a_file_is_a_problem_and_the_other_is_read(store, directory):
    put(directory, "a")
    other = directory.parent / "memories"
    other.mkdir()
    put(other, "b")
    before = store.scan()
    (directory / "a.md").unlink()
    directory.rmdir()
    directory.write_text("")

    after = store.scan(before)

    assert [memory.id for memory in after.memories] == ["b"]
    assert list(reasons(after)) == ["memory"]


def test_problem_of_a_repaired_file_goes_away(store, directory):
    (directory / "a.md").write_text("")
    before = store.scan()
    put(directory, "a")

    after = store.scan(before)

    assert (len(before.problems), after.problems) == (1, ())
    assert bodies(after) == ["text"]


# Disagreements.


def test_scope_is_that_of_the_directory_and_the_disagreement_a_problem(store, directory):
    put(directory, "a", scope="user")

    snapshot = store.scan()

    assert snapshot.memories[0].scope == "repo"
    assert "says scope 'user'" in reasons(snapshot)["a.md"]


def test_newest_of_several_files_with_one_id_wins(store, directory):
    other = directory.parent / "memories"
    other.mkdir()
    put(directory, "a", "old", id="mem_1", updated_at="2026-01-01T00:00:00Z")
    put(directory, "b", "newest", id="mem_1", updated_at="2026-01-03T00:00:00+01:00")
    put(other, "mem_1", "newer", updated_at="2026-01-02T00:00:00Z", created_at="2026-01-02T00:00:00Z")

    snapshot = store.scan()

    assert bodies(snapshot) == ["newest"]
    duplicates = {
        os.path.basename(p.path) for p in snapshot.problems if f"same id as {directory}/b.md" in p.reason
    }
    assert duplicates == {"a.md", "mem_1.md"}


def test_creation_then_folder_then_name_decide_between_equally_new_files(store, directory):
    other = directory.parent / "memories"
    other.mkdir()
    put(other, "a", "second folder", id="mem_1")
    put(directory, "c", "later name", id="mem_1")
    put(directory, "b", "first name", id="mem_1")
    assert bodies(store.scan()) == ["first name"]

    put(directory, "z", "created later", id="mem_1", created_at="2026-01-01T00:00:00Z")
    assert bodies(store.scan()) == ["created later"]


# Files that are being saved.


def test_half_written_file_keeps_its_last_good_memory(store, directory, clock):
    path = put(directory, "a", "whole")
    before = store.scan()
    path.write_text("---\nid: a\nver")
    clock.set_age(path, QUIET_S + 0.1)

    during = store.scan(before)

    assert bodies(during) == ["whole"]
    assert during.unsettled
    assert not during.changed
    assert during.problems == ()


def test_truncated_file_keeps_its_last_good_memory(store, directory, clock):
    path = put(directory, "a", "whole")
    before = store.scan()
    path.write_text("")
    clock.set_age(path, GRACE_S - 0.5)

    assert bodies(store.scan(before)) == ["whole"]


def test_file_that_stays_broken_is_a_problem(store, directory, clock):
    path = put(directory, "a", "whole")
    before = store.scan()
    path.write_text("---\nid: a\nver")
    clock.set_age(path, QUIET_S)
    during = store.scan(before)
    clock.set_age(path, GRACE_S + 0.1)

    after = store.scan(during)

    assert after.memories == ()
    assert "closing" in reasons(after)["a.md"]
    assert not after.unsettled


def test_first_half_of_a_text_is_not_taken_for_the_text(store, directory, clock):
    path = put(directory, "a", "old text")
    before = store.scan()
    with path.open("r+") as file:
        file.truncate(0)
        file.write("---\nid: a\n---\nnew ")
        file.flush()
        clock.set_age(path, QUIET_S / 2)
        during = store.scan(before)
        file.write("words")
    clock.set_age(path, QUIET_S + 0.1)
    after = store.scan(during)

    assert (bodies(during), during.unsettled) == (["old text"], True)
    assert (bodies(after), after.unsettled) == (["new words"], False)


def test_file_that_replaces_another_is_read_at_once(store, directory, clock):
    put(directory, "a", "old")
    before = store.scan()
    clock.set_age(put(directory, "a", "new"), 0)

    after = store.scan(before)

    assert (bodies(after), after.unsettled) == (["new"], False)


def test_new_file_is_read_at_once(store, directory, clock):
    before = store.scan()
    clock.set_age(put(directory, "a"), 0)

    assert bodies(store.scan(before)) == ["text"]


def test_file_dated_in_the_future_is_not_waited_for(store, directory):
    path = put(directory, "a", "old")
    before = store.scan()
    path.write_text("new")
    os.utime(path, (2**33, 2**33))

    assert bodies(store.scan(before)) == ["new"]


def test_file_that_grows_while_it_is_read_is_looked_at_again(store, directory, monkeypatch):
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
    during = store.scan()
    monkeypatch.undo()
    after = store.scan(during)

    assert (during.memories, during.unsettled) == ((), True)
    assert (bodies(after), after.unsettled) == (["text"], False)


# Scans of the files that a watcher named.


def test_only_named_files_are_looked_at(store, directory):
    put(directory, "a", "one")
    put(directory, "b", "two")
    before = store.scan()
    path = put(directory, "a", "one more")
    put(directory, "b", "two more")

    after = store.scan(before, files=frozenset({str(path)}))

    assert after.changed
    assert bodies(after) == ["one more", "two"]
    assert bodies(store.scan(after)) == ["one more", "two more"]


def test_named_file_that_did_not_change_gives_the_same_snapshot(store, directory):
    path = put(directory, "a")
    before = store.scan()

    assert store.scan(before, files=frozenset({str(path)})) is before


def test_first_scan_reads_everything_whatever_was_named(store, directory):
    path = put(directory, "a")
    put(directory, "b")

    assert len(store.scan(None, files=frozenset({str(path)})).memories) == 2


def test_directory_that_could_not_be_listed_before_is_read_whole(store, directory):
    directory.rmdir()
    directory.write_text("in the way")
    before = store.scan()
    directory.unlink()
    directory.mkdir()
    path = put(directory, "a")
    put(directory, "b")

    assert len(store.scan(before, files=frozenset({str(path)})).memories) == 2


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ACTIONS, st.sampled_from(NAMES)), max_size=6), st.sets(st.sampled_from(NAMES)))
def test_naming_the_changed_files_tells_the_same_as_looking_at_all(tmp_path_factory, changes, there):
    top = tmp_path_factory.mktemp("repo")
    folders = [top / ".forge/memory", top / ".forge/memories"]
    for folder in folders:
        folder.mkdir(parents=True)
    store = MemoryStore(str(top), "repo", clock=lambda: time.time() + LATER)
    for name in sorted(there):
        put(folders[0], name)
    before = store.scan()
    for action, name in changes:
        change(action, name, folders)

    named = frozenset(str(folder / f"{name}.md") for folder in folders for _, name in changes)
    some, every = store.scan(before, files=named), store.scan(before)

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
