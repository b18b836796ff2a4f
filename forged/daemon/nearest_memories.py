"""Memories for the prompt of a classifier: those nearest to the conversation first, and few.

Heads only: a superseded text must not be superseded again. The newest memories fill up the result of the
search. Memories that are not found within 2 s are left out, and nothing is raised.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections.abc import Sequence

from forged.capture import KnownMemory
from forged.config import MemoryConfig
from forged.conversation import last_user_text
from forged.maps import Indexer
from forged.memory import Memory, time_ns
from forged.models import cleaned
from forged.retrieval import Ask, Retriever
from forged.state import Event
from forged.stores import FileStore, View, Workplace

MOST_HEADS = 60
_PATIENCE_S = 2.0
# Part of it for the maps to show the results of the event before, which may be just over.
_FRESH_S = 1.0


async def nearest(event: Event, indexer: Indexer, retriever: Retriever) -> tuple[KnownMemory, ...]:
    """Return up to 60 current memories within 2 s: nearest to an event's text, then the newest."""
    now = time.monotonic()
    files = FileStore(indexer, event.roots)
    place = Workplace(event.roots, files, tuple(root.top for root in event.roots), MemoryConfig())
    view = await files.view(sys.maxsize, now + _FRESH_S)
    found = await _search(event, place, retriever, now + _PATIENCE_S) if view.indexes else ()
    return await asyncio.to_thread(_known_memories, found, view)  # 25 ms with ten thousand memories


async def _search(
    event: Event, place: Workplace, retriever: Retriever, deadline: float
) -> tuple[Memory, ...]:
    """Return memories that the event's text finds, best first; none if that takes too long."""
    ask = Ask(
        window=event.window,
        message=last_user_text(event.window),
        top_k=MOST_HEADS // 2,
        hop_depth=0,
        deadline=deadline,
    )
    try:
        async with asyncio.timeout_at(deadline):
            answer = await retriever.search(ask, place)
    except TimeoutError:
        return ()
    return tuple(ranked.memory for ranked in answer.ranked)


def _known_memories(found: Sequence[Memory], view: View) -> tuple[KnownMemory, ...]:
    """Return found and then newest memories, each once, as a classifier's prompt has them; at most 60."""
    ranked = {(memory.scope, memory.id): memory for memory in (*found, *_newest_heads(view))}
    return tuple(_as_known_memory(memory) for memory in list(ranked.values())[:MOST_HEADS])


def _newest_heads(view: View) -> list[Memory]:
    """Return the newest current memories of a view, at most 60."""
    heads = [found for home in view.maps for found in home.memories if home.chains.is_head(found.id)]
    return heapq.nsmallest(MOST_HEADS, heads, key=lambda found: (-time_ns(found.created_at), found.id))


def _as_known_memory(memory: Memory) -> KnownMemory:
    """Return id, scope, category and first line of a memory, cleaned for a classifier's prompt."""
    # Cleaned one by one: an open private span in one must not hide the next ones.
    return KnownMemory(memory.id, memory.scope, memory.category, cleaned(memory.first_line))
