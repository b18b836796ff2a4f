"""Pinned memories: they are injected once, at the start of a session, without a search.

A rule such as "answer briefly" resembles no message, so no search finds it. Corrections, the user's
preferences and the repository's conventions have a third of the budget each; what one leaves goes to the
others in this order. Within each kind the most used by searches come first, then the newest; of two with the
same text one. An agent's own personas come last. Only memories that a person typed or asked for count, of
roots that are trusted or own. If all visible heads fit into the budget, all are pinned. Nothing is raised.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from forged.map import VectorMap
from forged.memory import OF_PERSON, Category, Memory, Origin, Scope
from forged.sessions.block import most_bytes
from forged.state import State
from forged.stores import Ranked, Workplace
from forged.text.tokens import BYTES_PER_TOKEN

Head = tuple[VectorMap, Memory]
Uses = Callable[[VectorMap], Mapping[str, int]]
Cost = Callable[[Memory], int]
Kind = tuple[Category, str]

# Least bytes of a memory with its heading.
_LEAST = 24
_BY_AN_UNKNOWN_AUTHOR = {"", Origin.FILE}
_KINDS = (
    (Category.CORRECTIONS, ""),
    (Category.CODING_PREFERENCES, Scope.USER),
    (Category.PROJECT_CONVENTIONS, Scope.REPO),
)


def pinned_in(state: State, place: Workplace, limit: int) -> tuple[Ranked, ...]:
    """Return the memories to pin in a workspace, then its agent's personas, of at most `limit` bytes."""
    own = place.files.maps()
    budget = min(place.settings.pinned_token_budget * BYTES_PER_TOKEN, limit)
    trusted = {record.top for record in state.trust.roots() if record.trusted_at}
    trusted |= {root.top for root in place.roots if root.is_own}
    heads = choose_pinned(own, trusted, budget, partial(_search_counts, state))
    if place.others:
        heads = (*heads, *choose_personas(_personas_of(place, state), budget, heads))
    return tuple(
        Ranked(each, 0.0, found_by="pinned", root=home.root, admitted_as="pinned") for home, each in heads
    )


def _personas_of(place: Workplace, state: State) -> list[Head]:
    """Return the current memories of the type persona in the agent's store of a workplace."""
    homes = (home for each in place.others if each.scope is Scope.AGENT for home in each.maps())
    return [
        (home, each)
        for home in homes
        for each in home.memories
        if home.chains.is_head(each.id) and state.attributes.of(home.root, each.id).memory_type == "persona"
    ]


def _search_counts(state: State, home: VectorMap) -> dict[str, int]:
    """Return for each head in how many sessions a search found it, or a memory that it replaced."""
    found: dict[str, int] = {}
    for memory_id, count in state.injected_sets.uses.of_root(home.root).items():
        head = home.chains.head(memory_id)
        for each in (head, *home.chains.concurrent_heads.get(head, ())):
            found[each] = found.get(each, 0) + count
    return found


def choose_pinned(
    maps: Sequence[VectorMap], trusted: Collection[str], budget: int, uses: Uses, cost: Cost = most_bytes
) -> tuple[Head, ...]:
    """Return the heads to pin, with a total `cost` of at most `budget`; `uses` counts searches of a map."""
    may = partial(_may_be_pinned, trusted)
    if (every := _all_within(maps, budget, cost)) is not None:
        said = set[str]()
        return tuple(head for head in filter(may, every) if _is_new_text(head, said))
    choice = _Choice(budget)
    counts = {home.root: uses(home) for home in maps}
    # First each kind fills its own share, then in order of weight what the others left.
    for share in (budget // len(_KINDS), budget):
        for kind in _KINDS:
            choice.begin(share)
            choice.fill(kind, filter(may, _of_kind(maps, kind, counts, lambda: choice.room)), cost)
    return tuple(chain.from_iterable(choice.heads[kind] for kind in _KINDS))


class _Choice:
    """Heads chosen so far by kind, each text once; `room` is left of a kind's share, `left` of all."""

    def __init__(self, budget: int) -> None:
        self.heads: dict[Kind, list[Head]] = {kind: [] for kind in _KINDS}
        self.left = self.room = budget
        self._said = set[str]()

    def begin(self, share: int) -> None:
        """Give a kind so much room, at most what is left."""
        self.room = min(share, self.left)

    def fill(self, kind: Kind, heads: Iterator[Head], cost: Cost) -> None:
        """Add heads of a kind until its room is full; skip those that do not fit, and repeated texts."""
        while self.room >= _LEAST and (head := next(heads, None)) is not None:
            taken = cost(head[1])
            if taken <= self.room and _is_new_text(head, self._said):
                self.room, self.left = self.room - taken, self.left - taken
                self.heads[kind].append(head)


def _is_new_text(head: Head, said: set[str]) -> bool:
    """Return True for a text that is not in `said`, but for case and blanks, and add it."""
    count = len(said)
    said.add(" ".join(head[1].content.split()).casefold().rstrip("."))
    return len(said) > count


def choose_personas(heads: Sequence[Head], budget: int, chosen: Sequence[Head]) -> Iterator[Head]:
    """Yield the newest personas that a person gave an agent, within the budget left by `chosen`."""
    budget -= sum(most_bytes(each) for _, each in chosen)
    for home, memory in sorted(heads, key=_created_at, reverse=True):
        taken = most_bytes(memory)
        if memory.origin in OF_PERSON and taken <= budget:
            budget -= taken
            yield home, memory


def _heads(maps: Sequence[VectorMap]) -> Iterator[Head]:
    """Yield the current memories of all maps."""
    return ((home, each) for home in maps for each in home.memories if home.chains.is_head(each.id))


def _all_within(maps: Sequence[VectorMap], budget: int, cost: Cost) -> list[Head] | None:
    """Return the current memories of all maps; None if they exceed the budget."""
    found: list[Head] = []
    for head in _heads(maps):
        budget -= cost(head[1])
        if budget < 0:
            return None
        found.append(head)
    return found


def _may_be_pinned(trusted: Collection[str], head: Head) -> bool:
    """Return True if a person wrote a memory, or an unknown author in a trusted root."""
    home, memory = head
    return memory.origin in OF_PERSON or (memory.origin in _BY_AN_UNKNOWN_AUTHOR and home.root in trusted)


def _of_kind(
    maps: Sequence[VectorMap],
    kind: Kind,
    counts: Mapping[str, Mapping[str, int]],
    room: Callable[[], int],
) -> Iterator[Head]:
    """Yield the heads of a pinned kind, most used first; may skip texts longer than `room`."""
    category, scope = kind
    homes = [home for home in maps if category in home.heads and scope in {"", home.scope}]
    used = [head for home in homes for head in _found_before(home, category, counts[home.root])]
    newest_first = sorted(used, key=_created_at, reverse=True)
    yield from sorted(newest_first, key=lambda head: -counts[head[0].root][head[1].id])
    rest = [_never_found(home, category, counts[home.root], room) for home in homes]
    yield from heapq.merge(*rest, key=_created_at, reverse=True)


def _created_at(head: Head) -> str:
    return head[1].created_at


def _found_before(home: VectorMap, category: Category, counts: Mapping[str, int]) -> list[Head]:
    """Return the current memories of a category that searches have found."""
    heads = home.heads[category]
    places = sorted(heads.places[each] for each in heads.places.keys() & counts.keys())
    return [(home, heads.memories[place]) for place in places]


def _never_found(
    home: VectorMap, category: Category, counts: Mapping[str, int], room: Callable[[], int]
) -> Iterator[Head]:
    """Yield current memories of a category that no search has found, newest first, if they fit."""
    return ((home, each) for each in home.heads[category].fitting(room) if each.id not in counts)
