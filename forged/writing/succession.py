"""Make a memory the next version of a chain.

In a fork the head is the newest that follows the named version. Raises MemoryNotFound.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.errors import MemoryNotFound
from forged.map import build_chains, replaced_ids
from forged.memory import Memory
from forged.text.same_text import normalised


def base_of(memories: Sequence[Memory], memory_id: str) -> tuple[Memory, int]:
    """Return the head that a new version of this memory replaces, and the new version's number.

    `memories` are those that count in the root.
    """
    there = {memory.id: memory for memory in memories}
    if memory_id not in there:
        raise MemoryNotFound(
            f"no memory {memory_id[:80]!r} in this scope to supersede; `forgectl list` shows what is there"
        )
    chains = build_chains(memories)
    chain = [there[each] for each in chains.chain(memory_id)]
    number = max(memory.version for memory in chain) + 1
    if not chains.concurrent_heads.get(chains.head(memory_id)):
        return there[chains.head(memory_id)], number
    newer = [memory for memory in _successors(chain, memory_id) if chains.is_head(memory.id)]
    return max(newer, key=lambda memory: memory.age_key, default=there[chains.head(memory_id)]), number


def next_version(draft: Memory, base: Memory, number: int, *, is_whole: bool = False) -> Memory:
    """Return `draft` as the version after `base`; unless `is_whole`, missing fields are inherited.

    Links are added to those of `base` and unknown keys stay; evidence is not inherited. Entities belong to
    their text.
    """
    if is_whole:
        return msgspec.structs.replace(draft, supersedes=base.id, version=number)
    if not draft.entities and not draft.relations and normalised(draft.content) == normalised(base.content):
        draft = msgspec.structs.replace(draft, entities=base.entities, relations=base.relations)
    edges = {edge.id: edge for edge in (*base.related, *draft.related)}
    return msgspec.structs.replace(
        draft,
        supersedes=base.id,
        version=number,
        category=draft.category or base.category,
        related=tuple(edges.values()),
        extra=draft.extra or base.extra,
        cues=draft.cues or base.cues,
    )


def _successors(chain: Sequence[Memory], memory_id: str) -> list[Memory]:
    """Return the version of this id and all that replaced it; `chain` is sorted by age."""
    reached = {memory_id}
    while more := {m.id for m in chain if m.id not in reached and not reached.isdisjoint(replaced_ids(m))}:
        reached |= more
    return [memory for memory in chain if memory.id in reached]
