"""Which files are gone from a folder, and which only cannot be seen now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged.documents import DocumentFile, FolderCheck, find_files, place_of
from forged.documents import folder_check as module


def check(folder: Path) -> FolderCheck:
    walked = [each for each in find_files(str(folder)) if isinstance(each, DocumentFile)]
    return FolderCheck(str(folder), walked)


def state(folder: Path, path: Path, disk: str) -> str:
    found = check(folder).state_of(str(path), disk)
    return "gone" if found.is_gone else found.doubt or "there"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files in two folders, by their real paths."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.md", "sub/b.md", "sub/c.md"):
        (folder / name).write_text(name)
    return folder


def test_a_file_that_was_deleted_with_or_without_its_folder_is_gone(folder):
    places = {name: place_of(str(folder / name)) for name in ("a.md", "sub/b.md", "sub/c.md")}
    (folder / "a.md").unlink()
    (folder / "sub/b.md").unlink()
    assert [state(folder, *places[name]) for name in places] == ["gone", "gone", "there"]

    (folder / "sub/c.md").unlink()
    (folder / "sub").rmdir()
    assert [state(folder, *places[name]) for name in places] == ["gone"] * 3

    (folder / "sub").write_text("a file now")
    assert state(folder, *places["sub/b.md"]) == "gone"


def test_a_link_a_folder_and_an_unreadable_file_in_its_place_are_no_loss(folder):
    for name in ("a.md", "sub/b.md", "sub/c.md"):
        (folder / name).unlink()
    (folder / "a.md").symlink_to("nowhere")
    (folder / "sub/b.md").mkdir()
    os.mkfifo(folder / "sub/c.md")

    assert {state(folder, *place_of(str(each))) for each in (folder / "sub").iterdir()} == {"there"}
    assert state(folder, folder / "a.md", place_of(str(folder / "sub/b.md"))[1]) == "there"


def test_a_file_on_a_disk_that_is_not_there_is_not_gone(folder, monkeypatch):
    """An unplugged disk leaves an empty mount point, which is on the disk around it."""
    mount = str(folder / "sub")
    names = {**dict.fromkeys((mount, f"{mount}/deep"), f"811 {mount}"), str(folder): "801 /"}
    monkeypatch.setattr(module, "disk_of", names.__getitem__)
    path = folder / "sub/gone.md"
    assert state(folder, path, f"811 {mount}") == "gone"

    names |= {mount: "801 /"}
    assert "its disk is not there" in state(folder, path, f"811 {mount}")
    assert "its disk is not there" in state(folder, folder / "sub/deep/gone.md", f"811 {mount}")

    names |= {mount: f"821 {mount}"}
    assert "another disk is at" in state(folder, path, f"811 {mount}")


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a second file system")
def test_two_disks_have_two_names_and_folders_of_one_disk_have_the_same(folder):
    one, other = module.disk_of(str(folder)), module.disk_of("/dev/shm")

    assert one == module.disk_of(str(folder / "sub"))
    assert one != other
    assert other.endswith(" /dev/shm")
    assert module.disk_of(str(folder / "none")) == ""


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")]
)
def test_a_file_that_cannot_be_looked_at_is_not_gone(folder, monkeypatch, error):
    path, disk = place_of(str(folder / "sub/b.md"))

    def refused(*_, **__):
        raise error

    found = check(folder)
    monkeypatch.setattr(os, "lstat", refused)
    assert found.state_of(path, disk).doubt.endswith(error.strerror)
    assert not found.state_of(path, disk).is_gone


@pytest.mark.parametrize(("old", "new"), [("a.md", "A.md"), ("sub/b.md", "Sub/b.md"), ("a.md", "ä.md")])
def test_where_case_does_not_count_the_old_spelling_of_a_name_is_gone(folder, monkeypatch, old, new):
    """The old name finds the file of the new one there."""
    path, disk = place_of(str(folder / old))
    (folder / new).parent.mkdir(exist_ok=True)
    (folder / old).rename(folder / new)
    look = os.lstat

    def lenient(each, **how):
        return look(str(folder / new) if str(each) == path else each, **how)

    assert state(folder, Path(path), disk) == "gone"
    monkeypatch.setattr(os, "lstat", lenient)
    assert state(folder, Path(path), disk) == "gone"
    assert state(folder, folder / "sub/c.md", disk) == "there"


def test_a_hard_link_that_the_walk_does_not_cover_exists(folder):
    os.link(folder / "a.md", folder / "LICENSE")

    assert state(folder, *place_of(str(folder / "LICENSE"))) == "there"
