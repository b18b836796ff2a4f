"""Keep what forged captures in a repository out of its commits: one line in git's own `info/exclude`.

Goes in: a work tree that is about to be written to. Comes out: whether git ignores forged's files there, or
why that is left alone. Nothing is written where git tracks or ignores such files already, where git's
directory does not name the work tree back, or where anything on the way is not what git makes: each step is
opened below the one before without following a link, and `exclude` has to be a regular file with one name and
the repository's owner. It is appended to and never replaced. `commit` takes the line out again, in place.

Blocks for the disk and for git; `Excluding` is to be used in threads and raises nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Iterator

import msgspec

from forged.errors import ForgedError, StoreError
from forged.files import Root, atomic, is_git_directory, layout
from forged.state import Exclude, Excludes
from forged.trust.git import Git, GitFailed, ignore_file
from forged.trust.identity import identity_of

logger = logging.getLogger(__name__)

LINE = b"/.forge/memory/mem_*.md"
CHOICES = ("exclude", "commit")

_AS_IT_IS = {
    "tracked": "git tracks memories here already, so that what forged captures may be committed, too",
    "ignored": "git ignores what forged captures here already, by a line that is not forged's",
}
_TRACKED, _PROBE = ".forge/memory/mem_*.md", ".forge/memory/mem_0.md"
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES, _MOST_INDEX_BYTES = 1 << 20, 256 << 20
_PLAIN = (b"\0\0\0\2", b"\0\0\0\3")  # versions that hold every path as it is
_AGAIN_S = 60.0  # after a refusal the next write tries again


class ExcludeError(ForgedError):
    """Nothing was written; the message says why."""


class Excluding:
    """One for the daemon. `problems` are sentences for status, by the top of the root."""

    def __init__(self, records: Excludes, default: str, home: str) -> None:
        """`default` is what the configuration says, `home` where the user's own git configuration is."""
        self._records = records
        self._default = default
        self._home = home
        self._locks: dict[str, threading.Lock] = {}
        self._until: dict[tuple[str, str], float] = {}
        self._fresh: dict[str, Exclude] = {}
        self._untold: dict[str, Exclude] = {}
        self._as_it_is: dict[str, str] = {}
        self.problems: dict[str, str] = {}

    # --- in threads -----------------------------------------------------------------------------------

    def keep_out(self, root: Root) -> None:
        """Before files are written into a root: have git ignore those that forged names."""
        if not root.has_files or not self._records.is_read:
            return  # what a person chose is not known yet: the next write asks again
        if not os.path.lexists(os.path.join(root.top, ".git")):
            return
        key = root.top, identity_of(os.path.join(root.top, ".git"))
        if time.monotonic() < self._until.get(key, 0.0):
            return
        with self._alone(root.top):
            if time.monotonic() < self._until.get(key, 0.0):
                return
            if self._wanted(root.top) == "exclude":
                self._add(root.top)
            is_open = root.top in self.problems
            self._until[key] = time.monotonic() + _AGAIN_S if is_open else float("inf")

    def chosen(self, top: str, choice: str) -> None:
        """A person said what holds in a repository, or with an empty `choice` that the configuration does.

        Raises ExcludeError where that cannot be carried out.
        """
        with self._alone(top):
            self._until.clear()
            record = self._note(self._named(top), choice=choice)
            if (choice or self._default) == "exclude":
                self._add(top)
            else:
                self.problems.pop(top, None)
                self._taken_out(record)
            if problem := self.problems.get(top) or self.problems.get(record.common):
                raise ExcludeError(problem)

    def take_out(self, *, everywhere: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take the line out of every repository where it is not wanted any more, or of all.

        Returned are the common directories it is gone from, and sentences about those where it stays.
        """
        done, left = [], []
        for record in self._all():
            wanted = record.choice or self._default
            if not record.has_line or not (everywhere or wanted == "commit"):
                continue
            with self._alone("", record.common):
                if self._taken_out(self._current(record)):
                    done.append(record.common)
                else:
                    left.append(self.problems[record.common])
        return tuple(done), tuple(left)

    def problem_of(self, root: Root) -> str:
        """Why git does not do in a root as was chosen, or nothing."""
        record = self._record(root.top) if root.has_files and self.problems else None
        of_repository = self.problems.get(record.common, "") if record is not None else ""
        return self.problems.get(root.top, "") or of_repository

    def state_of(self, root: Root) -> str:
        """Whether git ignores what forged names in a root, as a sentence for status, or nothing."""
        record = self._record(root.top) if root.has_files else None
        if record is None:
            return ""
        if record.has_line:
            return f"git ignores what forged captures here, by a line in {record.common}/info/exclude"
        if (record.choice or self._default) == "commit":
            return "what forged captures here may be committed, as you said"
        return self._as_it_is.get(root.top, "")

    # --- what is told and written down ----------------------------------------------------------------

    def news(self, top: str) -> str:
        """The sentence about a line that was added and nobody was told of, which counts as told now."""
        record = self._untold.pop(top, None)
        if record is None:
            return ""
        self._note(self._current(record), is_told=True)
        return (
            f"git ignores what forged captures in {top} from now on: a line in {record.common}/info/exclude; "
            "`forgectl trust --commit` there takes it out"
        )

    async def all_news(self, *tops: str) -> tuple[str, ...]:
        """Return the sentences of `news` about some tops, and write down that they were given."""
        told = tuple(filter(None, map(self.news, tops)))
        if told:
            await self.save()
        return told

    async def save(self) -> None:
        """Write down what was found out. What fails is found out again."""
        for key, record in list(self._fresh.items()):
            try:
                await self._records.put(record)
            except StoreError as error:
                logger.warning("exclude is not written down error=%s", error)
                return
            if self._fresh.get(key) is record:
                del self._fresh[key]

    # --- inside ---------------------------------------------------------------------------------------

    def _alone(self, top: str, common: str = "") -> threading.Lock:
        """The lock of a repository: one that hangs holds up no other."""
        return self._locks.setdefault(common or layout(top).common or top, threading.Lock())

    def _wanted(self, top: str) -> str:
        record = self._record(top)
        return (record.choice if record is not None else "") or self._default

    def _record(self, top: str) -> Exclude | None:
        """Return the record of a work tree's repository; None where git's side does not name it back."""
        common = layout(top).common
        return self._current(Exclude(common, identity_of(common))) if common else None

    def _named(self, top: str) -> Exclude:
        """The same where there has to be one. Raises ExcludeError."""
        record = self._record(top)
        if record is None:
            raise ExcludeError("git's directory does not name this folder as its work tree")
        return record

    def _current(self, record: Exclude) -> Exclude:
        return self._fresh.get(record.key) or self._records.of(record.common, record.identity)

    def _all(self) -> tuple[Exclude, ...]:
        return tuple((dict(self._records) | self._fresh).values())

    def _note(self, record: Exclude, **changes: str | bool) -> Exclude:
        fresh = msgspec.structs.replace(record, **changes)
        if fresh != record:
            self._fresh[fresh.key] = fresh
        return fresh

    def _add(self, top: str) -> None:
        try:
            record = self._named(top)
            if not is_git_directory(record.common):
                return  # git takes it for none, and will stage nothing of it
            became = add_line(top, record.common, self._home)
        except ExcludeError as error:
            self.problems[top] = (
                f"what forged captures in {top} is not kept out of commits: {error}; "
                "`forgectl trust --exclude` there tries again, `--commit` says that it may be committed"
            )
            logger.warning("exclude left alone top=%s reason=%s", top, error)
            return
        self.problems.pop(top, None)
        self._as_it_is[top] = _AS_IT_IS.get(became, "")
        if became in {"added", "there"}:
            record = self._note(record, has_line=True)
            if not record.is_told:
                self._untold[top] = record

    def _taken_out(self, record: Exclude) -> bool:
        """Whether forged's line is gone from a repository, or that from its place."""
        try:
            if identity_of(record.common) == record.identity:
                remove_line(record.common)
        except ExcludeError as error:
            if not record.has_line:
                return True
            self.problems[record.common] = (
                f"forged's line is still in {record.common}/info/exclude: {error}; take it out by hand"
            )
            return False
        self.problems.pop(record.common, None)
        self._note(record, has_line=False, is_told=False)
        for top in [top for top, each in self._untold.items() if each.key == record.key]:
            del self._untold[top]
        return True


# --- the file ------------------------------------------------------------------------------------------


def add_line(top: str, common: str, home: str) -> str:
    """Have git ignore what forged names in the repository of a work tree; `home` is the user's directory.

    Returned is what it came to: `added`, `there` (it was), `tracked` or `ignored`. Raises ExcludeError.
    """
    with _explained(), _opened_info(common, make=True) as (info, owner):
        if _holds_line(info, owner):
            return "there"
        if answer := _as_it_is(top, owner, home):
            return answer
        with _opened_exclude(info, owner, os.O_APPEND, make=True) as (file, content):
            if LINE in content.splitlines():
                return "there"
            end = b"" if not content or content.endswith(b"\n") else b"\n"
            os.write(file, end + LINE + b"\n")
            os.fsync(file)
    return "added"


def remove_line(common: str) -> None:
    """Take forged's line out of a repository's `info/exclude`, and leave all else in it as it is.

    What follows the line is written over it and the file then cut, so that a kill between loses nothing.
    Raises ExcludeError.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_explained())
        stack.enter_context(contextlib.suppress(FileNotFoundError))
        info, owner = stack.enter_context(_opened_info(common))
        file, content = stack.enter_context(_opened_exclude(info, owner))
        lines = content.splitlines(keepends=True)
        ours = [number for number, line in enumerate(lines) if line.strip() == LINE]
        if ours:
            start = sum(map(len, lines[: ours[0]]))
            rest = b"".join(line for line in lines[ours[0] :] if line.strip() != LINE)
            os.pwrite(file, rest, start)
            os.ftruncate(file, start + len(rest))
            os.fsync(file)


def _holds_line(info: int, owner: int) -> bool:
    with contextlib.suppress(FileNotFoundError), _opened_exclude(info, owner) as (_, content):
        return LINE in content.splitlines()
    return False


def _as_it_is(top: str, owner: int, home: str) -> str:
    """Return `tracked` or `ignored` as git has such files already, or nothing. Raises ExcludeError.

    Git is asked only in what belongs to this user: its configuration can name programs.
    """
    if owner == os.geteuid():
        git = Git(top)
        with contextlib.suppress(GitFailed):
            if git.tracks(_TRACKED):
                return "tracked"
            return "ignored" if git.ignores(_PROBE, ignore_file(home)) else ""
    return "tracked" if _index_names(top) else ""


def _index_names(top: str) -> bool:
    """Return True if the index names a file of forged; read without git. Raises ExcludeError."""
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
                return any(path.startswith(b".forge/memory/mem_") for path in _paths(data, hash_bytes))
    raise ExcludeError("git cannot be asked here, and its index is in a form that only git reads")


def _paths(data: bytes, hash_bytes: int) -> tuple[bytes, ...]:
    """The paths in an index of version 2 or 3. Raises ValueError for one that is not whole by itself."""
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
        if data[at : at + 4] in {b"link", b"sdir"}:  # more of it is elsewhere, or folders stand for files
            raise ValueError("not all paths")
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return tuple(found)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExcludeError(f"{_named(error)} cannot be used ({atomic.why(error)})") from error


def _named(error: OSError) -> str:
    return str(error.filename) if error.filename else "info/exclude"


@contextlib.contextmanager
def _opened_info(common: str, *, make: bool = False) -> Iterator[tuple[int, int]]:
    """The `info` of a common git directory, and the repository's owner. Raises OSError, ExcludeError."""
    with contextlib.ExitStack() as stack:
        at = _held(stack, os.open("/", _STEP))
        for part in common.strip("/").split("/"):
            at = _held(stack, os.open(part, _STEP, dir_fd=at))
        owner = os.fstat(at).st_uid
        if os.geteuid() not in {0, owner}:
            raise ExcludeError(f"{common} belongs to another user")
        try:
            info = _held(stack, os.open("info", atomic.DIRECTORY, dir_fd=at))
        except FileNotFoundError:
            if not make:
                raise
            info = _held(stack, _made_info(at, owner))
        if os.fstat(info).st_uid != owner:
            raise ExcludeError(f"{common}/info belongs to another user")
        yield info, owner


def _held(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _made_info(common: int, owner: int) -> int:
    os.mkdir("info", 0o755, dir_fd=common)
    info = os.open("info", atomic.DIRECTORY, dir_fd=common)
    if os.fstat(info).st_uid != owner and not os.listdir(info):
        os.fchown(info, owner, os.fstat(common).st_gid)
    return info


@contextlib.contextmanager
def _opened_exclude(
    info: int, owner: int, flags: int = 0, *, make: bool = False
) -> Iterator[tuple[int, bytes]]:
    """The `exclude` of an `info`, locked, with its content. Raises OSError, ExcludeError."""
    try:
        _check(
            os.stat("exclude", dir_fd=info, follow_symlinks=False), owner
        )  # a device acts when it is opened
        file = os.open("exclude", _FILE | flags, dir_fd=info)
    except FileNotFoundError:
        if not make:
            raise
        file = os.open("exclude", _FILE | flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=info)
        if os.fstat(file).st_uid != owner:
            os.fchown(file, owner, os.fstat(info).st_gid)
    try:
        _check(os.fstat(file), owner)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file, os.pread(file, _MOST_BYTES, 0)
    finally:
        os.close(file)


def _check(status: os.stat_result, owner: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise ExcludeError("info/exclude is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise ExcludeError("info/exclude is no regular file")
    if status.st_nlink != 1:
        raise ExcludeError("info/exclude has more than one name")
    if status.st_uid != owner:
        raise ExcludeError("info/exclude belongs to another user")
    if status.st_size >= _MOST_BYTES:
        raise ExcludeError(f"info/exclude is larger than {_MOST_BYTES >> 20} MiB")
