"""File events of a folder, and folders without events."""

from __future__ import annotations

import os
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.files import atomic, directory_events
from forged.files.directory_events import DirectoryEvents

pytestmark = [pytest.mark.inotify, pytest.mark.usefixtures("kernel")]
needs_inotify = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    return path


@pytest.fixture
def watched(folder):
    """Arrivals after their first look, as only what is new is told then."""
    found = DirectoryEvents((str(folder), str(folder.with_name("memories"))))
    assert found.take() is None
    return found


@needs_inotify
@pytest.mark.parametrize(
    "event", ["new", "edited", "appended", "renamed over", "removed", "moved away", "mode"]
)
def test_whatever_happens_to_a_file_is_reported_as_soon_as_it_has_happened(folder, tmp_path, event):
    path = folder / "a.md"
    if event != "new":
        path.write_text("old")
    watched = DirectoryEvents((str(folder),))
    watched.take()

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

    assert watched.take() == {str(path)}
    assert watched.take() == frozenset()


@needs_inotify
@pytest.mark.parametrize("named", [False, True])
def test_the_own_files_are_not_reported_but_for_what_others_do_to_them(watched, folder, monkeypatch, named):
    if named:
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    fd = os.open(folder, atomic.DIRECTORY)
    atomic.publish(fd, "a.md", b"own")
    atomic.publish(fd, "b.md", b"own")
    os.close(fd)
    (folder / "b.md").write_text("an editor's")
    own = frozenset(str(folder / name) for name in ("a.md", "b.md"))

    assert watched.take(own) == {str(folder / "b.md")}


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

    assert watched.take() is None
    assert watched.take() == frozenset()


@needs_inotify
def test_more_events_than_the_kernel_keeps_are_a_look_at_everything(watched, folder, tmp_path):
    """For another root too, of which the kernel may have dropped events."""
    (tmp_path / "other").mkdir()
    other = DirectoryEvents((str(tmp_path / "other"),))
    assert other.take() is None
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    paths = (folder / "a.md", folder / "b.md")  # an event that is like the one before is not kept
    for path in paths:
        path.touch()
    for number in range(most + 10):
        paths[number % 2].chmod(0o600)

    for each in (watched, other):
        assert each.take() is None
        assert each.take() is None
        assert each.take() == frozenset()


@pytest.mark.parametrize("lacking", ["inotify", "a local disk"])
def test_where_no_one_knows_everything_is_looked_at(folder, monkeypatch, lacking):
    if lacking == "inotify":
        monkeypatch.setattr(directory_events, "_libc", lambda: None)
    else:
        monkeypatch.setattr(directory_events, "_LOCAL", {0x6969})
    found = DirectoryEvents((str(folder),))

    assert [found.take(), found.take()] == [None, None]


# --- one instance for all -------------------------------------------------------------------------------


@needs_inotify
def test_hundreds_of_roots_share_one_instance_and_give_it_back(tmp_path):
    before = directory_events.count_inotify_instances()
    folders = [tmp_path / str(number) for number in range(300)]
    for folder in folders:
        folder.mkdir()
    every = [DirectoryEvents((str(folder),)) for folder in folders]
    for each in every:
        assert each.take() is None
    assert directory_events.count_inotify_instances() == before + 1
    (folders[7] / "a.md").write_text("x")
    reported = [each.take() for each in every]
    assert [number for number, paths in enumerate(reported) if paths] == [7]
    for folder in folders:
        shutil.rmtree(folder)
    directory_events.drop_lost_watches()
    assert directory_events.count_inotify_instances() == before
    assert every[0].take() is None
    del every, each
    assert directory_events.count_inotify_instances() == before


@needs_inotify
def test_what_is_given_up_in_the_midst_of_another_call_is_given_back_after_it(folder, kernel, monkeypatch):
    """A collection may run the end of `DirectoryEvents` in any thread at any moment, this one included."""
    kept, gone = DirectoryEvents((str(folder),)), [DirectoryEvents((str(folder.with_name("memories")),))]
    folder.with_name("memories").mkdir()
    assert (kept.take(), gone[0].take()) == (None, None)
    dispatch = kernel._dispatch

    def with_a_collection():
        gone.clear()
        dispatch()

    monkeypatch.setattr(kernel, "_dispatch", with_a_collection)
    assert kept.take() == frozenset()
    assert len(kernel._waiting) == 1


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "touch", "remove", "swap", "take", "leave", "join", "overflow"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=40,
)


@needs_inotify
@given(steps=_STEPS)
def test_nothing_that_happened_is_missed_by_anybody_who_waits(tmp_path_factory, steps):
    """Whatever is made, swapped, joined and left: a change is told, or everything has to be looked at."""
    top = tmp_path_factory.mktemp("top")
    folders = [top / name for name in "abc"]
    for each in folders:
        each.mkdir()
    everybody = [DirectoryEvents((str(folders[0]), str(folders[1]))) for _ in range(2)]
    everybody += [DirectoryEvents((str(folders[number]),)) for number in (1, 2)]
    due = [None] * 4
    for step, place, who in steps:
        folder, path = folders[place], folders[place] / f"{who}.md"
        if step in ("write", "remove", "touch"):
            (path.unlink(missing_ok=True) if step == "remove" else path.write_text(step))
            changed = {str(path)} if step != "remove" else set()
        elif step == "swap":
            shutil.rmtree(folder)
            folder.mkdir()
            changed = {None}
        else:
            changed = set()
        for number, each in enumerate(everybody):
            if str(folder) in each._folders and due[number] is not None:
                due[number] = None if None in changed else due[number] | changed
        if step == "overflow":
            with directory_events._KERNEL._locked():
                for waiting in directory_events._KERNEL._waiting.values():
                    for pending in waiting:
                        directory_events._mark_lost(pending)
            due = [None] * 4
        elif step in ("leave", "join"):
            everybody[who], due[who] = DirectoryEvents(everybody[who]._folders), None
        elif step == "take":
            reported = everybody[who].take()
            if due[who] is None:
                assert reported is None
            else:
                assert reported is None or reported >= due[who]
            due[who] = set() if everybody[who]._places is not None else None
    for number, each in enumerate(everybody):
        reported = each.take()
        assert reported is None or (due[number] is not None and reported >= due[number])
