"""What a classifier proposed beside pasted text or of a past session: it waits until a person decides.

A `Document` that `waits` lies here and nowhere else: in no file, in no map, in no prompt. Of too many the
oldest go, and so does what nobody looked at for 30 days. What was learned of past sessions does not push
anything out, nor is it pushed out: who learns stops at MOST_LEARNED. Answered from memory; what is awaited is
durable on return and raises StoreError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.files import Root
from forged.memory import time_ns
from forged.state import tables
from forged.state.cutting import Cut
from forged.state.database import Damaged, Database
from forged.state.event_values import Document, encoded
from forged.text.forgetting import Words, without_sentences

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST, MOST_LEARNED = 200, 1_000
HELD_S = 30 * 24 * 3600.0

_DECODE = msgspec.msgpack.Decoder(tuple[Document, ...]).decode


class ToReview:
    """One for the daemon; lives in its event loop. `clock` gives Unix seconds."""

    def __init__(self, database: Database, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._most = most
        self._clock = clock
        self._waiting: dict[str, Document] = {}
        # Whoever changes it has read it before, and waits for the disk between.
        self._one_at_a_time = asyncio.Lock()

    def restore(self, waiting: Iterable[Document]) -> None:
        """Take over what a file holds, as it is opened."""
        self._waiting = {each.memory.id: each for each in waiting} | self._waiting

    def of(self, roots: Collection[Root] | None = None) -> tuple[Document, ...]:
        """What waits in these roots, or in all, oldest first."""
        since = self._clock() - HELD_S
        told = (each for each in self._waiting.values() if roots is None or each.root in roots)
        fresh = (each for each in told if _at(each) > since)
        return tuple(sorted(fresh, key=lambda each: (each.memory.created_at, each.memory.id)))

    @property
    def learned(self) -> int:
        """How many of those that wait were learned of past sessions."""
        return sum(bool(each.learned_at) for each in self.of())

    async def add(self, documents: Sequence[Document]) -> tuple[str, ...]:
        """Let these wait; the same words of a root wait once. The ids of those that are new.

        One that is to replace what waits itself takes its place: of two that wait the newest word counts.
        """
        async with self._one_at_a_time:
            waiting = {each.memory.id: each for each in self.of()}
            there = {(each.root, each.identity, each.memory.content) for each in waiting.values()}
            new: list[str] = []
            for each in documents:
                if (words := (each.root, each.identity, each.memory.content)) in there:
                    continue
                there.add(words)
                waiting[each.memory.id] = _in_place(each, waiting.pop(each.memory.supersedes or "", None))
                new.append(each.memory.id)
            if new:
                for gone in self._beyond(waiting.values()):
                    del waiting[gone]
                put = [waiting[memory_id] for memory_id in new if memory_id in waiting]
                await self._write(put, self._waiting.keys() - waiting)
            return tuple(new)

    def _beyond(self, waiting: Iterable[Document]) -> list[str]:
        """The ids of those that there is no room for."""
        heard = sorted((each for each in waiting if not each.learned_at), key=_at)
        return [each.memory.id for each in heard[: -self._most]]

    async def remove(self, ids: Collection[str]) -> None:
        """Let these wait no longer."""
        async with self._one_at_a_time:
            await self._write((), [each for each in ids if each in self._waiting])

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Let none of what waits name these memories of a root: it stands alone from now on."""
        async with self._one_at_a_time:
            waiting = [each for each in self._waiting.values() if each.root.top == top]
            alone = [_alone(each, memory_ids) for each in waiting]
            await self._write([each for each in alone if each not in waiting], ())

    async def cut(self, unwanted: Sequence[Words]) -> Cut:
        """Take away what says an unwanted text, and the text out of what was pasted beside the others."""
        async with self._one_at_a_time:
            left = {each.memory.id: _without(each, unwanted) for each in self._waiting.values()}
            gone = [each for each, (document, _) in left.items() if document is None]
            changed = [document for document, count in left.values() if document is not None and count]
            await self._write(changed, gone)
            return Cut(sum(count for _, count in left.values()), len(gone) + len(changed))

    async def _write(self, put: Sequence[Document], gone: Collection[str]) -> None:
        if put or gone:
            await self._database.run(partial(_change, put, gone))
        self._waiting |= {each.memory.id: each for each in put}
        self._waiting = {each: document for each, document in self._waiting.items() if each not in gone}


def _without(document: Document, unwanted: Sequence[Words]) -> tuple[Document | None, int]:
    _, said = without_sentences(document.memory.content, unwanted)
    beside, count = without_sentences(document.beside, unwanted)
    if said:
        return None, said + count
    return (msgspec.structs.replace(document, beside=beside) if count else document), count


def _alone(document: Document, gone: Collection[str]) -> Document:
    memory = document.memory
    related = tuple(edge for edge in memory.related if edge.id not in gone)
    memory = msgspec.structs.replace(memory, related=related)
    if memory.supersedes in gone:
        memory = msgspec.structs.replace(memory, supersedes=None, version=1)
    return msgspec.structs.replace(document, memory=memory)


def _at(document: Document) -> float:
    """Since when it waits."""
    return document.learned_at or time_ns(document.memory.created_at) / 1e9


def _in_place(document: Document, other: Document | None) -> Document:
    """A document with what another one that waited was to replace, if there was one."""
    if other is None:
        return document
    memory = msgspec.structs.replace(
        document.memory, supersedes=other.memory.supersedes, version=other.memory.version
    )
    return msgspec.structs.replace(document, memory=memory)


def all_to_review(connection: Connection) -> tuple[Document, ...]:
    """All rows. Raises Damaged."""
    try:
        return tuple(
            document
            for _, said in tables.rows(connection, "to_review")
            for document in _DECODE(said if isinstance(said, bytes) else b"")
        )
    except msgspec.DecodeError as error:
        raise Damaged(f"what waits for a person cannot be read: {error}") from error


def _change(put: Iterable[Document], gone: Iterable[str], connection: Connection) -> None:
    for memory_id in gone:
        tables.remove(connection, "to_review", memory_id)
    for each in put:
        tables.put(connection, "to_review", each.memory.id, encoded((each,)))
