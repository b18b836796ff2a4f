"""Writing and removing memories: durable, never over another, never more than asked."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forged.errors import MemoryExists, StoreError
from forged.files.frontmatter import MAX_FILE_BYTES
from forged.files.roots import Root
from forged.files.scan import scan
from forged.files.store import MemoryStore
from forged.memory import Memory, Scope, new_id
from tests.faults.amount import times
from tests.files import syscalls

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def memory(id_: str = "mem_1", content: str = "text", **fields: object) -> Memory:
    plain = Memory(
        id_, content, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 1, "repo", "patterns", "", "explicit"
    )
    return msgspec.structs.replace(plain, **fields)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    return path


@pytest.fixture
def store(top: Path) -> MemoryStore:
    return MemoryStore(Root(str(top), Scope.REPO), clock=lambda: NOW)


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    return tmp_path / "state/trash"


# Writing.


def test_taken_id_is_refused_and_the_old_file_kept(store):
    path = Path(store.write(memory(content="old")))
    before = path.read_bytes()

    with pytest.raises(MemoryExists):
        store.write(memory(content="new"))

    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "id_", ["", "mem_", "../mem_1", "mem_../../x", "mem_a/b", "mem_a\0", "mem_a\n", "mem_" + "a" * 65, "x"]
)
def test_id_outside_the_strict_pattern_is_refused(store, top, id_):
    with pytest.raises(StoreError, match="not a valid id for a new memory"):
        store.write(memory(id_))

    assert os.listdir(top) == []


@settings(
    deadline=None, max_examples=times(100, 25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"(mem_)?[./a\\\0~-]{1,20}")))
def test_no_id_reaches_outside_the_directory(store, top, id_):
    try:
        path = store.write(memory(id_))
    except StoreError:
        path = ""

    assert not path or os.path.dirname(os.path.realpath(path)) == str(top / ".forge/memory")
    assert set(os.listdir(top)) <= {".forge"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"version": 0}, "whole number"),
        ({"content": "x" * MAX_FILE_BYTES}, "256 KiB"),
        ({"category": "x" * 70_000}, "64 KiB"),
    ],
    ids=["version", "content", "category"],
)
def test_memory_that_could_not_be_read_back_is_not_acknowledged(store, top, broken, reason):
    with pytest.raises(StoreError, match=reason):
        store.write(memory(**broken))

    assert os.listdir(top) == []


def test_linked_directory_outside_the_repo_is_not_written_to(store, top, tmp_path):
    (tmp_path / "outside").mkdir()
    (top / ".forge").symlink_to(tmp_path / "outside")

    with pytest.raises(StoreError, match="leads out"):
        store.write(memory())

    assert os.listdir(tmp_path / "outside") == []


@syscalls.needs_seccomp
def test_full_disk_is_explained():
    script = """
import errno, tempfile
from forged.errors import StoreError
from forged.memory import Memory, Scope
from forged.files.roots import Root
from forged.files.store import MemoryStore
from tests.files.syscalls import fail
memory = Memory("mem_1", "text", "", "", 1, "repo", "patterns", "", "explicit")
with tempfile.TemporaryDirectory() as top:
    fail(fsync=errno.ENOSPC)
    try:
        MemoryStore(Root(top, Scope.REPO)).write(memory)
    except StoreError as error:
        assert "free some and try again" in str(error), error
    else:
        raise AssertionError("written")
"""
    child = syscalls.run(script)

    assert child.returncode == 0, child.stderr


def test_one_of_many_writers_of_an_id_wins(store, top):
    def attempt(number: int) -> int | None:
        try:
            store.write(memory(content=f"writer {number}"))
        except MemoryExists:
            return None
        return number

    with ThreadPoolExecutor(20) as pool:
        winners = [number for number in pool.map(attempt, range(20)) if number is not None]

    assert len(winners) == 1
    assert scan(store.root).memories[0].content == f"writer {winners[0]}"
    assert os.listdir(top / ".forge/memory") == ["mem_1.md"]


WRITE_FOR_EVER = """
import sys
from forged.memory import Memory, Scope, new_id
from forged.files.roots import Root
from forged.files.store import MemoryStore
store = MemoryStore(Root(sys.argv[1], Scope.REPO))
while True:
    memory = Memory(new_id(), "line\\n" * 4000 + "last line", "", "", 1, "repo", "patterns", "", "explicit")
    store.write(memory)
    print(memory.id, flush=True)
"""


def test_killed_writer_leaves_whole_files_and_every_acknowledged_one(tmp_path):
    chance = random.Random(14)
    kills, writers = times(30, 9), 3
    acknowledged: set[str] = set()
    for _ in range(kills // writers):
        running = [start_writer(tmp_path / "repo") for _ in range(writers)]
        for writer in running:
            acknowledged |= {line.strip() for line in killed(writer, after_s=chance.uniform(0.0, 0.03))}

    snapshot = scan(Root(str(tmp_path / "repo"), Scope.REPO))

    assert snapshot.problems == ()
    assert {memory.content[-9:] for memory in snapshot.memories} == {"last line"}
    assert acknowledged <= {memory.id for memory in snapshot.memories}
    assert len(acknowledged) >= kills


def start_writer(top: Path) -> subprocess.Popen[str]:
    top.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(syscalls.REPO)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(top)], stdout=subprocess.PIPE, text=True, env=environment
    )


def killed(writer: subprocess.Popen[str], after_s: float) -> list[str]:
    """Kill a writer that has begun, at a time of the caller's choice; what it acknowledged."""
    with writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            writer.wait(after_s)
        writer.kill()
        # Not `communicate`: that begins behind what came with the first line, maybe in the middle of another.
        return [first, *(line for line in writer.stdout if line.endswith("\n"))]


# Removing.


def test_forgotten_memory_lies_in_the_trash_as_it_was(store, trash):
    path = Path(store.write(memory()))
    data = path.read_bytes()

    removed = store.move_to_trash(scan(store.root), {"mem_1"}, str(trash))

    kept = trash / "20270115T080000Z-mem_1/mem_1.md"
    assert [(item.id, item.path, item.kept_at) for item in removed] == [("mem_1", str(path), str(kept))]
    assert kept.read_bytes() == data
    assert not path.exists()
    assert trash.stat().st_mode & 0o777 == 0o700


def test_id_of_a_hostile_file_does_not_lead_out_of_the_trash(store, top, trash):
    (top / ".forge/memory").mkdir(parents=True)
    (top / ".forge/memory/a.md").write_text("---\nid: ../../../x\n---\ntext")

    removed = store.move_to_trash(scan(store.root), {"../../../x"}, str(trash))

    assert os.path.realpath(removed[0].kept_at).startswith(f"{trash}/")


def test_file_that_is_gone_already_is_explained(store):
    path = store.write(memory())
    snapshot = scan(store.root)
    os.unlink(path)

    with pytest.raises(StoreError, match=r"cannot delete .*mem_1\.md: No such file"):
        store.erase(snapshot, {"mem_1"})


def test_other_files_are_never_touched_and_no_descriptor_stays_open(store, top, trash):
    directory = top / ".forge/memory"
    directory.mkdir(parents=True)
    theirs = {"note.txt": b"x", "broken.md": b"---\n", "by hand.md": b"text\r\n", ".hidden.md": b"y"}
    for name, data in theirs.items():
        (directory / name).write_bytes(data)
    ids = [new_id() for _ in range(20)]
    open_before = os.listdir("/proc/self/fd")

    for id_ in ids:
        store.write(memory(id_))
    store.move_to_trash(scan(store.root), ids[:10], str(trash))
    store.erase(scan(store.root), ids[10:])
    store.sweep_temps()

    assert {name: (directory / name).read_bytes() for name in os.listdir(directory)} == theirs
    assert len(os.listdir("/proc/self/fd")) == len(open_before)


def test_old_temporary_files_are_swept_and_a_missing_directory_is_fine(store, top):
    assert store.sweep_temps() == 0
    store.write(memory())
    temp = top / ".forge/memory/.forged-0123.tmp"
    temp.write_text("half")
    os.utime(temp, (NOW - 29, NOW - 29))
    assert store.sweep_temps() == 0
    os.utime(temp, (NOW - 31, NOW - 31))

    assert store.sweep_temps() == 1
    assert os.listdir(top / ".forge/memory") == ["mem_1.md"]


@pytest.mark.parametrize("swapped", ["moved away", "a link that leads out", "a link inside"])
def test_a_directory_that_was_swapped_between_two_writes_is_looked_at_again(store, top, tmp_path, swapped):
    store.write(memory("mem_1"))
    folder, elsewhere = top / ".forge/memory", tmp_path / "elsewhere"
    folder.rename(elsewhere if swapped != "a link inside" else top / "inside")
    if swapped == "a link that leads out":
        folder.symlink_to(elsewhere)
        with pytest.raises(StoreError, match="leads out"):
            store.write(memory("mem_2"))
        assert os.listdir(elsewhere) == ["mem_1.md"]
        return
    if swapped == "a link inside":
        folder.symlink_to(top / "inside")

    store.write(memory("mem_2"))
    assert sorted(os.listdir(folder)) == (
        ["mem_2.md"] if swapped == "moved away" else ["mem_1.md", "mem_2.md"]
    )
