"""Documents follow their folder, with a real daemon and forgectl: renamed, gone, pruned, and restored."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.cli import commands
from forged.cli.call import Invocation
from forged.documents import text_digest
from forged_client import Client
from forged_client.protocol import Document, DocumentRecord, LocalFile
from tests.faults.amount import times
from tests.support.clock import eventually
from tests.support.daemon import DaemonProcess, Shell, running

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with tempfile.TemporaryDirectory(prefix="fgd") as home, running(Path(home)) as started:
        yield started


@pytest.fixture
def shell(daemon: DaemonProcess, tmp_path: Path) -> Shell:
    return Shell(daemon.home, daemon.socket, tmp_path)


class Folder:
    """A folder of documents with a daemon, and forgectl in this process."""

    def __init__(self, daemon: DaemonProcess, above: Path) -> None:
        self.path = above / f"docs{next(_NUMBERS)}"
        self.path.mkdir()
        self._daemon = daemon

    def forgectl(self, *arguments: str) -> tuple[int, dict[str, object]]:
        call = Invocation(workspace=str(self.path), environ=self._daemon.env, autostart=False)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORGED_SOCKET", self._daemon.socket)
            patch.setenv("HOME", self._daemon.env["HOME"])
            try:
                code = commands.run([*arguments, "--json"], call)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return code, msgspec.json.decode(out.getvalue())

    def ingest(self, *options: str) -> tuple[int, dict[str, object]]:
        return self.forgectl("ingest", str(self.path), *options)

    def records(self) -> tuple[DocumentRecord, ...]:
        with Client(self._daemon.socket) as client:
            return client.documents(below=str(self.path), limit=1000).documents

    def documents(self) -> dict[str, str]:
        """File name and text digest of each document that is recorded for the folder."""
        return {os.path.relpath(each.source, self.path): each.digest for each in self.records()}

    def files(self) -> dict[str, str]:
        return {each.name: text_digest(each.read_text()) for each in self.path.iterdir()}


NAMES, TEXTS = ("a.md", "b.md", "c.md", "d.txt"), ("An ant.", "A bee.", "A cow.")
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("ingest"), st.just(""), st.just("")),
    st.tuples(st.just("prune"), st.just(""), st.just("")),
    st.tuples(st.just("restore"), st.just(""), st.just("")),
)


def change(folder: Path, what: str, name: str, other: str) -> None:
    """Change a file of the folder, if it is there."""
    if what == "write":
        (folder / name).write_text(other)
    elif (folder / name).exists() and what == "rename":
        (folder / name).rename(folder / other)
    elif (folder / name).exists():
        (folder / name).unlink()


def after_ingest(before: dict[str, str], files: dict[str, str]) -> Counter[str]:
    """How many documents of each text an ingest leaves: moves need the text of a file that is gone."""
    gone = Counter(text for name, text in before.items() if name not in files)
    fresh = Counter(text for name, text in files.items() if name not in before)
    return Counter(files.values()) + (gone - fresh)


@given(st.lists(STEPS, min_size=3, max_size=9))
@settings(max_examples=times(60, 12), deadline=None)
def test_documents_are_as_the_files_after_any_changes(daemon, steps):
    """Nothing is lost without a prune but renamed files, and a prune leaves exactly the files."""
    with tempfile.TemporaryDirectory() as above:
        folder, pruned = Folder(daemon, Path(os.path.realpath(above))), dict[str, str]()
        for what, name, other in [*steps, ("ingest", "", ""), ("prune", "", "")]:
            before, files = folder.documents(), folder.files()
            if what in {"write", "rename", "delete"}:
                change(folder.path, what, name, other)
                continue
            if what == "restore":
                if pruned and not pruned.keys() & before.keys():
                    code, _ = folder.forgectl("restore", str(folder.path / next(iter(pruned))))
                    assert (code, folder.documents()) == (0, before | pruned)
                    pruned = {}
                continue
            code, reported = folder.ingest(*(["--prune", "--yes"] if what == "prune" else []))
            now = folder.documents()
            if not files:
                assert (code, now) == (2 if what == "prune" else 0, before)
                continue
            assert code == 0
            assert {name: now[name] for name in files} == files
            expected = after_ingest(before, files)
            if what == "ingest":
                assert Counter(now.values()) == expected
                assert {each["source"] for each in reported["gone"]} == {
                    str(folder.path / name) for name in now.keys() - files.keys()
                }
            else:
                assert now == files
                gone = [os.path.basename(each["source"]) for each in reported["gone"]]
                if gone:
                    pruned = {name: before[name] for name in gone}
                assert Counter(files.values()) + Counter(before[name] for name in gone) == expected
        shutil.rmtree(folder.path)


def test_a_prune_takes_only_what_this_machine_ingested_from_this_very_folder(daemon, tmp_path):
    """Not another folder's with a like name, none without a file on record, none of another disk."""
    folder, other = Folder(daemon, tmp_path), Folder(daemon, tmp_path)
    (tmp_path / f"{folder.path.name}x").mkdir()
    like = tmp_path / f"{folder.path.name}x/a.md"
    for path in (folder.path / "stays.md", folder.path / "gone.md", other.path / "a.md", like):
        path.write_text(f"The text of {path}")
    folder.forgectl("ingest", str(folder.path), str(other.path), str(like.parent))
    with Client(daemon.socket, strict=True) as client:
        elsewhere = LocalFile(str(folder.path / "disk.md"), "99 /mnt/stick")
        named = [
            Document(source=str(folder.path / "program.md"), text="A program's text."),
            Document(source=str(folder.path / "disk.md"), text="On a stick.", file=elsewhere),
        ]
        client.ingest(named)
        before = {each.source for each in client.documents().documents}
        for path in (folder.path / "gone.md", other.path / "a.md", like):
            path.unlink()

        code, reported = folder.ingest("--prune", "--yes")

        after = {each.source for each in client.documents().documents}
    assert code == 0
    assert before - after == {str(folder.path / "gone.md")}
    unseen = {each["source"]: each["stays"] for each in reported["gone"] if each["is_unseen"]}
    assert list(unseen) == [str(folder.path / "disk.md")]
    assert "its disk is not there" in unseen[str(folder.path / "disk.md")]


def test_a_link_to_a_folder_means_the_folder_that_it_leads_to(daemon, tmp_path):
    """Once it leads elsewhere, the documents of the former folder stay."""
    one, other = Folder(daemon, tmp_path), Folder(daemon, tmp_path)
    (one.path / "a.md").write_text("An ant.")
    (one.path / "b.md").write_text("A bee.")
    (other.path / "c.md").write_text("A cow.")
    link = tmp_path / "link"
    link.symlink_to(one.path)
    one.forgectl("ingest", str(link))
    link.unlink()
    link.symlink_to(other.path)
    _, reported = one.forgectl("ingest", str(link), "--prune", "--yes")
    assert reported["gone"] == []

    link.unlink()
    link.symlink_to(one.path)
    (one.path / "a.md").unlink()
    _, reported = one.forgectl("ingest", str(link), "--prune", "--yes")
    assert [each["source"] for each in reported["gone"] if each["removed"]] == [f"{link}/a.md"]


def test_a_file_that_was_moved_to_another_folder_is_gone_here_and_new_there(daemon, tmp_path):
    one, other = Folder(daemon, tmp_path), Folder(daemon, tmp_path)
    (one.path / "a.md").write_text("An ant.")
    (one.path / "b.md").write_text("A bee.")
    one.ingest()
    (one.path / "a.md").rename(other.path / "a.md")

    _, reported = one.forgectl("ingest", str(one.path), str(other.path))

    assert reported["counts"] == {"exists": 1, "new": 1}
    assert [each["source"] for each in reported["gone"]] == [str(one.path / "a.md")]
    assert set(other.documents()) == {"a.md"}


def test_a_folder_under_two_names_has_renames_under_each(daemon, tmp_path):
    folder = Folder(daemon, tmp_path)
    for name in ("a.md", "b.md"):
        (folder.path / name).write_text(f"Of {name}.")
    folder.ingest()
    folder.ingest("--source", "guide")
    (folder.path / "a.md").rename(folder.path / "c.md")

    moved = [folder.ingest(*options)[1]["documents"] for options in ((), ("--source", "guide"))]

    assert [
        (each["moved_from"], each["source"]) for some in moved for each in some if each["moved_from"]
    ] == [
        (str(folder.path / "a.md"), str(folder.path / "c.md")),
        ("guide/a.md", "guide/c.md"),
    ]
    assert len(folder.records()) == 4


def test_a_renamed_file_keeps_its_attributes_and_nothing_of_the_old_name_is_found(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    (folder.path / "old.md").write_text("# Kraken\n\nThe kraken wakes.\n")
    (folder.path / "other.md").write_text("An ant.")
    assert shell.run("ingest", str(folder.path), "--meta", "team=core", "--agent", "ada").code == 0
    (folder.path / "old.md").rename(folder.path / "new.md")

    shown = shell.run("ingest", str(folder.path))

    assert f"moved  {folder.path}/old.md -> {folder.path}/new.md" in shown.out
    with Client(daemon.socket) as client:
        records = {os.path.basename(each.source): each for each in client.documents().documents}
        assert (records["new.md"].metadata, records["new.md"].agent_id) == ({"team": "core"}, "ada")
        assert "old.md" not in records
        found = client.recall("kraken", scopes=("org",)).memories
    assert [each.source for each in found] == [str(folder.path / "new.md")]


def twice_at_once(shell: Shell, *arguments: str) -> list[int]:
    """The exit codes of two processes of the same command."""
    started = [shell.start(*arguments) for _ in range(2)]
    for each in started:
        each.communicate()
    return [each.returncode for each in started]


def test_two_ingests_at_once_and_the_same_prune_twice_come_to_the_same(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    for number in range(30):
        (folder.path / f"{number}.md").write_text(f"Note {number}.")
    assert twice_at_once(shell, "ingest", str(folder.path)) == [0, 0]
    assert folder.documents() == folder.files()
    for number in range(0, 30, 2):
        (folder.path / f"{number}.md").unlink()
    for number in range(1, 30, 2):
        (folder.path / f"{number}.md").rename(folder.path / f"{number}x.md")
    assert twice_at_once(shell, "ingest", str(folder.path), "--prune", "--yes") == [0, 0]
    assert folder.documents() == folder.files()
    assert shell.run("ingest", str(folder.path), "--prune", "--yes").out == "15 documents unchanged\n"


def test_a_prune_asks_at_a_terminal_and_its_undo_brings_all_back_as_it_was(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    for number in range(4):
        (folder.path / f"{number}.md").write_text(f"The auk of number {number} dives.")
    shell.run("ingest", str(folder.path), "--meta", "team=core")
    before = {each.source: each for each in folder.records()}
    for number in range(3):
        (folder.path / f"{number}.md").unlink()

    refused, _ = shell.on_terminal(
        *("ingest", str(folder.path), "--prune"),
        act=lambda terminal: (terminal.wait_for("[y/N]"), terminal.type("n\n")),
    )
    assert (refused, len(folder.documents())) == (1, 4)
    code, shown = shell.on_terminal(
        *("ingest", str(folder.path), "--prune"),
        act=lambda terminal: (terminal.wait_for("[y/N]"), terminal.type("y\n")),
    )
    assert code == 0
    assert "Remove 3 documents of 4, whose files are gone? (7 days in the trash)" in shown
    assert "[####################] ingesting 1/1, 1 part" in shown
    with Client(daemon.socket) as client:
        assert len(client.recall("auk dives", scopes=("org",)).memories) == 1
    listed = shell.run("restore").out
    assert f"{folder.path}/0.md and 2 more" in listed

    back = shell.run("restore", f"{folder.path}/2.md")

    assert back.code == 0
    assert all(f"{folder.path}/{number}.md" in back.out for number in range(3)), back
    assert {each.source: each for each in folder.records()} == before
    with Client(daemon.socket) as client:
        found = client.recall("auk dives", scopes=("org",)).memories
        assert sorted(each.source for each in found) == sorted(before)
        assert {tuple(each.metadata.items()) for each in found} == {(("team", "core"),)}
    assert shell.run("ingest", str(folder.path)).out.count("gone  ") == 3


def test_a_restore_leaves_a_document_alone_that_was_ingested_again_with_another_text(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    for name in ("a.md", "b.md", "c.md"):
        (folder.path / name).write_text(f"Of {name}.")
    shell.run("ingest", str(folder.path))
    (folder.path / "a.md").unlink()
    (folder.path / "b.md").unlink()
    shell.run("ingest", str(folder.path), "--prune", "--yes")
    (folder.path / "a.md").write_text("Another text.")
    shell.run("ingest", str(folder.path))

    back = shell.run("restore", f"{folder.path}/b.md")

    assert "not restored, because another text was ingested since" in back.out
    digests = {"a.md": "Another text.", "b.md": "Of b.md.", "c.md": "Of c.md."}
    assert folder.documents() == {name: text_digest(text) for name, text in digests.items()}
    again = shell.run("restore", f"{folder.path}/a.md")
    assert (again.code, "another text was ingested since" in again.err) == (2, True)


def test_what_is_removed_for_good_is_not_in_the_trash_either(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    for name in ("a.md", "b.md"):
        (folder.path / name).write_text(f"The yak of {name} hums.")
    shell.run("ingest", str(folder.path))
    (folder.path / "a.md").unlink()
    shell.run("ingest", str(folder.path), "--prune", "--yes")
    trash = Path(daemon.home) / ".local/state/forged/trash"
    assert any("yak of a.md" in each.read_text() for each in trash.rglob("*.md"))

    removed = shell.run("ingest", "--remove", str(folder.path / "a.md"))

    assert removed.out == f"removed {folder.path}/a.md (1 part)\n"
    assert not any("yak of a.md" in each.read_text() for each in trash.rglob("*.md"))
    assert shell.run("ingest", "--remove", str(folder.path), "--yes").out.count("removed ") == 1
    assert folder.documents() == {}


def test_an_ingest_that_is_killed_in_a_rename_is_completed_by_the_next_one(daemon, shell, tmp_path):
    folder = Folder(daemon, tmp_path)
    for number in range(40):
        (folder.path / f"{number}.md").write_text(f"Note {number}. " + "word " * 2000)
    shell.run("ingest", str(folder.path))
    for number in range(40):
        (folder.path / f"{number}.md").rename(folder.path / f"{number}x.md")
    started = shell.start("ingest", str(folder.path))
    eventually(lambda: "0x.md" in folder.documents() or started.poll() is not None)
    started.kill()
    started.communicate()
    daemon.kill()
    daemon.start()

    assert shell.run("ingest", str(folder.path)).code == 0
    assert folder.documents() == folder.files()
    with Client(daemon.socket) as client:
        sources = {each.source for each in client.documents(limit=1000).documents}
    assert {each for each in sources if each.startswith(f"{folder.path}/")} == {
        str(folder.path / name) for name in folder.files()
    }
