"""Writing and removing memories on request: versions, links, and the directory they go to.

A new version is based on its chain's head, so versions and removals come one by one in a root. What the head
is, and what is removed, is looked up on disk and not in the map: the map follows by the ordinary way, a scan,
and may wait for a provider meanwhile. What is written is durable and marked when `add` returns; `remove`
marks nothing, as its caller has more to do. MemoryNotFound and StoreError are raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Collection

import msgspec

from forged.errors import MemoryNotFound
from forged.files import Root, Snapshot, atomic, scan
from forged.map import link
from forged.maps.root_index import RootIndex
from forged.memory import Memory
from forged.trust import Trust, own_file

TRASH_S = 7 * 24 * 3600.0
_GIT_NOTE = "copies in version control history, clones and backups"


class Written(msgspec.Struct, frozen=True):
    """A memory as it was written, its file, and the generation in which it is visible."""

    memory: Memory
    path: str
    generation: int


class Gone(msgspec.Struct, frozen=True):
    """Receipt of a removal: ids, the trash directory (empty if erased), what forged cannot reach.

    `contents` are the texts that are gone.
    """

    ids: tuple[str, ...]
    trash: str
    unreachable: tuple[str, ...]
    contents: tuple[str, ...] = ()


class Writer:
    """All writes to memory files that a client asks for."""

    def __init__(self, trash: str, trust: Trust) -> None:
        """`trash` is the directory in the state directory where forgotten files wait for 7 days."""
        self._trash = trash
        self._trust = trust
        self._locks: dict[Root, asyncio.Lock] = {}

    async def add(self, index: RootIndex, draft: Memory, *, insisted: bool = False) -> Written:
        """Write `draft` as a new file, or as the next version of what it supersedes; durable on return.

        Its origin, and that somebody insisted on a secret in it, goes on record before the file is there.
        Raises MemoryNotFound for a superseded id that does not count in the same root, StoreError when the
        file could not be written.
        """
        if draft.supersedes is None:
            return await self._write(index, draft, insisted=insisted)
        async with self._lock(index.root):
            memory = await self._next_version(index, draft)
            return await self._write(index, memory, insisted=insisted)

    async def chain(self, index: RootIndex, memory_id: str) -> tuple[str, ...]:
        """Ids of the versions of a memory that count, oldest first; none if it is not in this root.

        A memory that is withheld stands alone: whatever it says it supersedes.
        """
        async with self._lock(index.root):
            snapshot, counting = await self._trust.look(index.root)
        if any(memory.id == memory_id for memory in counting.memories):
            return link(counting.memories).chain(memory_id)
        return (memory_id,) if any(memory.id == memory_id for memory in snapshot.memories) else ()

    async def remove(self, index: RootIndex, ids: tuple[str, ...], *, erase: bool) -> Gone:
        """Take every file of `ids` away, to the trash or for good. Raises StoreError."""
        async with self._lock(index.root):
            snapshot = await asyncio.to_thread(_on_disk, index)
            if erase:
                removed = await asyncio.to_thread(index.builder.store.erase, snapshot, ids)
            else:
                removed = await asyncio.to_thread(
                    index.builder.store.move_to_trash, snapshot, ids, self._trash
                )
        contents = tuple(memory.content for memory in snapshot.memories if memory.id in ids)
        trash = "" if erase else self._trash
        return Gone(tuple(item.id for item in removed), trash, (_GIT_NOTE,), contents)

    def erase_from_trash(self, contents: Collection[str]) -> None:
        """Erase files in the trash that hold one of these texts. Raises StoreError."""
        wanted = [content.strip().encode(errors="replace") for content in contents]
        with atomic.explained(f"cannot erase from {self._trash}"), contextlib.suppress(FileNotFoundError):
            for folder in os.listdir(self._trash):
                path = os.path.join(self._trash, folder)
                if any(_holds(os.path.join(path, name), wanted) for name in os.listdir(path)):
                    shutil.rmtree(path)

    def empty_trash(self, now: float) -> None:
        """Erase what was forgotten more than 7 days before `now` (seconds since the epoch)."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._trash):
                if entry.is_dir(follow_symlinks=False) and now - entry.stat().st_ctime > TRASH_S:
                    shutil.rmtree(entry.path, ignore_errors=True)

    async def _next_version(self, index: RootIndex, draft: Memory) -> Memory:
        wanted = draft.supersedes or ""
        _, counting = await self._trust.look(index.root)
        current = {memory.id: memory for memory in counting.memories}
        if wanted not in current:
            raise MemoryNotFound(
                f"no memory {wanted!r} in this scope to supersede; `forgectl list` shows what is there"
            )
        head = current[link(counting.memories).head(wanted)]
        return msgspec.structs.replace(draft, supersedes=head.id, version=head.version + 1)

    async def _write(self, index: RootIndex, memory: Memory, *, insisted: bool) -> Written:
        await self._trust.own(index.root, (own_file(index.root, memory, insisted=insisted),))
        path = await asyncio.to_thread(index.builder.store.write, memory)
        return Written(memory, path, index.mark(frozenset({path})))

    def _lock(self, root: Root) -> asyncio.Lock:
        return self._locks.setdefault(root, asyncio.Lock())


def _holds(path: str, wanted: Collection[bytes]) -> bool:
    with open(path, "rb") as file:
        data = file.read()
    return any(text in data for text in wanted if text)


def _on_disk(index: RootIndex) -> Snapshot:
    """What is there now; only what changed since the last scan is read. Runs in a thread."""
    return scan(index.root, index.builder.snapshot)
