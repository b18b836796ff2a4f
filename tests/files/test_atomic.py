"""New files are whole or absent, also when the system refuses in the middle."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from forged.files import atomic
from tests.files import syscalls
from tests.files.syscalls import needs_seccomp


@pytest.fixture(params=["without a name", "named"])
def files(request, monkeypatch):
    """Both ways to write a file before it has its name; the second is that of an older file system."""
    if request.param == "named":
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    return f"files={request.param}"


@pytest.fixture
def directory(tmp_path: Path):
    fd = os.open(tmp_path, atomic.DIRECTORY)
    yield fd
    os.close(fd)


PUBLISH = """
import errno, os, sys
from forged.files import atomic
from tests.files.syscalls import fail
directory = os.open(sys.argv[1], atomic.DIRECTORY)
faults = dict(pair.split("=") for pair in sys.argv[2:])
if faults.pop("files", "") == "named":
    os.O_TMPFILE = 0
only = directory if faults.pop("only", "") == "directory" else None
fail(only, **{call: getattr(errno, code) for call, code in faults.items()})
try:
    atomic.publish(directory, "a.md", b"new")
except Exception as error:
    sys.stdout.write(f"{type(error).__name__} {getattr(error, 'errno', error)}")
else:
    sys.stdout.write("published")
"""


def publish_with(directory: Path, *faults: str) -> str:
    child = syscalls.run(PUBLISH, str(directory), *faults)
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_existing_file_is_never_replaced(tmp_path, directory, files):
    (tmp_path / "a.md").write_text("old")

    with pytest.raises(FileExistsError):
        atomic.publish(directory, "a.md", b"new")

    assert (tmp_path / "a.md").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.md"]


@needs_seccomp
@pytest.mark.parametrize("code", ["EPERM", "EOPNOTSUPP", "EMLINK"])
def test_file_system_without_links_gets_a_rename_that_replaces_nothing(tmp_path, code):
    assert publish_with(tmp_path, f"linkat={code}") == "published"
    assert os.listdir(tmp_path) == ["a.md"]


@needs_seccomp
def test_rename_in_place_of_a_link_does_not_overwrite_either(tmp_path):
    (tmp_path / "a.md").write_text("old")

    assert publish_with(tmp_path, "linkat=EPERM").startswith("FileExistsError")
    assert (tmp_path / "a.md").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.md"]


@needs_seccomp
def test_file_system_that_can_do_neither_is_refused_with_advice(tmp_path):
    said = publish_with(tmp_path, "linkat=EPERM", "renameat2=EINVAL")

    assert said.startswith("StoreError")
    assert "keep memories on a local one" in said
    assert os.listdir(tmp_path) == []


@needs_seccomp
@pytest.mark.parametrize(
    "fault", [f"{call}={code}" for call in ("fsync", "linkat") for code in ("EIO", "ENOSPC", "EDQUOT")]
)
def test_failure_leaves_nothing_behind(tmp_path, files, fault):
    code = getattr(errno, fault.split("=")[1])

    assert publish_with(tmp_path, files, fault) == f"OSError {code}"
    assert os.listdir(tmp_path) == []


@needs_seccomp
def test_failed_sync_of_the_directory_takes_the_file_back(tmp_path, files):
    assert publish_with(tmp_path, files, "only=directory", "fsync=EIO") == f"OSError {errno.EIO}"
    assert os.listdir(tmp_path) == []


@needs_seccomp
def test_name_that_is_taken_is_only_reported_once_it_is_durable(tmp_path):
    (tmp_path / "a.md").write_text("old")

    assert publish_with(tmp_path, "only=directory", "fsync=EIO") == f"OSError {errno.EIO}"
    assert (tmp_path / "a.md").read_text() == "old"


@needs_seccomp
def test_full_disk_leaves_nothing_behind(tmp_path, files):
    script = PUBLISH.replace("directory = ", "import resource\ndirectory = ").replace(
        "try:", "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\ntry:", 1
    )

    child = syscalls.run(script, str(tmp_path), files)

    assert child.stdout == f"OSError {errno.EFBIG}"
    assert os.listdir(tmp_path) == []


def names_on_the_way(directory: Path, monkeypatch) -> list[str]:
    """What lies in a directory each time that a file is synced while another is published."""
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(os.listdir(directory)))
    fd = os.open(directory, atomic.DIRECTORY)
    atomic.publish(fd, "a.md", b"text")
    os.close(fd)
    return seen


def test_a_file_has_no_name_before_it_has_its_own(tmp_path, monkeypatch):
    """A kill before the link leaves nothing; where nothing else is known, a hidden name that is swept."""
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without names")

    assert names_on_the_way(tmp_path, monkeypatch) == ["a.md"]
    (tmp_path / "a.md").unlink()
    monkeypatch.setattr(os, "O_TMPFILE", 0)
    hidden, *_ = names_on_the_way(tmp_path, monkeypatch)
    assert hidden.startswith(".forged-")
    assert os.listdir(tmp_path) == ["a.md"]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_a_file_system_without_nameless_files_gets_hidden_ones(tmp_path, directory, monkeypatch, code):
    real = os.open

    def refused(path, flags, *args, **kwargs):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refused)
    atomic.publish(directory, "a.md", b"text")

    assert (tmp_path / "a.md").read_bytes() == b"text"
    assert os.listdir(tmp_path) == ["a.md"]


def test_where_proc_is_missing_a_hidden_name_takes_its_place(tmp_path, directory, monkeypatch):
    real = os.link

    def link(source, *args, **kwargs):
        if source.startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "no /proc")
        real(source, *args, **kwargs)

    monkeypatch.setattr(os, "link", link)
    atomic.publish(directory, "a.md", b"text")

    assert (tmp_path / "a.md").read_bytes() == b"text"
    assert os.listdir(tmp_path) == ["a.md"]


def test_file_moves_across_file_systems(tmp_path, directory):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    (tmp_path / "a.md").write_text("text")
    target = shm / f"forged-test-{os.getpid()}"
    target.mkdir()
    try:
        fd = os.open(target, atomic.DIRECTORY)
        atomic.move(directory, "a.md", fd)
        os.close(fd)

        assert (target / "a.md").read_text() == "text"
        assert os.listdir(tmp_path) == []
    finally:
        (target / "a.md").unlink(missing_ok=True)
        target.rmdir()


def test_only_old_temporary_files_of_forged_are_swept(tmp_path, directory):
    for name in (".forged-old.tmp", ".forged-new.tmp", ".other.tmp", "a.md"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (50, 50) if "old" in name else (150, 150))
    os.utime(tmp_path / ".other.tmp", (50, 50))

    assert atomic.sweep(directory, older_than=100) == 1
    assert sorted(os.listdir(tmp_path)) == [".forged-new.tmp", ".other.tmp", "a.md"]
    assert atomic.sweep_at(str(tmp_path), 200) == 1
    assert atomic.sweep_at(str(tmp_path / "none"), 200) == 0


def test_a_replacement_survives_a_power_cut_as_a_file_and_as_a_name(tmp_path, monkeypatch):
    synced: list[str] = []

    def note(descriptor):
        synced.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    monkeypatch.setattr(os, "fsync", note)

    atomic.replace(str(tmp_path / "state"), b"new")
    assert synced == ["file", "directory"]


def test_a_replacement_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    (path / "full").mkdir(parents=True)  # no file can take the place of a directory

    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number says more
        atomic.replace(str(path), b"new")
    assert caught.value.errno in {errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST}

    assert os.listdir(tmp_path) == ["file"]
