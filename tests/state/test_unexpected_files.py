"""Unexpected files in the state directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged.state.unexpected_files import unexpected_files

OURS = ["state.db", "state.db-wal", "state.copy", "executable", "forged.log", "forged.log.1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state directory as a daemon leaves it."""
    folder = tmp_path / "forged"
    folder.mkdir(mode=0o700)
    for name in [*OURS, "state.db.damaged-20260101", ".forged-01.tmp"]:
        (folder / name).touch()
    for name in ("trash", "run", "classifier"):
        (folder / name).mkdir()
    return folder


def link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/etc/passwd")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def test_what_the_daemon_keeps_there_is_not_foreign_nor_is_what_is_not_there(folder):
    assert unexpected_files(str(folder)) == ()
    assert unexpected_files(str(folder / "nowhere")) == ()


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("state.db", link, "is a link"),
        ("forged.log", pipe, "is a pipe, socket or device"),
        ("state.copy", folder_instead, "is a directory and has to be a file"),
        ("notes.txt", Path.touch, "is nothing that forged put there"),
        ("folder", Path.mkdir, "is nothing that forged put there"),
    ],
)
def test_a_link_a_pipe_and_what_is_unknown_are_named_and_stay(folder, name, make, why):
    make(folder / name)
    before = os.lstat(folder / name)

    (reported,) = unexpected_files(str(folder))

    assert reported.startswith(f"{folder / name} {why}")
    assert os.lstat(folder / name) == before


def test_a_file_of_another_user_is_named(folder, monkeypatch):
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert unexpected_files(str(folder))[0] == f"{folder} belongs to another user ({owner})"


def test_a_directory_that_others_can_change_is_named(folder):
    folder.chmod(0o777)

    assert unexpected_files(str(folder)) == (f"{folder} can be changed by others; run: chmod go-w",)
