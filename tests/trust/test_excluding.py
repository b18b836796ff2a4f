"""The line that keeps what forged captures out of commits, in real repositories and in hostile ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forged.files import layout
from forged.trust.exclude_file import LINE, ExcludeError, add_line, remove_line
from tests.support.git import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: NOT checked")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: NOT checked")
LINES = LINE.decode() + "\n"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "project")
    git(tmp_path / "project", "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path / "project"


@pytest.fixture
def add(home: Path) -> Callable[[Path], str]:
    return lambda top: add_line(str(top), layout(str(top)).common, str(home))


def exclude(top: Path) -> Path:
    return Path(layout(str(top)).common) / "info" / "exclude"


def captured(top: Path) -> None:
    folder = top / ".forge" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("mem_1.md", "named-by-me.md"):
        (folder / name).write_text("x")
    (top / ".forge" / "config.toml").write_text("")


def staged(top: Path) -> list[str]:
    git(top, "add", "-A")
    return sorted(git(top, "diff", "--cached", "--name-only").splitlines())


def test_what_forged_names_is_not_staged_and_what_people_name_is(top, add):
    captured(top)
    before = exclude(top).read_text()

    assert add(top) == "added"

    assert exclude(top).read_text() == before + LINES
    assert staged(top) == [".forge/config.toml", ".forge/memory/named-by-me.md"]


def linked(top: Path) -> Path:
    git(top, "worktree", "add", "-q", "../linked")
    return top.parent / "linked"


def submodule(top: Path) -> Path:
    git(top, "submodule", "--quiet", "add", "./", "deep/library")
    return top / "deep" / "library"


def of_submodule(top: Path) -> Path:
    git(submodule(top), "worktree", "add", "-q", f"{top.parent}/linked")
    return top.parent / "linked"


def of_bare(top: Path) -> Path:
    git(top.parent, "clone", "-q", "--bare", "project", "bare.git")
    git(top.parent / "bare.git", "worktree", "add", "-q", "../linked")
    return top.parent / "linked"


def apart(top: Path) -> Path:
    git(top.parent, "clone", "-q", "--separate-git-dir", "elsewhere", "project", "other")
    git(top.parent / "other", "config", "core.worktree", f"{top.parent}/other")
    return top.parent / "other"


@pytest.mark.parametrize("of", [linked, submodule, of_submodule, of_bare, apart])
def test_line_reaches_every_layout_that_is_named_back(top, add, of):
    tree = of(top)
    captured(tree)

    assert add(tree) == "added"
    assert add(tree) == "there"
    assert not [each for each in staged(tree) if "mem_" in each]


@pytest.mark.parametrize("content", [b"", b"*.o\n", b"*.o", b"# a\r\n*.o\r\n", b"\xff\n"])
def test_line_is_appended_once_and_taken_out_again_without_a_trace(top, add, content):
    exclude(top).write_bytes(content)
    inode = exclude(top).stat().st_ino

    assert [add(top), add(top)] == ["added", "there"]
    exclude(top).write_bytes(exclude(top).read_bytes() + b"mine\n")
    remove_line(layout(str(top)).common)
    remove_line(layout(str(top)).common)

    ended = content if not content or content.endswith(b"\n") else content + b"\n"
    assert exclude(top).read_bytes() == ended + b"mine\n"
    assert exclude(top).stat().st_ino == inode


@pytest.mark.parametrize("missing", ["exclude", "info"])
def test_what_is_missing_is_made(top, add, missing):
    shutil.rmtree(exclude(top).parent)
    if missing == "exclude":
        exclude(top).parent.mkdir()

    assert add(top) == "added"
    assert exclude(top).read_text() == LINES


def test_threads_at_once_write_it_once(top, add):
    def once() -> None:
        with contextlib.suppress(ExcludeError):  # another one holds the file
            add(top)

    threads = [threading.Thread(target=once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert exclude(top).read_text().count(LINES) == 1


def tracked(top: Path, _: Path) -> None:
    captured(top)
    git(top, "add", ".forge/memory/mem_1.md")


def ignored_in_tree(top: Path, _: Path) -> None:
    (top / ".gitignore").write_text(".forge/\n")


def ignored_below(top: Path, _: Path) -> None:
    captured(top)
    (top / ".forge" / "memory" / ".gitignore").write_text("*\n")


def ignored_here(top: Path, _: Path) -> None:
    exclude(top).write_text("mem_*\n")


def ignored_by_default(_: Path, home: Path) -> None:
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text(".forge\n")


def ignored_by_configuration(_: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    (home / "mine").write_text(".forge\n")


@pytest.mark.parametrize(
    ("prepare", "became"),
    [
        (tracked, "tracked"),
        (ignored_in_tree, "ignored"),
        (ignored_below, "ignored"),
        (ignored_here, "ignored"),
        (ignored_by_default, "ignored"),
        (ignored_by_configuration, "ignored"),
    ],
)
def test_nothing_is_written_where_git_tracks_or_ignores_such_files_already(top, add, home, prepare, became):
    prepare(top, home)
    before = exclude(top).read_bytes()

    assert add(top) == became
    assert exclude(top).read_bytes() == before


def link(file: Path, outside: Path) -> None:
    file.symlink_to(outside)


def second_name(file: Path, outside: Path) -> None:
    os.link(outside, file)


def fifo(file: Path, _: Path) -> None:
    os.mkfifo(file)


def directory(file: Path, _: Path) -> None:
    file.mkdir()


def large(file: Path, _: Path) -> None:
    file.write_bytes(b"x\n" * (1 << 20))


def locked_by_another(file: Path, _: Path) -> None:
    file.write_text("")
    os.chown(file, 12345, 12345)


def info_is_a_link(file: Path, outside: Path) -> None:
    file.parent.rmdir()
    file.parent.symlink_to(outside.parent)


def info_is_a_file(file: Path, _: Path) -> None:
    file.parent.rmdir()
    file.parent.write_text("")


def info_of_another(file: Path, _: Path) -> None:
    os.chown(file.parent, 12345, 12345)


def dangling(file: Path, outside: Path) -> None:
    file.symlink_to(outside.parent / "not-there")


@pytest.mark.parametrize(
    "hostile",
    [
        *(link, dangling, second_name, fifo, directory, large, info_is_a_link, info_is_a_file),
        pytest.param(locked_by_another, marks=needs_root),
        pytest.param(info_of_another, marks=needs_root),
    ],
)
def test_nothing_is_written_or_removed_where_anything_is_not_as_git_makes_it(top, add, tmp_path, hostile):
    outside = tmp_path / "outside" / "exclude"
    outside.parent.mkdir()
    outside.write_text("before\n" + LINES)
    file = exclude(top)
    file.unlink()
    hostile(file, outside)

    with pytest.raises(ExcludeError):
        add(top)
    with pytest.raises(ExcludeError):
        remove_line(str(top / ".git"))
    assert outside.read_text() == "before\n" + LINES
    assert os.listdir(outside.parent) == ["exclude"]


@pytest.mark.parametrize("part", [".git", "project"])
def test_link_on_the_way_to_gits_directory_is_not_followed(top, tmp_path, home, part):
    common = layout(str(top)).common
    before = exclude(top).read_bytes()
    (tmp_path / "real").mkdir()
    place = top / ".git" if part == ".git" else top
    place.rename(tmp_path / "real" / part)
    place.symlink_to(tmp_path / "real" / part)

    with pytest.raises(ExcludeError):
        add_line(str(top), common, str(home))
    assert Path(common, "info", "exclude").read_bytes() == before


@needs_root
def test_what_root_makes_there_belongs_to_the_repository_s_owner(top, add):
    shutil.rmtree(exclude(top).parent)
    subprocess.run(("chown", "-R", "12345:12346", str(top)), check=True)

    assert add(top) == "added"

    made = [exclude(top), exclude(top).parent]
    assert [(each.stat().st_uid, each.stat().st_gid) for each in made] == [(12345, 12346)] * 2


@needs_root
@pytest.mark.parametrize(("version", "hashes"), [("2", "sha1"), ("3", "sha1"), ("2", "sha256")])
def test_root_reads_the_index_of_another_by_itself(tmp_path, add, version, hashes):
    top = tmp_path / "project"
    git(tmp_path, "init", "-q", f"--object-format={hashes}", "project")
    captured(top)
    (top / "symlink-sdir").write_text("")
    git(top, "add", "symlink-sdir", "-f", ".forge/config.toml")
    if version == "3":
        git(top, "add", "--intent-to-add", ".forge/memory/named-by-me.md")
    subprocess.run(("chown", "-R", "12345:12346", str(top)), check=True)

    assert add(top) == "added"
    subprocess.run(("chown", "-R", "0:0", str(top)), check=True)
    git(top, "add", "-f", ".forge/memory/mem_1.md")
    remove_line(layout(str(top)).common)
    subprocess.run(("chown", "-R", "12345:12346", str(top)), check=True)
    assert add(top) == "tracked"


@needs_root
def test_root_leaves_alone_what_only_git_could_read(top, add):
    (top / "a").write_text("")
    git(top, "add", "a")
    git(top, "update-index", "--index-version", "4")
    subprocess.run(("chown", "-R", "12345:12346", str(top)), check=True)

    with pytest.raises(ExcludeError, match="only git can read"):
        add(top)


@needs_root
def test_read_only_repository_is_left_alone_with_a_reason(top, home):
    script = (
        "import sys; from forged.trust.exclude_file import add_line, ExcludeError\n"
        "try: add_line(*sys.argv[1:])\n"
        "except ExcludeError as error: print(error)"
    )
    mounted = 'mount --bind "$1/.git" "$1/.git" && mount -o remount,ro,bind "$1/.git" && shift && exec "$@"'
    command = (sys.executable, "-c", script, str(top), f"{top}/.git", str(home))
    done = subprocess.run(
        ("unshare", "-m", "sh", "-ec", mounted, "sh", str(top), *command),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespace here: NOT checked ({done.stderr.strip()})")

    assert "read-only" in done.stdout, done.stderr
