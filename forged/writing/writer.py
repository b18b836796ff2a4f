"""Write and remove memories on request: versions, links, trash.

A new version is based on its chain's head, so versions and removals of one root are serialized. The head and
the files to remove are looked up on disk and not in the map, which is updated by a scan and may wait for a
provider. A written memory is durable and marked in its map when `add` returns. `remove` marks nothing,
because its caller does more first. Raises MemoryNotFound and StoreError.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.errors import MemoryNotFound, StoreError
from forged.fair_queue import ignore_failure, log_failure
from forged.files import MemoryStore, Root
from forged.map import build_chains
from forged.maps import RootIndex
from forged.memory import Memory
from forged.state import Intent, Intents, OwnRemovalMarks, Requests, Rewrite
from forged.trust import TrustRegistry
from forged.writing.removing import RemovalReceipt, RemovalTerms, Remover
from forged.writing.root_writer import PARTS, RootWriter, WriteRequest, Written
from forged.writing.trash import Trash, TrashEntry

_Item = tuple[RootIndex, WriteRequest]

_MOST_AT_ONCE = 64
# Delay of the build after a write, unless a caller waits for it or asks for the memory: so several writes in
# a row do not share the interpreter with the builds in between.
_UNASKED_S = 0.02


Item = TypeVar("Item")
Result = TypeVar("Result")
_SHARE_OF_CALL, _LONGEST_S = 0.25, 0.01


class GroupCommit(Generic[Item, Result]):
    """Batches the items of callers that wait at the same time into one call of `work`.

    During a call, others wait; the next call takes all of them. After a call for several, the next begins
    when as many wait, or after a quarter of that call's time; a single caller never waits. (With 32 writers
    on a busy machine, two thirds of the time went into calls for a few.) A caller cancelled before its turn
    is skipped. An exception of `work` goes to every caller of that call.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], most: int) -> None:
        """Take `work`, which gets at most `most` items and returns their results in order."""
        self._work = work
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._serving: asyncio.Task[None] | None = None
        self._wanted = 0
        self._are_enough = asyncio.Event()

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queue an item at once; return a future that gets its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        future.add_done_callback(ignore_failure)  # its caller may be cancelled when the call fails
        self._waiting.append((item, future))
        if len(self._waiting) >= self._wanted:
            self._are_enough.set()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
            self._serving.add_done_callback(log_failure)
        return future

    async def _serve(self) -> None:
        """Run batches until no caller waits."""
        try:
            while batch := self._next_batch():
                began = time.monotonic()
                await self._run_batch(batch)
                if len(batch) > 1:
                    await self._await_company(len(batch), time.monotonic() - began)
        finally:
            self._serving = None

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """Take the next batch of waiting callers off the queue, without cancelled ones."""
        there = [each for each in self._waiting if not each[1].done()]
        self._waiting = there[self._most :]
        return there[: self._most]

    async def _await_company(self, wanted: int, took_s: float) -> None:
        """Wait briefly until as many items wait as in the last call."""
        self._wanted = wanted
        self._are_enough.clear()
        if len(self._waiting) < wanted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(took_s * _SHARE_OF_CALL, _LONGEST_S)):
                    await self._are_enough.wait()

    async def _run_batch(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        """Run `work` for a batch; set each caller's result, or its error for all of them."""
        try:
            results = await self._work([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


class Writer:
    """Writes and removes memory files, for all callers; in each root one operation at a time."""

    def __init__(
        self,
        trash: str,
        trust: TrustRegistry,
        requests: Requests,
        intents: Intents,
        marks: OwnRemovalMarks,
    ) -> None:
        """Take `trash`, the directory of forgotten files in the state directory.

        `marks` gets removals and restores before they are done. If it raises StoreError, nothing is done.
        """
        self.trash = Trash(trash)
        self._marks = marks
        self._trust = trust
        self._requests = requests
        self._removing = Remover(self.trash, trust, intents)
        self._threads = ThreadPoolExecutor(PARTS, thread_name_prefix="write")
        self._locks: WeakValueDictionary[Root, asyncio.Lock] = WeakValueDictionary()
        self._restoring = asyncio.Lock()  # always locked after the lock of a root;
        self._queues: WeakKeyDictionary[RootIndex, _RootQueue] = WeakKeyDictionary()

    async def add(
        self,
        index: RootIndex,
        memory: Memory,
        *,
        insisted: bool = False,
        key: str = "",
        base: str = "",
        patch: FactsPatch = UNCHANGED,
    ) -> Written:
        """Write one memory durably as a new file or the next version; raise the error if it failed.

        Raises MemoryNotFound for an unknown superseded id, Conflict for a `base` that is not the head or a
        `key` of another request, StoreError if it could not be written.
        """
        (done,) = await self.add_all(index, (WriteRequest(memory, insisted, key, base, patch=patch),))
        if isinstance(done, StoreError):
            raise done
        return done

    async def add_all(
        self, index: RootIndex, drafts: Sequence[WriteRequest]
    ) -> tuple[Written | StoreError, ...]:
        """Write each memory as a new file or as the next version of its chain, in order; durable on return.

        A version is based on the head on disk at that moment. A text that a head of the root has already is
        answered with that memory. A failed request has its reason in its place and stops no other. A
        cancelled caller stops nothing that has begun.
        """
        line = self._queues.get(index)
        if line is None:
            snapshot = index.builder.snapshot
            writer = RootWriter(index.root, self._trust, self._requests, self._threads, snapshot)
            line = self._queues[index] = _RootQueue(writer, GroupCommit(self._write, _MOST_AT_ONCE))
        return tuple(await asyncio.gather(*[line.together.submit((index, draft)) for draft in drafts]))

    async def chain(self, index: RootIndex, memory_id: str) -> tuple[str, ...]:
        """Return ids of a memory's versions in use, oldest first; none if it is not in this root.

        A withheld memory is in a chain of its own, whatever it supersedes.
        """
        async with self._lock(index.root):
            snapshot, counting = await self._trust.look(index.root)
        if any(memory.id == memory_id for memory in counting.memories):
            return build_chains(counting.memories).chain(memory_id)
        return (memory_id,) if any(memory.id == memory_id for memory in snapshot.memories) else ()

    async def remove(
        self, index: RootIndex, ids: tuple[str, ...], taking: RemovalTerms, earlier: Sequence[Rewrite] = ()
    ) -> RemovalReceipt:
        """Move every file of `ids` to the trash, or erase it (to forget it, its copies in the trash, too)."""
        async with self._lock(index.root):
            await self._trust.exclude_captures(index.root)  # remaining versions may be changed
            await self._marks.gone(index.root, ids, whole=taking.whole)
            await self._requests.forget(ids)  # first: a late repetition must not bring it back
            if not (taking.erase and taking.why == "forget"):
                return await self._removing.remove(index.root, ids, taking, earlier)
            async with self._restoring:  # else a copy that was read before would be restored
                return await self._removing.erase(index.root, ids, taking, earlier)

    async def restore(self, index: RootIndex, some: Sequence[TrashEntry]) -> Intent:
        """Restore trash entries and relink their successors; return the intent, still recorded."""
        async with self._lock(index.root), self._restoring:
            left = await asyncio.to_thread(self.trash.still_there, some)
            if not left:
                raise MemoryNotFound("it was erased or restored meanwhile")
            await self._trust.exclude_captures(index.root)
            await self._marks.back(index.root, [each.note.id for each in left])
            return await self._removing.restore(index.root, left)

    async def rewrite(
        self, index: RootIndex, path: str, data: bytes, change: Rewrite, *, keeps_origin: bool
    ) -> None:
        """Replace a file by its bytes from another machine, unless it changed. Raises StoreError."""
        async with self._lock(index.root):
            await self._trust.exclude_captures(index.root)
            await self._trust.record_rewrites(index.root, [change], keeps_origin=keeps_origin)
            store = MemoryStore(index.root)
            await asyncio.to_thread(store.rewrite, path, data, expected=change.before)
        index.mark(frozenset({path}))

    async def _write(self, waiting: Sequence[_Item]) -> Sequence[Written | StoreError]:
        """Write one root's waiting requests and mark its map to be rebuilt; return the results."""
        index, writer = waiting[0][0], self._queues[waiting[0][0]].writer
        await self._trust.wait_until_open()
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
        """Return the lock of a root; while it is held, nothing is written or removed there."""
        return self._lock(root)

    def _lock(self, root: Root) -> asyncio.Lock:
        return self._locks.setdefault(root, asyncio.Lock())


class _RootQueue(msgspec.Struct, frozen=True):
    """`RootWriter` of one root, and the group commit that batches its waiting write requests."""

    writer: RootWriter
    together: GroupCommit[_Item, Written | StoreError]
