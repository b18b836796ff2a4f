"""The memory files of one root: written once, removed only on request.

A memory that was written is on stable storage and is never overwritten; a file of the user is never changed,
and goes away only by an explicit `forget`. Raises StoreError with a sentence that says what to do.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager

import msgspec

from forged.errors import MemoryExists, MemoryFormatError, StoreError
from forged.files import atomic
from forged.files.frontmatter import parse, render
from forged.files.roots import Root
from forged.files.scan import Enter, open_folder, open_part
from forged.files.snapshot import Snapshot
from forged.memory import Memory, is_valid_id

logger = logging.getLogger(__name__)

_TEMPS_S = 30.0  # of a writer that is alive and takes longer, the write fails and is told so


NOTE = "origin.json"
"""What is known of a file in the trash, beside it."""

Note = Callable[[str, str], bytes]


class Removed(msgspec.Struct, frozen=True):
    """A file that is gone, and where it is kept now; nowhere if it was erased."""

    id: str
    path: str
    kept_at: str = ""


class MemoryStore:
    """One root. Threads and processes may share a directory: all that is kept is that it was looked at."""

    def __init__(self, root: Root, clock: Callable[[], float] = time.time) -> None:
        """No link may lead out of the root's top; `clock` gives seconds since the epoch."""
        self.root = root
        self._clock = clock
        self._known: tuple[int, int] | None = None  # the directory of new memories, as it was entered last

    def write(self, memory: Memory) -> str:
        """Put a new memory on stable storage and return its path; its scope is that of the store.

        Raises MemoryExists if the id is taken, StoreError if it cannot be stored; nothing is left then.
        """
        path, data = self.path_of(memory.id), self.checked(memory)
        with atomic.explained(f"cannot write {path}"), self.opened_to_write() as folder:
            try:
                atomic.publish(folder, os.path.basename(path), data)
            except FileExistsError as error:
                raise MemoryExists(f"there is a memory {memory.id} already") from error
        return path

    def path_of(self, memory_id: str) -> str:
        """Where the file of a new memory will be."""
        return os.path.join(self.root.top, self.root.folders[0], f"{memory_id}.md")

    def checked(self, memory: Memory) -> bytes:
        """The bytes of a new memory's file. Raises StoreError for what could not be read back."""
        if not is_valid_id(memory.id):
            raise StoreError(
                f"{memory.id[:80]!r} is no id for a new memory; use mem_ and up to 64 of A-Z a-z 0-9 _ -"
            )
        data = self.rendered(memory)
        try:
            parse(data, self.root.scope, memory.id)  # what cannot be read back is not acknowledged
        except MemoryFormatError as error:
            raise StoreError(f"the memory cannot be stored: {error}") from error
        return data

    def opened_to_write(self) -> AbstractContextManager[int]:
        """The directory of new memories, which is made if it is missing. Raises OSError, StoreError."""
        return self._opened(self.root.folders[0], atomic.open_or_make, known=self._known)

    def rendered(self, memory: Memory) -> bytes:
        """The bytes that `write` puts into the file of a memory."""
        return render(msgspec.structs.replace(memory, scope=self.root.scope))

    def move_to_trash(
        self, snapshot: Snapshot, ids: Collection[str], trash: str, note: Note | None = None
    ) -> tuple[Removed, ...]:
        """Move every file of these ids to directories of their own, `<trash>/<time>-<id>/`.

        `note` is what is written beside each, by the id and the path that it had. Raises StoreError at the
        first that cannot be moved; those before it are moved.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        with atomic.explained(f"cannot use the trash {trash}"):
            os.makedirs(trash, 0o700, exist_ok=True)
        removed = []
        for path, name, id_ in _files_of(snapshot, ids):
            told = note(id_, os.path.join(path, name)) if note is not None else b""
            kept_at = self._move(path, name, os.path.join(trash, f"{stamp}-{_as_name(id_)}"), told)
            removed.append(Removed(id_, os.path.join(path, name), kept_at))
        return tuple(removed)

    def put_back(self, folder: str, name: str, data: bytes) -> str:
        """Write a file again as it was, into one of its folders, and return its path.

        If it is there already, whole, that is as well. Raises StoreError, MemoryExists for another one of
        that name.
        """
        path = os.path.join(self.root.top, folder, name)
        if folder not in self.root.folders or os.path.basename(name) != name:
            raise StoreError(f"{path} is no place of a memory")
        with atomic.explained(f"cannot write {path}"), self._opened(folder, atomic.open_or_make) as directory:
            try:
                atomic.publish(directory, name, data)
            except FileExistsError as error:
                if atomic.read(directory, name) != data:
                    raise MemoryExists(f"there is another file at {path}; move it out of the way") from error
        return path

    def rewrite(self, path: str, data: bytes, *, expected: str) -> None:
        """Put other bytes into a file whose SHA-256 is `expected`, as `atomic.rewrite`. Raises StoreError."""
        folder, name = os.path.split(path)
        with atomic.explained(f"cannot write {path}"), self._opened(folder) as directory:
            atomic.rewrite(directory, name, data, expected=expected)

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises StoreError."""
        folder, name = os.path.split(path)
        with atomic.explained(f"cannot read {path}"), self._opened(folder) as directory:
            return atomic.read(directory, name)

    def erase(self, snapshot: Snapshot, ids: Collection[str]) -> tuple[Removed, ...]:
        """Delete every file of these ids. Raises StoreError at the first that cannot be deleted."""
        return tuple(self._erase(path, name, id_) for path, name, id_ in _files_of(snapshot, ids))

    def sweep_temps(self) -> int:
        """Remove what killed writers left over half a minute ago, and return how many files that were."""
        try:
            with self._opened(self.root.folders[0]) as directory:
                return atomic.sweep(directory, self._clock() - _TEMPS_S)
        except (OSError, StoreError) as error:
            logger.debug("temporary files not swept top=%s reason=%s", self.root.top, error)
            return 0

    @contextlib.contextmanager
    def _opened(
        self, folder: str, enter: Enter = open_part, known: tuple[int, int] | None = None
    ) -> Iterator[int]:
        """Open a directory; the way to one that is `known` as it was entered is not looked at again."""
        directory = -1 if known is None else self._reopened(folder, known)
        if directory < 0:
            directory = open_folder(self.root.top, folder, enter)
            if enter is atomic.open_or_make:
                self._known = _place(directory)
        try:
            yield directory
        finally:
            os.close(directory)

    def _reopened(self, folder: str, known: tuple[int, int]) -> int:
        try:
            directory = os.open(os.path.join(self.root.top, folder), atomic.DIRECTORY)
        except OSError:
            return -1
        if _place(directory) == known:
            return directory
        os.close(directory)
        return -1

    def _move(self, directory: str, name: str, folder: str, note: bytes) -> str:
        with atomic.explained(f"cannot move {directory}/{name}"), self._opened(directory) as source:
            kept_at = atomic.new_directory(folder)
            target = os.open(kept_at, atomic.DIRECTORY)
            try:
                if note:
                    atomic.publish(target, NOTE, note)
                atomic.move(source, name, target)
            finally:
                os.close(target)
        return os.path.join(kept_at, name)

    def _erase(self, directory: str, name: str, id_: str) -> Removed:
        with atomic.explained(f"cannot delete {directory}/{name}"), self._opened(directory) as source:
            os.unlink(name, dir_fd=source)
            os.fsync(source)
        return Removed(id_, os.path.join(directory, name))


def _files_of(snapshot: Snapshot, ids: Collection[str]) -> list[tuple[str, str, str]]:
    """Every file of these ids, also those that lost to a newer one: directory, name, id."""
    return [
        (listing.path, name, seen.memory.id)
        for listing in snapshot.listings
        for name, seen in listing.files.items()
        if seen.memory is not None and seen.memory.id in ids
    ]


def _place(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino


def _as_name(id_: str) -> str:
    """Return an id as part of a file name; ids in old files may hold anything."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id_)[:68]
