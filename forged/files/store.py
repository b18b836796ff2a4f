"""Memory files of one root: written once, removed only on request.

A written memory is on stable storage and is never overwritten. A file of the user is never changed and is
removed only by an explicit `forget`. Raises StoreError with a sentence that says what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from forged.errors import MemoryExists, MemoryFormatError, StoreError
from forged.files import atomic
from forged.files.frontmatter import read, render
from forged.files.roots import Enter, Root, open_folder, open_part
from forged.files.snapshot import Snapshot
from forged.memory import Memory, is_valid_id

logger = logging.getLogger(__name__)

_MOST_LOOKED_AT = 500
_OVERFLOW_UID = 65534
_TEMPS_S = 30.0  # a live writer that takes longer fails and returns the reason


NOTE = "origin.json"
"""Name of the note next to a file in the trash."""

Note = Callable[[str, str], bytes]


class RemovedFile(msgspec.Struct, frozen=True):
    """A removed memory file: id, old path, and its place in the trash, "" if it was erased."""

    id: str
    path: str
    kept_at: str = ""


class MemoryStore:
    """Writes, reads, moves and removes memory files of one root, which others may use at the same time."""

    def __init__(self, root: Root, clock: Callable[[], float] = time.time) -> None:
        """Take a root, out of whose top no link may lead; `clock` gives seconds since the epoch."""
        self.root = root
        self._clock = clock
        self._folder = root.directories[0]  # of new memories
        # Top and directory of new memories, as last opened.
        self._known: tuple[tuple[int, int], tuple[int, int]] | None = None

    def write(self, memory: Memory) -> str:
        """Write a new memory to stable storage and return its path; its scope is that of the root.

        Raises MemoryExists if the id exists, StoreError if it cannot be stored; nothing is left then.
        """
        path, data = self.path_of(memory.id), self.checked_bytes(memory)
        with atomic.explained(f"cannot write {path}"), self.open_to_write() as (folder, owner):
            try:
                atomic.publish(folder, os.path.basename(path), data, owner)
            except FileExistsError as error:
                raise MemoryExists(f"there is a memory {memory.id} already") from error
        return path

    def path_of(self, memory_id: str) -> str:
        """Return the path of the file that a new memory gets."""
        return f"{self._folder}/{memory_id}.md"

    def checked_bytes(self, memory: Memory) -> bytes:
        """Return the bytes of a new memory's file. Raises StoreError if they could not be read back."""
        if not is_valid_id(memory.id):
            raise StoreError(
                f"{memory.id[:80]!r} is not a valid id for a new memory; use "
                "mem_ and up to 64 of A-Z a-z 0-9 _ -"
            )
        data = self.file_bytes(memory)
        # Never acknowledge a memory that cannot be read back.
        try:
            reading = read(data, self.root.scope, memory.id)
        except MemoryFormatError as error:
            raise StoreError(f"the memory cannot be stored: {error}") from error
        if render(reading.memory) != data:
            why = "; ".join(reading.notes) or "another one would be read"
            raise StoreError(f"the memory cannot be stored: {why}")
        return data

    @contextlib.contextmanager
    def open_to_write(self, folder: str = "") -> Iterator[tuple[int, atomic.Owner | None]]:
        """Open a memory folder for the block, created if missing; yield it and new files' owner.

        The default is the folder of new memories. Raises OSError, StoreError.
        """
        directory, owner = (-1, None) if folder else self._reopen_folder()
        if directory < 0:
            way = atomic.PathOpener(makes=True)
            directory = open_folder(self.root.top, folder or self.root.folders[0], way)
            owner = way.owner
            if not folder and way.top is not None:
                self._known = _device_and_inode(way.top), _device_and_inode(os.fstat(directory))
        try:
            yield directory, owner
        finally:
            os.close(directory)

    def file_bytes(self, memory: Memory) -> bytes:
        """Return the bytes that `write` puts into the file of a memory."""
        return render(msgspec.structs.replace(memory, scope=self.root.scope))

    def move_to_trash(
        self, snapshot: Snapshot, ids: Collection[str], trash: str, note: Note | None = None
    ) -> tuple[RemovedFile, ...]:
        """Move every file of these ids to `<trash>/<time>-<id>/`, with a `note` made from id and path.

        Raises StoreError at the first file that cannot be moved; earlier ones are moved.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        with atomic.explained(f"cannot use the trash {trash}"):
            os.makedirs(trash, 0o700, exist_ok=True)
        removed = []
        for path, name, id_ in _places_of(snapshot, ids):
            note_bytes = note(id_, os.path.join(path, name)) if note is not None else b""
            kept_at = self._move_file(path, name, os.path.join(trash, f"{stamp}-{_as_name(id_)}"), note_bytes)
            removed.append(RemovedFile(id_, os.path.join(path, name), kept_at))
        return tuple(removed)

    def check_places(self, files: Iterable[tuple[str, str, bytes]]) -> None:
        """Raise MemoryExists if another file is at the folder and name of one of these removed files."""
        for folder, name, data in files:
            path, there = os.path.join(self.root.top, folder, name), data
            with (
                atomic.explained(f"cannot read {path}"),
                contextlib.suppress(FileNotFoundError),
                self._open_folder(folder) as directory,
            ):
                there = atomic.read(directory, name)
            if there != data:
                raise MemoryExists(f"there is another file at {path}; move it out of the way")

    def put_back(self, folder: str, name: str, data: bytes) -> str:
        """Restore a removed file with its old bytes, unless these are there, and return its path.

        Raises StoreError, and MemoryExists for another file of that name.
        """
        path = os.path.join(self.root.top, folder, name)
        if folder not in self.root.folders or os.path.basename(name) != name:
            raise StoreError(f"{path} is not a place for a memory")
        with atomic.explained(f"cannot write {path}"), self.open_to_write(folder) as (directory, owner):
            try:
                atomic.publish(directory, name, data, owner)
            except FileExistsError as error:
                if atomic.read(directory, name) != data:
                    raise MemoryExists(f"there is another file at {path}; move it out of the way") from error
        return path

    def rewrite(self, path: str, data: bytes, *, expected: str) -> None:
        """Replace the bytes of a file atomically; StoreError if its SHA-256 is not `expected`."""
        folder, name = os.path.split(path)
        way = atomic.PathOpener(makes=False)
        with atomic.explained(f"cannot write {path}"), self._open_folder(folder, way) as directory:
            atomic.rewrite(directory, name, data, expected=expected, owner=way.owner)

    def read(self, path: str) -> bytes:
        """Return the bytes of a memory file, given by its path. Raises StoreError."""
        folder, name = os.path.split(path)
        with atomic.explained(f"cannot read {path}"), self._open_folder(folder) as directory:
            return atomic.read(directory, name)

    def erase(self, snapshot: Snapshot, ids: Collection[str]) -> tuple[RemovedFile, ...]:
        """Delete every file of these ids for good. Raises StoreError at the first that cannot be deleted."""
        return tuple(self._erase_file(path, name, id_) for path, name, id_ in _places_of(snapshot, ids))

    def sweep_temps(self) -> int:
        """Remove leftovers of writers killed over half a minute ago; return the number of files."""
        try:
            with self._open_folder(self.root.folders[0]) as directory:
                return atomic.sweep(directory, self._clock() - _TEMPS_S)
        except (OSError, StoreError) as error:
            logger.debug("temporary files not swept top=%s reason=%s", self.root.top, error)
            return 0

    @contextlib.contextmanager
    def _open_folder(self, folder: str, enter: Enter = open_part) -> Iterator[int]:
        """Open a folder of the root for the duration of the block. Raises OSError, StoreError."""
        directory = open_folder(self.root.top, folder, enter)
        try:
            yield directory
        finally:
            os.close(directory)

    def _reopen_folder(self) -> tuple[int, atomic.Owner | None]:
        """Open the directory of new memories if it is still the one opened last; -1 if not."""
        if self._known is None:
            return -1, None
        try:
            top = os.stat(self.root.top)
            directory = os.open(self._folder, atomic.DIRECTORY)
        except OSError:
            return -1, None
        if (_device_and_inode(top), _device_and_inode(os.fstat(directory))) == self._known:
            return directory, atomic.Owner.of(top)
        os.close(directory)
        return -1, None

    def _move_file(self, directory: str, name: str, folder: str, note: bytes) -> str:
        """Move a file into a new folder of the trash, with its note if any; return its path there."""
        with atomic.explained(f"cannot move {directory}/{name}"), self._open_folder(directory) as source:
            kept_at = atomic.new_directory(folder)
            target = os.open(kept_at, atomic.DIRECTORY)
            try:
                if note:
                    atomic.publish(target, NOTE, note)
                atomic.move(source, name, target)
            finally:
                os.close(target)
        return os.path.join(kept_at, name)

    def _erase_file(self, directory: str, name: str, id_: str) -> RemovedFile:
        """Delete a file for good, with a sync of its directory; return it as removed."""
        with atomic.explained(f"cannot delete {directory}/{name}"), self._open_folder(directory) as source:
            os.unlink(name, dir_fd=source)
            os.fsync(source)
        return RemovedFile(id_, os.path.join(directory, name))


def root_owned_files(root: Root) -> str:
    """Return a sentence on files that root created for another user and could not give away, or "".

    Only root looks: other users cannot read such a file and get an error. At most some hundred are checked.
    """
    if os.geteuid():
        return ""
    try:
        owner = atomic.Owner.of(os.stat(root.top))
        path = _file_of_root_user(root) if owner is not None else ""
    except OSError:
        return ""
    if owner is None or not path:
        return ""
    place = os.path.join(root.top, root.folders[0].partition("/")[0])
    ids = f"{owner.uid}:{owner.gid}"
    if owner.uid == _OVERFLOW_UID:  # an owner unknown in the user namespace
        ids = f"--reference={shlex.quote(root.top)}"
    return (
        f"{path} belongs to root, not to user {owner.uid}, who owns {root.top}: it was there before, or the "
        f"system does not let root give it away; `chown -R {ids} {shlex.quote(place)}` as root, outside of a "
        "container, gives it back"
    )


def _file_of_root_user(root: Root) -> str:
    """Return a path in or above the folder of new memories that belongs to the user root, or ""."""
    folder = os.path.join(root.top, root.folders[0])
    ways = [each for each in (os.path.dirname(folder), folder) if each != root.top]
    for path in filter(os.path.lexists, ways):
        if os.lstat(path).st_uid == 0:
            return path
    if not os.path.isdir(folder):
        return ""
    with os.scandir(folder) as entries:
        some = itertools.islice(entries, _MOST_LOOKED_AT)
        return next((each.path for each in some if each.stat(follow_symlinks=False).st_uid == 0), "")


def _places_of(snapshot: Snapshot, ids: Collection[str]) -> list[tuple[str, str, str]]:
    """Return directory, name and id of each file of these ids, also of older files of an id."""
    return [
        (listing.path, name, seen.memory.id)
        for listing in snapshot.listings
        for name, seen in listing.files.items()
        if seen.memory is not None and seen.memory.id in ids
    ]


def _device_and_inode(found: os.stat_result) -> tuple[int, int]:
    """Return the device and inode of a status, which identify a directory."""
    return found.st_dev, found.st_ino


def _as_name(id_: str) -> str:
    """Return an id as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id_)[:68]
