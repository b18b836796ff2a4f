"""Proposals that wait for a person: from pasted text or from past sessions.

A waiting `DecidedMemory` is stored here only: in no file, map or prompt. Beyond the limit the oldest are
dropped, and so are those older than 30 days. Proposals from past sessions neither displace others nor are
displaced; learning stops at MOST_LEARNED. Reads use memory. Async methods are durable on return and raise
StoreError.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from forged.files import Root
from forged.memory import time_ns
from forged.state.cutting import CutCount
from forged.state.database import Database
from forged.state.event_values import DecidedMemory
from forged.state.rows import Rows
from forged.text.forgetting import Words, without_sentences

MOST, MOST_LEARNED = 200, 1_000
HELD_S = 30 * 24 * 3600.0


class ToReview(Rows[DecidedMemory]):
    """Table of proposals that wait for a person, by memory id. For the daemon's event loop.

    `clock` returns Unix seconds.
    """

    def __init__(self, database: Database, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "to_review", DecidedMemory, durable=True, clock=clock)
        self._room = most
        # A change reads first and waits for the disk in between.
        self._one_at_a_time = asyncio.Lock()

    def of(self, roots: Collection[Root] | None = None) -> tuple[DecidedMemory, ...]:
        """Return proposals of these roots, or all, made within 30 days; oldest statement first."""
        since = self._clock() - HELD_S
        listed = (each for each in self.values() if roots is None or each.root in roots)
        fresh = (each for each in listed if _proposed_at(each) > since)
        return tuple(sorted(fresh, key=lambda each: (each.memory.created_at, each.memory.id)))

    @property
    def learned(self) -> int:
        """Return the count of waiting proposals from past sessions."""
        return sum(bool(each.learned_at) for each in self.of())

    async def add(self, documents: Sequence[DecidedMemory]) -> tuple[str, ...]:
        """Add proposals, each text of a root once; drop the oldest over the limit; return ids of new ones.

        One that replaces a waiting proposal takes its place.
        """
        async with self._one_at_a_time:
            waiting = {each.memory.id: each for each in self.of()}
            there = {(each.root, each.identity, each.memory.content) for each in waiting.values()}
            new: list[str] = []
            for each in documents:
                if (words := (each.root, each.identity, each.memory.content)) in there:
                    continue
                there.add(words)
                waiting[each.memory.id] = _in_place_of(each, waiting.pop(each.memory.supersedes or "", None))
                new.append(each.memory.id)
            if new:
                for gone in self._over_limit(waiting.values()):
                    del waiting[gone]
                put = {memory_id: waiting[memory_id] for memory_id in new if memory_id in waiting}
                await self.store(dict.fromkeys(self.keys() - waiting) | put)
            return tuple(new)

    def _over_limit(self, waiting: Iterable[DecidedMemory]) -> list[str]:
        """Return the ids of the oldest proposals beyond the limit; those from past sessions do not count."""
        live = sorted((each for each in waiting if not each.learned_at), key=_proposed_at)
        return [each.memory.id for each in live[: -self._room]]

    async def remove(self, ids: Collection[str]) -> None:
        """Delete proposals by memory id, durably; unknown ids are left out. Raises StoreError."""
        async with self._one_at_a_time:
            await self.store({each: None for each in ids if each in self})

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Remove references to forgotten memories of a root from its proposals. Durable."""
        async with self._one_at_a_time:
            alone = {key: _unlinked(each, memory_ids) for key, each in self.items() if each.root.top == top}
            await self.store({key: each for key, each in alone.items() if each != self[key]})

    async def cut(self, unwanted: Sequence[Words]) -> CutCount:
        """Delete proposals whose content has a forgotten text; cut pasted texts, return counts."""
        async with self._one_at_a_time:
            left = {key: _cut_proposal(each, unwanted) for key, each in self.items()}
            changed = {key: document for key, (document, count) in left.items() if count}
            await self.store(changed)
            return CutCount(sum(count for _, count in left.values()), len(changed))


def _cut_proposal(document: DecidedMemory, unwanted: Sequence[Words]) -> tuple[DecidedMemory | None, int]:
    """Return a proposal without forgotten text, None if its content has some; and the sentence count."""
    _, said = without_sentences(document.memory.content, unwanted)
    pasted, count = without_sentences(document.pasted, unwanted)
    if said:
        return None, said + count
    return (msgspec.structs.replace(document, pasted=pasted) if count else document), count


def _unlinked(document: DecidedMemory, gone: Collection[str]) -> DecidedMemory:
    """Return a proposal without references to memories that are gone."""
    memory = document.memory
    related = tuple(edge for edge in memory.related if edge.id not in gone)
    memory = msgspec.structs.replace(memory, related=related)
    if memory.supersedes in gone:
        memory = msgspec.structs.replace(memory, supersedes=None, version=1)
    return msgspec.structs.replace(document, memory=memory)


def _proposed_at(document: DecidedMemory) -> float:
    """Return the Unix time of a proposal: when it was learned, else when its memory was created."""
    return document.learned_at or time_ns(document.memory.created_at) / 1e9


def _in_place_of(document: DecidedMemory, other: DecidedMemory | None) -> DecidedMemory:
    """Return a proposal with the predecessor and version of the waiting one it replaces, if any."""
    if other is None:
        return document
    memory = msgspec.structs.replace(
        document.memory, supersedes=other.memory.supersedes, version=other.memory.version
    )
    return msgspec.structs.replace(document, memory=memory)
