"""The new files of one batch in one directory: written and synced without a name, then linked, then durable.

Many are written by a few threads at once: of a file most of the time is the kernel's, for its inode and its
sync. What goes wrong with one file is its own affair and a StoreError in `failed`, by its path; only the
directory is everybody's. Blocks for the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Self

from forged.errors import MemoryExists, StoreError
from forged.files import MemoryStore, NewFile, atomic

PARTS = 4
_LEAST_IN_A_PART = 4


class NewFiles:
    """A context: what has no name at its end is gone. `failed` says why, by path."""

    def __init__(self, store: MemoryStore, contents: Mapping[str, bytes], threads: Executor) -> None:
        """`contents` are the bytes by path; without any, nothing is opened."""
        self.failed: dict[str, StoreError] = {}
        self._store = store
        self._contents = contents
        self._threads = threads
        self._directory = -1
        self._owner: atomic.Owner | None = None
        self._files: dict[str, NewFile] = {}
        self._named: list[str] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._contents:
            try:
                with atomic.explained(f"cannot write to {os.path.dirname(next(iter(self._contents)))}"):
                    opened = self._stack.enter_context(self._store.opened_to_write())
                    self._directory, self._owner = opened
            except StoreError as error:
                self.failed = dict.fromkeys(self._contents, error)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._stack.close()

    def sync(self) -> None:
        """Write every file; on return the bytes of those that have not failed will survive a power cut."""
        paths = [path for path in self._contents if path not in self.failed]
        parts = min(PARTS, len(paths) // _LEAST_IN_A_PART) or 1
        others = [self._threads.submit(self._write, paths[part::parts]) for part in range(1, parts)]
        self._write(paths[::parts])
        for other in others:
            other.result()

    def link(self, path: str) -> None:
        """Give a file its name. Raises StoreError, MemoryExists if there is one of that name."""
        if path in self.failed:
            raise self.failed[path]
        name = os.path.basename(path)
        with atomic.explained(f"cannot write {path}"):
            try:
                self._files[path].link(name)
            except FileExistsError as error:
                raise MemoryExists(f"there is a memory {name.removesuffix('.md')} already") from error
        self._named.append(name)

    def settle(self) -> None:
        """Make the names durable. Raises StoreError, and then none of them stays."""
        if self._named:
            with atomic.explained(f"cannot write to {self._store.root.top}"):
                atomic.sync_names(self._directory, self._named)

    def _write(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                with atomic.explained(f"cannot write {path}"):
                    self._files[path] = NewFile(self._directory, self._contents[path], self._owner)
            except StoreError as error:
                self.failed[path] = error
        for path in paths:  # all are written by now: most find that the first sync was theirs as well
            try:
                with atomic.explained(f"cannot write {path}"):
                    if path not in self.failed:
                        self._files[path].sync()
            except StoreError as error:
                self.failed[path] = error
