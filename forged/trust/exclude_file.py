"""Add forged's line to `info/exclude` of a repository, and remove it again.

Nothing is written where git already tracks or ignores such files. Each part of the path is opened below the
one before without following a link. `exclude` must be a regular file with one name and the repository's
owner. It is appended to and never replaced; the line is removed in place. Raises ExcludeError. Blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator

from forged.errors import ForgedError
from forged.files import atomic
from forged.trust.git import Git, GitFailed, ignore_file

LINE = b"/.forge/memory/mem_*.md"
_TRACKED, _PROBE = ".forge/memory/mem_*.md", ".forge/memory/mem_0.md"
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES, _MOST_INDEX_BYTES = 1 << 20, 256 << 20
_PLAIN = (b"\0\0\0\2", b"\0\0\0\3")  # versions with uncompressed paths


class ExcludeError(ForgedError):
    """Raised if git's `info/exclude` cannot be read or changed; the message says why."""


def add_line(top: str, common: str, home: str) -> str:
    """Add forged's line to `info/exclude`, unless git tracks or ignores its files; return the result.

    Returns the result: `added`, `there` (it was), `tracked` or `ignored`. Raises ExcludeError.
    """
    with _explain_errors(), _open_info(common, make=True) as (info, owner):
        if _holds_line(info, owner):
            return "there"
        if answer := _tracked_or_ignored(top, owner, home):
            return answer
        with _open_exclude(info, owner, os.O_APPEND, make=True) as (file, content):
            if LINE in content.splitlines():
                return "there"
            end = b"" if not content or content.endswith(b"\n") else b"\n"
            os.write(file, end + LINE + b"\n")
            os.fsync(file)
    return "added"


def remove_line(common: str) -> None:
    """Remove forged's line from a repository's `info/exclude`. Raises ExcludeError.

    The rest is written over it and the file is then truncated, so a kill in between loses nothing.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_explain_errors())
        stack.enter_context(contextlib.suppress(FileNotFoundError))
        info, owner = stack.enter_context(_open_info(common))
        file, content = stack.enter_context(_open_exclude(info, owner))
        lines = content.splitlines(keepends=True)
        ours = [number for number, line in enumerate(lines) if line.strip() == LINE]
        if ours:
            start = sum(map(len, lines[: ours[0]]))
            rest = b"".join(line for line in lines[ours[0] :] if line.strip() != LINE)
            os.pwrite(file, rest, start)
            os.ftruncate(file, start + len(rest))
            os.fsync(file)


def _holds_line(info: int, owner: int) -> bool:
    """Return True if `info/exclude` has forged's line already; False if the file is missing."""
    with contextlib.suppress(FileNotFoundError), _open_exclude(info, owner) as (_, content):
        return LINE in content.splitlines()
    return False


def _tracked_or_ignored(top: str, owner: int, home: str) -> str:
    """Return `tracked` or `ignored` if git already treats forged's memory files so, else ""."""
    if owner == os.geteuid():
        git = Git(top)
        with contextlib.suppress(GitFailed):
            if git.tracks(_TRACKED):
                return "tracked"
            return "ignored" if git.ignores(_PROBE, ignore_file(home)) else ""
    return "tracked" if _index_has_memories(top) else ""


def _index_has_memories(top: str) -> bool:
    """Return True if git's index names a memory of forged, read without git. Raises ExcludeError."""
    git_dir = os.path.join(top, ".git")
    if os.path.isfile(git_dir):
        with open(git_dir, "rb") as link:
            target = os.fsdecode(link.read(8192).removeprefix(b"gitdir:").strip())
        git_dir = os.path.join(top, target)
    try:
        file = os.open(
            os.path.join(git_dir, "index"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except FileNotFoundError:
        return False
    with open(file, "rb") as index:
        status = os.fstat(index.fileno())
        data = index.read(_MOST_INDEX_BYTES) if stat.S_ISREG(status.st_mode) else b""
    if status.st_size == len(data) and data[:4] == b"DIRC" and data[4:8] in _PLAIN:
        for hash_bytes in (20, 32):
            with contextlib.suppress(ValueError):
                return any(path.startswith(b".forge/memory/mem_") for path in _index_paths(data, hash_bytes))
    raise ExcludeError("git cannot be run here, and only git can read its index")


def _index_paths(data: bytes, hash_bytes: int) -> tuple[bytes, ...]:
    """Return all paths in the bytes of git's index, version 2 or 3. Raises ValueError if incomplete."""
    found, at = [], 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[at + 40 + hash_bytes : at + 42 + hash_bytes], "big")
        start = at + 42 + hash_bytes + (2 if flags & 0x4000 else 0)
        end = data.index(b"\0", start)
        if flags & 0xFFF != min(end - start, 0xFFF):
            raise ValueError("no entry")
        found.append(data[start:end])
        at += (end - at + 8) // 8 * 8
    while at < len(data) - hash_bytes:
        if data[at : at + 4] in {b"link", b"sdir"}:  # split index, or folders in place of files
            raise ValueError("not all paths")
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return tuple(found)


@contextlib.contextmanager
def _explain_errors() -> Iterator[None]:
    """Context in which an OSError becomes an ExcludeError that names the file."""
    try:
        yield
    except OSError as error:
        raise ExcludeError(f"{_file_of_error(error)} cannot be used ({atomic.why(error)})") from error


def _file_of_error(error: OSError) -> str:
    """Return the file that an OSError names, or `info/exclude`."""
    return str(error.filename) if error.filename else "info/exclude"


@contextlib.contextmanager
def _open_info(common: str, *, make: bool = False) -> Iterator[tuple[int, int]]:
    """Open git's folder `info`, created with `make`, for the block; yield its descriptor and owner."""
    with contextlib.ExitStack() as stack:
        at = _close_later(stack, os.open("/", _STEP))
        for part in common.strip("/").split("/"):
            at = _close_later(stack, os.open(part, _STEP, dir_fd=at))
        owner = os.fstat(at).st_uid
        if os.geteuid() not in {0, owner}:
            raise ExcludeError(f"{common} belongs to another user")
        try:
            info = _close_later(stack, os.open("info", atomic.DIRECTORY, dir_fd=at))
        except FileNotFoundError:
            if not make:
                raise
            info = _close_later(stack, _make_info_folder(at, owner))
        if os.fstat(info).st_uid != owner:
            raise ExcludeError(f"{common}/info belongs to another user")
        yield info, owner


def _close_later(stack: contextlib.ExitStack, descriptor: int) -> int:
    """Make the stack close a descriptor at its end; return the descriptor."""
    stack.callback(os.close, descriptor)
    return descriptor


def _make_info_folder(common: int, owner: int) -> int:
    """Create `info` in a common git directory for its owner; return a descriptor that the caller closes."""
    os.mkdir("info", 0o755, dir_fd=common)
    info = os.open("info", atomic.DIRECTORY, dir_fd=common)
    if os.fstat(info).st_uid != owner and not os.listdir(info):
        os.fchown(info, owner, os.fstat(common).st_gid)
    return info


@contextlib.contextmanager
def _open_exclude(
    info: int, owner: int, flags: int = 0, *, make: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Open and lock `info/exclude`, created with `make`, for the block; yield descriptor and content."""
    try:
        _check_exclude(
            os.stat("exclude", dir_fd=info, follow_symlinks=False), owner
        )  # opening a device may have effects
        file = os.open("exclude", _FILE | flags, dir_fd=info)
    except FileNotFoundError:
        if not make:
            raise
        file = os.open("exclude", _FILE | flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=info)
        if os.fstat(file).st_uid != owner:
            os.fchown(file, owner, os.fstat(info).st_gid)
    try:
        _check_exclude(os.fstat(file), owner)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file, os.pread(file, _MOST_BYTES, 0)
    finally:
        os.close(file)


def _check_exclude(status: os.stat_result, owner: int) -> None:
    """Raise ExcludeError unless `info/exclude` is a small regular file, the owner's, with one name."""
    if stat.S_ISLNK(status.st_mode):
        raise ExcludeError("info/exclude is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise ExcludeError("info/exclude is not a regular file")
    if status.st_nlink != 1:
        raise ExcludeError("info/exclude has several hard links")
    if status.st_uid != owner:
        raise ExcludeError("info/exclude belongs to another user")
    if status.st_size >= _MOST_BYTES:
        raise ExcludeError(f"info/exclude is larger than {_MOST_BYTES >> 20} MiB")
