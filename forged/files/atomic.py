"""New files that are whole or absent, whatever is killed and whenever.

A file is written and synced before it has a name (O_TMPFILE), then linked, which never overwrites, and the
directory is synced; only then does a function return. Without O_TMPFILE a hidden name takes its place, which
`sweep` removes after a kill. Exclusive creation of the final name was rejected: 158 of 200 kills left a torn
file, against none this way. A failed fsync is a failed write and is not tried again on that file, because the
kernel may have dropped the pages. All goes by directory descriptors, so that no part of a path can be
swapped. What root makes in a directory of another user is given to that user (`Owner`). Functions raise
OSError, which `explained` turns into a StoreError.
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
# No file without a name: a file system or a kernel that knows none.
_NO_NAMELESS = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS))
# Such a file cannot get a name: no hard links, or no /proc.
_NO_NAMELESS_LINKS = _NO_LINKS | {errno.ENOENT, errno.ENOTDIR}
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RENAME_NOREPLACE = 1


class Owner(NamedTuple):
    """The user and group that get what root makes in a directory of theirs."""

    uid: int
    gid: int

    @classmethod
    def of(cls, found: os.stat_result) -> Owner | None:
        """The owner of a directory; None where that is root, or where this process is not root."""
        return cls(found.st_uid, found.st_gid) if found.st_uid and not os.geteuid() else None

    def take(self, descriptor: int) -> None:
        """Own what was just made. Where the system refuses, it stays root's: a write never fails for that."""
        try:
            os.fchown(descriptor, *self)
        except OSError as error:  # an id that a user namespace does not know, a server that maps root away
            logger.warning("owner not given uid=%d gid=%d error=%s", *self, error)


def open_or_make(parent: int, name: str, owner: Owner | None = None) -> int:
    """Open a directory; where it is missing it is made first, 0700, given to `owner`, and synced."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return os.open(name, DIRECTORY, dir_fd=parent)
    directory = os.open(name, DIRECTORY, dir_fd=parent)
    try:
        if owner is not None and _is_fresh(directory):
            owner.take(directory)
            os.fsync(directory)
        os.fsync(parent)
    except BaseException:
        os.close(directory)
        raise
    return directory


def _is_fresh(directory: int) -> bool:
    """Whether it may be what was just made: the parent's owner can put another directory in its place."""
    found = os.fstat(directory)
    is_ours = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o777 == 0o700
    return is_ours and not os.listdir(directory)


class Way:
    """Opens the parts of a way below a top; `makes`: makes the missing ones, for the owner of the top."""

    def __init__(self, *, makes: bool) -> None:
        self.top: os.stat_result | None = None
        self._makes = makes

    @property
    def owner(self) -> Owner | None:
        """Owner of what root makes on this way, as the top was when it was opened."""
        return None if self.top is None else Owner.of(self.top)

    def __call__(self, parent: int, name: str) -> int:
        """The next part; the first `parent` is the top."""
        if self.top is None:
            self.top = os.fstat(parent)
        if self._makes:
            return open_or_make(parent, name, self.owner)
        return os.open(name, DIRECTORY, dir_fd=parent)


@contextlib.contextmanager
def made(path: str) -> Iterator[tuple[int, Owner | None]]:
    """Open a directory, making the missing end of its way; yields its descriptor and an owner to give to."""
    at, missing = os.path.realpath(path), list[str]()
    while not os.path.isdir(at) and at != "/":
        at, name = os.path.split(at)
        missing.append(name)
    current, enter = os.open(at, DIRECTORY), Way(makes=True)
    try:
        for name in reversed(missing):
            current, parent = enter(current, name), current
            os.close(parent)
        yield current, Owner.of(os.fstat(current))
    finally:
        os.close(current)


def create(directory: int, name: str, owner: Owner | None = None) -> int:
    """Open a new file, 0600, to write to. Raises FileExistsError for anything of that name."""
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
    if owner is not None:
        owner.take(descriptor)
    return descriptor


class NewFile:
    """A file of a directory that has no name yet: `sync` it, then `link` it, and in any case `close` it."""

    def __init__(self, directory: int, data: bytes, owner: Owner | None = None) -> None:
        self._directory = directory
        self._data = data
        self._owner = owner
        self._temp = ""
        self._fd = _nameless(directory)
        if self._fd is None:
            self._begin_named()
        else:
            self._written(self._fd)

    def sync(self) -> None:
        """Return once the bytes will survive a power cut."""
        assert self._fd is not None, "it is closed"
        os.fsync(self._fd)

    def link(self, name: str) -> None:
        """Give it its name, which is durable once the directory is synced. Raises FileExistsError.

        StoreError: the file system can neither link nor rename without replacing.
        """
        if not self._temp:
            try:
                way = f"/proc/self/fd/{self._fd}"
                os.link(way, name, dst_dir_fd=self._directory, follow_symlinks=True)
            except OSError as error:
                if error.errno not in _NO_NAMELESS_LINKS:
                    raise
                self._begin_named()
                self.sync()
            else:
                return
        _give_name(self._directory, self._temp, name)

    def close(self) -> None:
        """Let go of it; what has no name is gone."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._temp:
            with contextlib.suppress(OSError):  # what stays is swept later
                os.unlink(self._temp, dir_fd=self._directory)
            self._temp = ""

    def _begin_named(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._temp = None, _temporary_name()
        self._fd = create(self._directory, self._temp)
        self._written(self._fd)

    def _written(self, fd: int) -> None:
        try:
            _write_all(fd, self._data)
            if self._owner is not None:
                self._owner.take(fd)
        except BaseException:
            self.close()
            raise


def _nameless(directory: int) -> int | None:
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
    """Put a new file into a directory and return once it will survive a power cut.

    Raises FileExistsError if the name is taken, which is then durable; on other errors nothing is published.
    """
    file = NewFile(directory, data, owner)
    try:
        file.sync()
        file.link(name)
    except FileExistsError:
        os.fsync(directory)  # a replayed event takes "exists" for done
        raise
    finally:
        file.close()
    sync_names(directory, (name,))


def sync_names(directory: int, names: Collection[str]) -> None:
    """Return once the names that were just given will survive a power cut; else none of them stays."""
    try:
        os.fsync(directory)
    except OSError:
        # Not acknowledged, so it must not look like an earlier success to the next attempt.
        for name in reversed(tuple(names)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)
        raise


def _temporary_name() -> str:
    return f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}"


def _write(directory: int, name: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
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
    """Put a file of state, 0600, in the place of another one, whole and durable; makes its directory."""
    parent, name = os.path.split(path)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    directory = os.open(parent, DIRECTORY)
    try:
        _exchange(directory, name, data)
    finally:
        os.close(directory)


def rewrite(directory: int, name: str, data: bytes, *, expected: str, owner: Owner | None = None) -> None:
    """Put other bytes in the place of a memory file whose SHA-256 is `expected`, whole, keeping its mode.

    Only its link may change so. Raises StoreError if it has other bytes by now.
    """
    if hashlib.sha256(read(directory, name)).hexdigest() != expected:
        raise StoreError(f"{name} was changed at this moment; try again")
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    _exchange(directory, name, data, stat.S_IMODE(mode) & 0o777, owner)


def _exchange(directory: int, name: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
    fresh = _temporary_name()
    try:
        _write(directory, fresh, data, mode, owner)
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
        _write(target, name, read(source, name))
        os.fsync(target)
        os.unlink(name, dir_fd=source)
    os.fsync(target)
    os.fsync(source)


def read(directory: int, name: str) -> bytes:
    """The bytes of a file; no link is followed."""
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
    return _ADVICE.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__


_ADVICE = {
    errno.ENOSPC: "no space left on the device; free some and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied; check owner and mode of the path",
    errno.EIO: "the device reported an input/output error; the data may not be on disk",
}
