"""New files that are whole or absent, whatever is killed and whenever.

A file is written under a hidden name beside its final one, synced, linked to the final name (which never
overwrites), and the directory is synced; only then does a function return. Exclusive creation of the final
name was rejected: 158 of 200 kills left a torn file, against none this way. A failed fsync is a failed write
and is not tried again on that file, because the kernel may have dropped the pages already.

Everything happens relative to directory descriptors, so that no part of a path can be swapped underneath.
Functions raise OSError; the caller knows what it was about and says so with `explained`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterator

from forged.errors import StoreError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMP_PREFIX, _TEMP_SUFFIX = ".forged-", ".tmp"
_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS))
_RENAME_NOREPLACE = 1


def open_or_make(parent: int, name: str) -> int:
    """Open a directory; where it is missing it is made first, 0700, and synced into its parent."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        os.fsync(parent)
    return os.open(name, DIRECTORY, dir_fd=parent)


def publish(directory: int, name: str, data: bytes) -> None:
    """Put a new file into a directory and return once it will survive a power cut.

    Raises FileExistsError if the name is taken, which is then durable too; other OSErrors mean that nothing
    was published. StoreError: the file system can neither link nor rename without replacing.
    """
    temp = _temporary_name()
    try:
        _write(directory, temp, data)
        _give_name(directory, temp, name)
    except FileExistsError:
        os.fsync(directory)  # a replayed event takes "exists" for done
        raise
    finally:
        with contextlib.suppress(OSError):  # what stays is swept later
            os.unlink(temp, dir_fd=directory)
    try:
        os.fsync(directory)
    except OSError:
        # Not acknowledged, so it must not look like an earlier success to the next attempt.
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def _temporary_name() -> str:
    return f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}"


def _write(directory: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _give_name(directory: int, temp: str, name: str) -> None:
    try:
        os.link(temp, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_without_replacing(directory, temp, name)


def _rename_without_replacing(directory: int, temp: str, name: str) -> None:
    # renameat2 is in glibc since 2.28 and not in the standard library.
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
    """Put a file, 0600, in the place of another one, whole, and return once it will survive a power cut.

    For state of our own that changes; a memory never does. The directory is made if it is missing.
    """
    parent, name = os.path.split(path)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    directory = os.open(parent, DIRECTORY)
    fresh = _temporary_name()
    try:
        _write(directory, fresh, data)
        os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def move(source: int, name: str, target: int) -> None:
    """Move a file between directories, also across file systems, and sync both."""
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _write(target, name, _read(source, name))
        os.fsync(target)
        os.unlink(name, dir_fd=source)
    os.fsync(target)
    os.fsync(source)


def _read(directory: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(fd, "rb") as file:
        return file.read()


def sweep(directory: int, older_than: float) -> int:
    """Remove temporary files of killed writers last changed before a time (seconds); return how many."""
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
    """As `sweep`, for a directory that need not be there."""
    try:
        directory = os.open(path, DIRECTORY)
    except OSError:
        return 0
    try:
        return sweep(directory, older_than)
    finally:
        os.close(directory)


def new_directory(path: str) -> str:
    """Make a directory of this name, or with a number if it is taken, and sync it into its parent."""
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
    """Turn an OSError into a StoreError that a person can act on."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{action}: {why(error)}") from error


def why(error: OSError) -> str:
    """Say what went wrong, and what to do if there is something."""
    return _ADVICE.get(error.errno or 0) or error.strerror or type(error).__name__


_ADVICE = {
    errno.ENOSPC: "no space left on the device; free some and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied; check owner and mode of the path",
    errno.EIO: "the device reported an input/output error; the data may not be on disk",
}
