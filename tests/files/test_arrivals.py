"""What the kernel tells of a folder, and where nobody knows."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from forged.files import arrivals, atomic
from forged.files.arrivals import Arrivals

needs_inotify = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    return path


@pytest.fixture
def watched(folder):
    """Arrivals after their first look, as only what is new is told then."""
    found = Arrivals((str(folder), str(folder.with_name("memories"))))
    assert found.taken() is None
    return found


@needs_inotify
def test_nothing_happened_is_known(watched, folder):
    (folder / ".a.md.swp").write_text("x")
    (folder / "notes.txt").write_text("x")

    assert watched.taken() == frozenset()


@needs_inotify
@pytest.mark.parametrize(
    "event", ["new", "edited", "appended", "renamed over", "removed", "moved away", "mode"]
)
def test_whatever_happens_to_a_file_is_told_as_soon_as_it_has_happened(folder, tmp_path, event):
    path = folder / "a.md"
    if event != "new":
        path.write_text("old")
    watched = Arrivals((str(folder),))
    watched.taken()

    match event:
        case "renamed over":
            (tmp_path / "fresh").write_text("new")
            (tmp_path / "fresh").rename(path)
        case "removed":
            path.unlink()
        case "moved away":
            path.rename(tmp_path / "a.md")
        case "mode":
            path.chmod(0)
        case "appended":
            with path.open("a") as file:
                file.write("more")
        case _:
            path.write_text("new")

    assert watched.taken() == {str(path)}
    assert watched.taken() == frozenset()


@needs_inotify
@pytest.mark.parametrize("named", [False, True])
def test_the_own_files_are_not_told_but_for_what_others_do_to_them(watched, folder, monkeypatch, named):
    if named:
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    fd = os.open(folder, atomic.DIRECTORY)
    atomic.publish(fd, "a.md", b"own")
    atomic.publish(fd, "b.md", b"own")
    os.close(fd)
    (folder / "b.md").write_text("an editor's")
    own = frozenset(str(folder / name) for name in ("a.md", "b.md"))

    assert watched.taken(own) == {str(folder / "b.md")}


@needs_inotify
@pytest.mark.parametrize("change", ["made", "replaced", "removed"])
def test_a_folder_that_comes_or_goes_has_to_be_looked_at(watched, folder, tmp_path, change):
    if change == "made":
        folder.with_name("memories").mkdir()
    elif change == "replaced":
        folder.rename(tmp_path / "old")
        folder.mkdir()
    else:
        shutil.rmtree(folder)

    assert watched.taken() is None
    assert watched.taken() == frozenset()


@needs_inotify
def test_more_events_than_the_kernel_keeps_are_a_look_at_everything(watched, folder):
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    paths = (folder / "a.md", folder / "b.md")  # an event that is like the one before is not kept
    for path in paths:
        path.touch()
    for number in range(most + 10):
        paths[number % 2].chmod(0o600)

    assert watched.taken() is None
    assert watched.taken() is None
    assert watched.taken() == frozenset()


@pytest.mark.parametrize("lacking", ["inotify", "a local disk"])
def test_where_nobody_knows_everything_is_looked_at(folder, monkeypatch, lacking):
    if lacking == "inotify":
        monkeypatch.setattr(arrivals, "_libc", lambda: None)
    else:
        monkeypatch.setattr(arrivals, "_LOCAL", {0x6969})
    found = Arrivals((str(folder),))

    assert [found.taken(), found.taken()] == [None, None]


@needs_inotify
def test_no_descriptor_stays_open(folder):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    found = Arrivals((str(folder),))
    found.taken()
    assert opened() == before + 1
    del found
    assert opened() == before
