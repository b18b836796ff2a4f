"""Writing and removing memories on request: versions, links, and the directory they go to.

A write is serialised per root, because a new version is based on its chain's head, and the head is known
only when what was written before it is visible (behaviours.md bugs 25, 26). The file is durable when `add`
returns (design.md D14); the map follows by the ordinary way, a scan.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time

import msgspec

from forged.errors import MemoryNotFound
from forged.indexer import RootIndex
from forged.memory import Memory
from forged.roots import Root

# How long a new version waits for the ones before it to be visible.
_PATIENCE_S = 5.0
TRASH_S = 7 * 24 * 3600.0
_GIT_NOTE = "copies in version control history, clones and backups"


class Gone(msgspec.Struct, frozen=True):
    """Receipt of a removal: ids, the trash directory (empty if erased), what forged cannot reach."""

    ids: tuple[str, ...]
    trash: str
    unreachable: tuple[str, ...]


class Writer:
    """All writes to memory files that a client asks for."""

    def __init__(self, trash: str) -> None:
        """`trash` is the directory in the state directory where forgotten files wait for 7 days."""
        self._trash = trash
        self._locks: dict[Root, asyncio.Lock] = {}

    async def add(self, index: RootIndex, draft: Memory) -> tuple[Memory, str]:
        """Write `draft` as a new file, or as the next version of what it supersedes; durable on return.

        Returns the memory as written and its path. Raises MemoryNotFound for a superseded id that is not
        in the same root, StoreError when the file could not be written.
        """
        if draft.supersedes is None:
            return draft, await asyncio.to_thread(index.builder.store.write, draft)
        async with self._lock(index.root):
            written = await self._next_version(index, draft)
            path = await asyncio.to_thread(index.builder.store.write, written)
            index.mark()
            return written, path

    async def remove(self, index: RootIndex, ids: tuple[str, ...], *, erase: bool) -> Gone:
        """Take every file of `ids` away, to the trash or for good. Raises StoreError, MemoryNotFound."""
        async with self._lock(index.root):
            snapshot = index.builder.snapshot
            if snapshot is None:
                raise MemoryNotFound("the memories of this workspace are not loaded yet; try again")
            if erase:
                removed = await asyncio.to_thread(index.builder.store.erase, snapshot, ids)
            else:
                removed = await asyncio.to_thread(
                    index.builder.store.move_to_trash, snapshot, ids, self._trash
                )
        return Gone(tuple(item.id for item in removed), "" if erase else self._trash, (_GIT_NOTE,))

    def empty_trash(self, now: float) -> None:
        """Erase what was forgotten more than 7 days before `now` (seconds since the epoch)."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._trash):
                if entry.is_dir(follow_symlinks=False) and now - entry.stat().st_ctime > TRASH_S:
                    shutil.rmtree(entry.path, ignore_errors=True)

    async def _next_version(self, index: RootIndex, draft: Memory) -> Memory:
        await index.reach(index.wanted, time.monotonic() + _PATIENCE_S)
        current = index.map
        wanted = draft.supersedes or ""
        if current is None or wanted not in current.row_of:
            raise MemoryNotFound(
                f"no memory {wanted!r} in this scope to supersede; `forgectl list` shows what is there"
            )
        head = current.memories[current.row_of[current.chains.head(wanted)]]
        return msgspec.structs.replace(draft, supersedes=head.id, version=head.version + 1)

    def _lock(self, root: Root) -> asyncio.Lock:
        return self._locks.setdefault(root, asyncio.Lock())
