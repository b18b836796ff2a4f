"""Memories of one root on disk: scanned into snapshots, written once, removed only on request.

A memory that was written is on stable storage and is never overwritten; a file of the user is never changed,
and goes away only by an explicit `forget` (design.md D14, D16).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator

import msgspec

from forged.errors import MemoryExists, MemoryFormatError, StoreError
from forged.files import atomic
from forged.files.frontmatter import parse, render
from forged.files.scan import scan
from forged.files.snapshot import Snapshot
from forged.memory import Memory, is_valid_id

__all__ = ["FOLDERS", "MemoryStore", "Removed", "Snapshot"]

logger = logging.getLogger(__name__)

FOLDERS = (".forge/memory", ".forge/memories")
"""Where a repo or user root keeps memories; the Go program writes to the second (design.md D1)."""


class Removed(msgspec.Struct, frozen=True):
    """A file that is gone, and where it is kept now; nowhere if it was erased."""

    id: str
    path: str
    kept_at: str = ""


class MemoryStore:
    """One root. Holds no state of its own, so that threads and processes may share a directory."""

    def __init__(
        self, top: str, scope: str, folders: tuple[str, ...] = FOLDERS, clock: Callable[[], float] = time.time
    ) -> None:
        """Take the absolute path of the repo or home, which no link may leave, and folders relative to it.

        The first of `folders` (and of `directories`, their absolute paths) is the one that is written to.
        """
        self.top = top
        self.scope = scope
        self.folders = folders
        self.directories = tuple(os.path.join(top, folder) for folder in folders)
        self._clock = clock

    def scan(
        self,
        previous: Snapshot | None = None,
        pause: Callable[[], None] = lambda: None,
        files: frozenset[str] = frozenset(),
    ) -> Snapshot:
        """Read what changed since `previous`, which is returned if nothing did; see `scan.scan`."""
        return scan(self.top, self.folders, self.scope, previous, files, pause=pause, clock=self._clock)

    def write(self, memory: Memory) -> str:
        """Put a new memory on stable storage and return its path; its scope is that of the store.

        Raises MemoryExists if the id is taken, StoreError if it cannot be stored; nothing is left then.
        """
        if not is_valid_id(memory.id):
            raise StoreError(
                f"{memory.id[:80]!r} is no id for a new memory; use mem_ and up to 64 of A-Z a-z 0-9 _ -"
            )
        name, path = f"{memory.id}.md", os.path.join(self.directories[0], f"{memory.id}.md")
        data = render(msgspec.structs.replace(memory, scope=self.scope))
        try:
            parse(data, self.scope, memory.id)  # what could not be read back is not worth an acknowledgement
        except MemoryFormatError as error:
            raise StoreError(f"the memory cannot be stored: {error}") from error
        with atomic.explained(f"cannot write {path}"), self._opened(self.folders[0], make=True) as directory:
            try:
                atomic.publish(directory, name, data)
            except FileExistsError as error:
                raise MemoryExists(f"there is a memory {memory.id} already") from error
        return path

    def move_to_trash(self, snapshot: Snapshot, ids: Collection[str], trash: str) -> tuple[Removed, ...]:
        """Move every file of these ids to directories of their own, `<trash>/<time>-<id>/`.

        Raises StoreError at the first that cannot be moved; those before it are moved.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        with atomic.explained(f"cannot use the trash {trash}"):
            os.makedirs(trash, 0o700, exist_ok=True)
        return tuple(
            Removed(id_, os.path.join(path, name), self._move(path, name, f"{stamp}-{_as_name(id_)}", trash))
            for path, name, id_ in _files_of(snapshot, ids)
        )

    def erase(self, snapshot: Snapshot, ids: Collection[str]) -> tuple[Removed, ...]:
        """Delete every file of these ids. Raises StoreError at the first that cannot be deleted."""
        return tuple(self._erase(path, name, id_) for path, name, id_ in _files_of(snapshot, ids))

    def sweep_temps(self, older_than_s: float = 3600) -> int:
        """Remove what killed writers left behind and return how many files that were."""
        try:
            with self._opened(self.folders[0]) as directory:
                return atomic.sweep(directory, self._clock() - older_than_s)
        except (OSError, StoreError) as error:
            logger.debug("temporary files not swept directory=%s reason=%s", self.directories[0], error)
            return 0

    @contextlib.contextmanager
    def _opened(self, folder: str, *, make: bool = False) -> Iterator[int]:
        directory = atomic.open_inside(self.top, folder, make=make)
        try:
            yield directory
        finally:
            os.close(directory)

    def _folder_of(self, directory: str) -> str:
        return self.folders[self.directories.index(directory)]

    def _move(self, directory: str, name: str, folder: str, trash: str) -> str:
        with (
            atomic.explained(f"cannot move {directory}/{name}"),
            self._opened(self._folder_of(directory)) as source,
        ):
            kept_at = atomic.new_directory(os.path.join(trash, folder))
            target = os.open(kept_at, atomic.DIRECTORY)
            try:
                atomic.move(source, name, target)
            finally:
                os.close(target)
        return os.path.join(kept_at, name)

    def _erase(self, directory: str, name: str, id_: str) -> Removed:
        with (
            atomic.explained(f"cannot delete {directory}/{name}"),
            self._opened(self._folder_of(directory)) as source,
        ):
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


def _as_name(id_: str) -> str:
    """Return an id as part of a file name; ids in old files may hold anything."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id_)[:68]
