"""Version chains along `supersedes`, and the memories that `related` links lead to.

Pure functions. People edit these links by hand, so forks, cycles and ids without a memory are expected. A
chain is the connected set of memories that supersede one another. Its head is the greatest of (version,
created_at, id). Two versions that replaced the same one are both heads, until one names the other in
`supersedes`, or in `related` with that word. Such a link also joins two chains into one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

import msgspec

from forged.memory import Memory, Relationship

_Key = TypeVar("_Key", bound=Hashable)


class Chains(msgspec.Struct, frozen=True, eq=False):
    """Version chains of one root that have several members or a flag; made by `build_chains`, frozen.

    `members` maps a head to all ids of its chain, oldest first. `head_of` maps each of those ids to the head.
    `flags` maps a head to the names of its oddities: "fork", "cycle", "missing:<id>". `concurrent_heads` maps
    the head of a fork to its other heads, oldest first. A memory in none of them is its own head.
    """

    head_of: dict[str, str]
    members: dict[str, tuple[str, ...]]
    flags: dict[str, tuple[str, ...]]
    concurrent_heads: dict[str, tuple[str, ...]] = {}

    def head(self, memory_id: str) -> str:
        """Return the id of a chain's head, of a fork the greatest; the given id if it has no chain."""
        return self.head_of.get(memory_id, memory_id)

    def concurrent_with(self, memory_id: str) -> tuple[str, ...]:
        """Return the other heads of a forked chain; none if this memory is not one of its heads."""
        head = self.head(memory_id)
        heads = (*self.concurrent_heads.get(head, ()), head)
        return tuple(each for each in heads if each != memory_id) if memory_id in heads else ()

    def chain(self, memory_id: str) -> tuple[str, ...]:
        """Return all ids of a chain, oldest first; the id alone if it has no chain."""
        return self.members.get(self.head(memory_id), (memory_id,))

    def is_head(self, memory_id: str) -> bool:
        """Return True if the memory is its chain's head, one of a fork's heads, or in no chain."""
        head = self.head(memory_id)
        return head == memory_id or memory_id in self.concurrent_heads.get(head, ())

    def heads(self, memories: Iterable[Memory]) -> list[Memory]:
        """Return the `memories` that are in no chain or head theirs; a fork has several heads."""
        gone = {each for each, head in self.head_of.items() if each != head}.difference(
            *self.concurrent_heads.values()
        )
        return [memory for memory in memories if memory.id not in gone]

    def may_change_with(self, memories: Iterable[Memory]) -> bool:
        """Return True if an edit of these memories may change a chain; pass their old and new versions."""
        missing = {flag for flags in self.flags.values() for flag in flags}
        return any(
            memory.supersedes
            or replaced_ids(memory)
            or memory.id in self.head_of
            or f"missing:{memory.id}" in missing
            for memory in memories
        )


NO_CHAINS = Chains({}, {}, {})


def build_chains(memories: Collection[Memory]) -> Chains:
    """Find the version chains among one root's memories, with heads, forks and flags. Ids are unique."""
    successors = [memory for memory in memories if memory.supersedes or replaced_ids(memory)]
    if not successors:
        return NO_CHAINS
    everyone = {memory.id: memory for memory in memories}
    head_of: dict[str, str] = {}
    members: dict[str, tuple[str, ...]] = {}
    flags: dict[str, tuple[str, ...]] = {}
    concurrent_heads: dict[str, tuple[str, ...]] = {}
    for group in _connected_ids(successors):
        present = sorted((everyone[i] for i in group if i in everyone), key=lambda m: m.age_key)
        head = present[-1].id
        ends = _unreplaced_ids(present)
        if len(ends) > 1:
            concurrent_heads[head] = tuple(
                memory.id for memory in present if memory.id in ends and memory.id != head
            )
        odd = _chain_flags(present, everyone, is_forked=len(ends) > 1)
        if odd:
            flags[head] = odd
        if len(present) > 1:
            members[head] = tuple(memory.id for memory in present)
            head_of.update(dict.fromkeys(members[head], head))
    return Chains(head_of, members, flags, concurrent_heads)


def _unreplaced_ids(present: Sequence[Memory]) -> set[str]:
    """Return the ids of those members of a chain that no other member replaces."""
    return {memory.id for memory in present}.difference(*map(replaced_ids, present))


def replaced_ids(memory: Memory) -> set[str]:
    """Return the ids that a memory names in `supersedes` or links as superseded, except its own."""
    if not memory.related and not memory.supersedes:
        return set()
    named = {edge.id for edge in memory.related if edge.relationship == Relationship.SUPERSEDES}
    return (named | {memory.supersedes or ""}) - {memory.id, ""}


def _connected_ids(successors: Iterable[Memory]) -> Iterable[list[str]]:
    """Yield the ids of each chain: those that a replacement joins, also ids without a memory."""
    neighbours: dict[str, list[str]] = {}
    for memory in successors:
        for older in replaced_ids(memory) or {memory.id}:
            neighbours.setdefault(memory.id, []).append(older)
            neighbours.setdefault(older, []).append(memory.id)
    seen: set[str] = set()
    for start in neighbours:
        if start not in seen:
            group = [start]
            seen.add(start)
            for current in group:
                fresh = [i for i in neighbours[current] if i not in seen]
                seen.update(fresh)
                group.extend(dict.fromkeys(fresh))
            yield group


def _chain_flags(
    present: Sequence[Memory], everyone: dict[str, Memory], *, is_forked: bool
) -> tuple[str, ...]:
    """Return the flags of a chain: missing:<id> for ids without a memory, fork, cycle."""
    links = [memory.supersedes for memory in present if memory.supersedes]
    missing = sorted({older for older in links if older not in everyone})
    found = [f"missing:{older}" for older in missing]
    if is_forked:
        found.append("fork")
    # A tree of n memories has fewer than n links between them; one more closes a cycle.
    if len(links) - sum(older in missing for older in links) >= len(present):
        found.append("cycle")
    return tuple(found)


def follow_links(
    seeds: Sequence[_Key], neighbours: Callable[[_Key], Iterable[_Key]], *, depth: int, limit: int
) -> list[_Key]:
    """Return at most `limit` other keys within `depth` link steps of `seeds`, nearest first.

    A key is any value that identifies a memory. `neighbours` yields the keys that a memory links to and
    leaves out missing ones. At most `limit` keys are returned, so that one hub does not fill the answer.
    """
    seen = set(seeds)
    found: list[_Key] = []
    frontier = list(seeds)
    for _ in range(depth):
        reached: list[_Key] = []
        for current in frontier:
            for other in neighbours(current):
                if other not in seen:
                    seen.add(other)
                    reached.append(other)
                    if len(found) + len(reached) == limit:
                        return found + reached
        found += reached
        frontier = reached
        if not frontier:
            break
    return found
