"""What a classifier proposed beside pasted text or of a past session: it waits until a person decides.

A `DecidedMemory` that `waits` lies here and nowhere else: in no file, in no map, in no prompt. Of too many
the oldest go, and so does what nobody looked at for 30 days. What was learned of past sessions does not push
anything out, nor is it pushed out: who learns stops at MOST_LEARNED. Answered from memory; what is awaited
is durable on return and raises StoreError.
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
    """One for the daemon, by the memory's id; lives in its event loop. `clock` gives Unix seconds."""

    def __init__(self, database: Database, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "to_review", DecidedMemory, durable=True, clock=clock)
        self._room = most
        # Whoever changes it has read it before, and waits for the disk between.
        self._one_at_a_time = asyncio.Lock()

    def of(self, roots: Collection[Root] | None = None) -> tuple[DecidedMemory, ...]:
        """What waits in these roots, or in all, oldest first."""
        since = self._clock() - HELD_S
        told = (each for each in self.values() if roots is None or each.root in roots)
        fresh = (each for each in told if _at(each) > since)
        return tuple(sorted(fresh, key=lambda each: (each.memory.created_at, each.memory.id)))

    @property
    def learned(self) -> int:
        """How many of those that wait were learned of past sessions."""
        return sum(bool(each.learned_at) for each in self.of())

    async def add(self, documents: Sequence[DecidedMemory]) -> tuple[str, ...]:
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
                for gone in self._without_room(waiting.values()):
                    del waiting[gone]
                put = {memory_id: waiting[memory_id] for memory_id in new if memory_id in waiting}
                await self.store(dict.fromkeys(self.keys() - waiting) | put)
            return tuple(new)

    def _without_room(self, waiting: Iterable[DecidedMemory]) -> list[str]:
        heard = sorted((each for each in waiting if not each.learned_at), key=_at)
        return [each.memory.id for each in heard[: -self._room]]

    async def remove(self, ids: Collection[str]) -> None:
        """Let these wait no longer."""
        async with self._one_at_a_time:
            await self.store({each: None for each in ids if each in self})

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Let none of what waits name these memories of a root: it stands alone from now on."""
        async with self._one_at_a_time:
            alone = {key: _alone(each, memory_ids) for key, each in self.items() if each.root.top == top}
            await self.store({key: each for key, each in alone.items() if each != self[key]})

    async def cut(self, unwanted: Sequence[Words]) -> CutCount:
        """Take away what says an unwanted text, and the text out of what was pasted beside the others."""
        async with self._one_at_a_time:
            left = {key: _without(each, unwanted) for key, each in self.items()}
            changed = {key: document for key, (document, count) in left.items() if count}
            await self.store(changed)
            return CutCount(sum(count for _, count in left.values()), len(changed))


def _without(document: DecidedMemory, unwanted: Sequence[Words]) -> tuple[DecidedMemory | None, int]:
    _, said = without_sentences(document.memory.content, unwanted)
    pasted, count = without_sentences(document.pasted, unwanted)
    if said:
        return None, said + count
    return (msgspec.structs.replace(document, pasted=pasted) if count else document), count


def _alone(document: DecidedMemory, gone: Collection[str]) -> DecidedMemory:
    memory = document.memory
    related = tuple(edge for edge in memory.related if edge.id not in gone)
    memory = msgspec.structs.replace(memory, related=related)
    if memory.supersedes in gone:
        memory = msgspec.structs.replace(memory, supersedes=None, version=1)
    return msgspec.structs.replace(document, memory=memory)


def _at(document: DecidedMemory) -> float:
    return document.learned_at or time_ns(document.memory.created_at) / 1e9


def _in_place(document: DecidedMemory, other: DecidedMemory | None) -> DecidedMemory:
    """A document with what another one that waited was to replace, if there was one."""
    if other is None:
        return document
    memory = msgspec.structs.replace(
        document.memory, supersedes=other.memory.supersedes, version=other.memory.version
    )
    return msgspec.structs.replace(document, memory=memory)
