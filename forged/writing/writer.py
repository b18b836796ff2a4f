"""Writing and removing memories on request: versions, links, and the directory they go to.

A new version is based on its chain's head, so versions and removals come one by one in a root. What the head
is, and what is removed, is looked up on disk and not in the map: the map follows by the ordinary way, a scan,
and may wait for a provider meanwhile. What is written is durable and marked when `add` returns; `remove`
marks nothing, as its caller has more to do. MemoryNotFound and StoreError are raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.errors import MemoryNotFound, StoreError
from forged.files import MemoryStore, Root
from forged.map import link
from forged.maps import RootIndex
from forged.memory import Memory
from forged.state import Intents, Requests, Rewrite
from forged.trust import TrustRegistry
from forged.writing.new_files import PARTS
from forged.writing.removing import Back, Removing, Taking
from forged.writing.root_writer import RootWriter
from forged.writing.together import Together
from forged.writing.trash import Trash, Trashed
from forged.writing.values import Draft, Gone, Marks, NoMarks, Written

_Item = tuple[RootIndex, Draft]

_MOST_AT_ONCE = 64
# The build of what was written begins so much later, unless somebody waits for it or asks for what was
# written: whoever writes several one after the other does not share the interpreter with the builds between.
_UNASKED_S = 0.02


class Writer:
    """All writes to memory files that anybody asks for."""

    def __init__(
        self,
        trash: str,
        trust: TrustRegistry,
        requests: Requests,
        intents: Intents,
        marks: Marks | None = None,
    ) -> None:
        """`trash` is the directory in the state directory where forgotten files wait for 7 days."""
        self.trash = Trash(trash)
        self._marks = marks or NoMarks()
        self._trust = trust
        self._requests = requests
        self._removing = Removing(self.trash, trust, intents)
        self._threads = ThreadPoolExecutor(PARTS, thread_name_prefix="write")
        self._locks: WeakValueDictionary[Root, asyncio.Lock] = WeakValueDictionary()
        self._restoring = asyncio.Lock()  # taken after that of a root: of all roots one at a time
        self._lines: WeakKeyDictionary[RootIndex, _Line] = WeakKeyDictionary()

    async def add(
        self,
        index: RootIndex,
        memory: Memory,
        *,
        insisted: bool = False,
        key: str = "",
        base: str = "",
        said: FactsPatch = UNCHANGED,
    ) -> Written:
        """Write one memory, as `add_all` does.

        Raises MemoryNotFound for a superseded id that does not count in the same root, Conflict where `base`
        is not the head or a `key` came with something else before, StoreError when it could not be written.
        """
        (done,) = await self.add_all(index, (Draft(memory, insisted, key, base, said=said),))
        if isinstance(done, StoreError):
            raise done
        return done

    async def add_all(self, index: RootIndex, drafts: Sequence[Draft]) -> tuple[Written | StoreError, ...]:
        """Write each as a new file or as the next version of what it supersedes, in this order; durable then.

        What a version is based on is the head that is on disk at that moment, so versions that were begun at
        the same time line up. A text that a head of the root has already is answered with that memory. What
        could not be written has its reason in its place, and stops no other. A caller that is cancelled
        stops nothing that has begun.
        """
        line = self._lines.get(index)
        if line is None:
            snapshot = index.builder.snapshot
            writer = RootWriter(index.root, self._trust, self._requests, self._threads, snapshot)
            line = self._lines[index] = _Line(writer, Together(self._write, _MOST_AT_ONCE))
        return tuple(await asyncio.gather(*[line.together.ask((index, draft)) for draft in drafts]))

    async def chain(self, index: RootIndex, memory_id: str) -> tuple[str, ...]:
        """Ids of the versions of a memory that count, oldest first; none if it is not in this root.

        A memory that is withheld stands alone: whatever it says it supersedes.
        """
        async with self._lock(index.root):
            snapshot, counting = await self._trust.look(index.root)
        if any(memory.id == memory_id for memory in counting.memories):
            return link(counting.memories).chain(memory_id)
        return (memory_id,) if any(memory.id == memory_id for memory in snapshot.memories) else ()

    async def remove(
        self, index: RootIndex, ids: tuple[str, ...], taking: Taking, earlier: Sequence[Rewrite] = ()
    ) -> Gone:
        """Take every file of `ids` away, as `Removing` does. Raises StoreError."""
        async with self._lock(index.root):
            await self._trust.keep_out(index.root)  # versions that stay may be linked anew
            await self._marks.gone(index.root, ids, whole=taking.whole)
            await self._requests.forget(ids)  # first: what is gone must not come back by a late repetition
            if not (taking.erase and taking.why == "forget"):
                return await self._removing.remove(index.root, ids, taking, earlier)
            async with self._restoring:  # else a copy would come back that was read before
                return await self._removing.erase(index.root, ids, taking, earlier)

    async def finish(self, done: Gone | Back) -> None:
        """End a removal or return, so that the next daemon does not resume it."""
        await self._removing.finish(done)

    async def restore(self, index: RootIndex, some: Sequence[Trashed]) -> Back:
        """Put files from the trash back into their root, as `Removing` does. Raises StoreError."""
        async with self._lock(index.root), self._restoring:
            left = await asyncio.to_thread(self.trash.left, some)
            if not left:
                raise MemoryNotFound("it was erased meanwhile, or somebody else has restored it")
            await self._trust.keep_out(index.root)
            await self._marks.back(index.root, [each.note.id for each in left])
            return await self._removing.restore(index.root, left)

    async def rewrite(self, index: RootIndex, path: str, data: bytes, change: Rewrite) -> None:
        """Put into a file what it has become elsewhere, if it is as `change` says. Raises StoreError."""
        async with self._lock(index.root):
            await self._trust.keep_out(index.root)
            await self._trust.follow(index.root, [change])
            store = MemoryStore(index.root)
            await asyncio.to_thread(store.rewrite, path, data, expected=change.before)
        index.mark(frozenset({path}))

    async def _write(self, waiting: Sequence[_Item]) -> Sequence[Written | StoreError]:
        """Write what waits in one root, and mark it: all of it becomes visible together."""
        index, writer = waiting[0][0], self._lines[waiting[0][0]].writer
        await self._trust.opened()
        async with self._lock(index.root):
            answers = await asyncio.to_thread(writer.write, [draft for _, draft in waiting])
        if writer.looked:
            await self._trust.save()
        await self._trust.excluding.save()
        done = [answer for answer in answers if isinstance(answer, Written)]
        fresh = frozenset(answer.path for answer in done if not answer.existed)
        generation = index.mark(fresh, after_s=_UNASKED_S) if fresh else index.generations.wanted
        return [
            msgspec.structs.replace(answer, generation=generation) if isinstance(answer, Written) else answer
            for answer in answers
        ]

    def hold(self, root: Root) -> asyncio.Lock:
        """Nothing is written or removed in a root while its lock is held (`async with`)."""
        return self._lock(root)

    def _lock(self, root: Root) -> asyncio.Lock:
        return self._locks.setdefault(root, asyncio.Lock())


class _Line(msgspec.Struct, frozen=True):
    """What writes into one root, and who waits for that."""

    writer: RootWriter
    together: Together[_Item, Written | StoreError]
