"""The new files of one batch in one directory: written and synced without a name, then linked, then durable.

What goes wrong with one file is its own affair and a StoreError in `failed`, by its path; only the directory
is everybody's. Blocks for the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Self

from forged.errors import MemoryExists, StoreError
from forged.files import MemoryStore, NewFile, atomic


class NewFiles:
    """A context: what has no name at its end is gone. `failed` says why, by path."""

    def __init__(self, store: MemoryStore, contents: Mapping[str, bytes]) -> None:
        """`contents` are the bytes by path; without any, nothing is opened."""
        self.failed: dict[str, StoreError] = {}
        self._store = store
        self._contents = contents
        self._directory = -1
        self._files: dict[str, NewFile] = {}
        self._named: list[str] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._contents:
            try:
                with atomic.explained(f"cannot write to {os.path.dirname(next(iter(self._contents)))}"):
                    self._directory = self._stack.enter_context(self._store.opened_to_write())
            except StoreError as error:
                self.failed = dict.fromkeys(self._contents, error)
        for path, data in self._contents.items():
            if path not in self.failed:
                self._begin(path, data)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sync(self) -> None:
        """Return when the bytes of every file that has not failed will survive a power cut."""
        for path, file in self._files.items():
            with self._noted(path):
                file.sync()

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

    def _begin(self, path: str, data: bytes) -> None:
        with self._noted(path):
            file = NewFile(self._directory, data)
            self._stack.callback(file.close)
            self._files[path] = file
            if len(self._contents) > 1:
                file.start_writeback()

    @contextlib.contextmanager
    def _noted(self, path: str) -> Iterator[None]:
        try:
            with atomic.explained(f"cannot write {path}"):
                yield
        except StoreError as error:
            self.failed[path] = error
