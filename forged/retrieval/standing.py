"""Memories that come once with a session and without a search: what holds whatever is said.

A rule such as "answer briefly" resembles no message, so no search finds it. In go the maps that a session
sees, out come the heads that stand, first what matters most: corrections, then the user's preferences, then
the repository's conventions; within each what most sessions have searched for, then the newest. When all
visible heads fit into the budget, all of them stand. Only what a person typed or asked for does, and files of
a root that a person trusts or that is their own: nothing that was imported or that a program or a model made.
Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from forged.map import VectorMap
from forged.memory import Category, Memory, Origin, Scope

Head = tuple[VectorMap, Memory]
Uses = Callable[[VectorMap, Memory], int]
Cost = Callable[[Memory], int]

# Bytes; no memory with its head has fewer.
_LEAST = 24
_BY_A_PERSON = {Origin.TYPED, Origin.EXPLICIT}
_BY_NOBODY_KNOWN = {"", Origin.FILE}
_KINDS = (
    (Category.CORRECTIONS, ""),
    (Category.CODING_PREFERENCES, Scope.USER),
    (Category.PROJECT_CONVENTIONS, Scope.REPO),
)


def standing(
    maps: Sequence[VectorMap], trusted: Collection[str], budget: int, cost: Cost, uses: Uses
) -> tuple[Head, ...]:
    """The heads that stand, of which `cost` adds up to `budget` at most; `trusted` are tops of roots."""
    may = partial(_may_stand, trusted)
    if (every := _all(maps, budget, cost)) is not None:
        return tuple(filter(may, every))
    chosen, left = list[Head](), budget
    for home, memory in _in_order(list(filter(may, _heads(maps))), uses):
        if left < _LEAST:
            break
        if (taken := cost(memory)) <= left:
            left -= taken
            chosen.append((home, memory))
    return tuple(chosen)


def _heads(maps: Sequence[VectorMap]) -> Iterator[Head]:
    return ((home, each) for home in maps for each in home.memories if home.chains.is_head(each.id))


def _all(maps: Sequence[VectorMap], budget: int, cost: Cost) -> list[Head] | None:
    """All heads, None if they are too much."""
    found: list[Head] = []
    for head in _heads(maps):
        budget -= cost(head[1])
        if budget < 0:
            return None
        found.append(head)
    return found


def _may_stand(trusted: Collection[str], head: Head) -> bool:
    home, memory = head
    return memory.origin in _BY_A_PERSON or (memory.origin in _BY_NOBODY_KNOWN and home.root in trusted)


def _in_order(heads: Sequence[Head], uses: Uses) -> Iterator[Head]:
    for category, scope in _KINDS:
        of_kind = [head for head in heads if head[1].category == category and scope in {"", head[1].scope}]
        newest_first = sorted(of_kind, key=lambda head: head[1].created_at, reverse=True)
        yield from sorted(newest_first, key=lambda head: -uses(*head))
