"""Stores of memories that can be searched: the files of some roots, and the protocol of all stores.

A `Store` shows its memories as a `View`; a new scope is one more such class. Links lead to memories of the
same map only, so no repository can replace, hide or relate memories of the user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Protocol, runtime_checkable

import msgspec

from forged.attributes import Facts
from forged.files import Root
from forged.map import Baseline, Ranked, VectorMap, score_search, search_maps
from forged.maps import Indexer, RootIndex
from forged.memory import Memory
from forged.state import State
from forged.stores.values import Question, SearchResult

# Most words of a message that is only a name.
_A_NAME = 2


def ignore_dimension(_: int) -> None:
    """Ignore the dimension of a query's vectors: there is no model."""


class View(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Maps of memories at one time, for a search, with reasons for anything that is missing.

    `waiting`: a root has nothing to search before its first build. `problem` is the reason why a root's map
    is missing or older than asked for. `unembedded` is the reason why a built map has no dense index. `held`
    is the reason why texts of a root may not leave for vectors. `baseline` is None while unknown;
    `is_uncalibrated` is True while it is needed and missing. `key` names the answering model: queries are
    compared with its vectors alone, and `used` takes the dimension of theirs. `left_out` counts in words the
    files that are in no map.
    """

    maps: tuple[VectorMap, ...]
    generation: int = 0
    waiting: bool = False
    problem: str = ""
    baseline: Baseline | None = None
    held: str = ""
    unembedded: str = ""
    is_uncalibrated: bool = False
    key: str | None = None
    used: Callable[[int], None] = ignore_dimension
    left_out: Callable[[], str] = lambda: ""

    @cached_property
    def indexes(self) -> tuple[str, ...]:
        """Names of the indexes (lexical, dense) that can answer in at least one map."""
        lexical = any(m.has_words for m in self.maps)
        dense = any(m.dense for m in self.maps)
        return tuple(name for name, there in (("lexical", lexical), ("dense", dense)) if there)

    @cached_property
    def size(self) -> int:
        """Number of memories in all maps."""
        return sum(len(m.memories) for m in self.maps)

    def names_known(self, message: str) -> bool:
        """Return True if one or two words name something that a memory or cue names, in full or shortened."""
        if len(message.split()) > _A_NAME:
            return False
        found = search_maps(self.maps, texts=[message], vectors=None, lexical_weight=1.0)
        return score_search(found, None).names_known

    def find(self, memory_id: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
        """Return the memories of an id with their maps: one for each scope, or for the given scope alone."""
        homes = (each for each in self.maps if scope in {"", each.scope})
        found = ((home, home.find(memory_id)) for home in homes)
        firsts: dict[str, tuple[VectorMap, Memory]] = {}
        for home, memory in found:
            if memory is not None:
                firsts.setdefault(home.scope, (home, memory))
        return tuple(firsts.values())


class Store(Protocol):
    """Protocol of a store: memories of one scope and owner that can be searched.

    `scope` is "" for several scopes. Replies name a missing store by `name`.
    """

    @property
    def scope(self) -> str: ...

    @property
    def owner(self) -> str:
        """Id of the agent or session that all its memories belong to, "" for none."""

    @property
    def name(self) -> str: ...

    def maps(self) -> tuple[VectorMap, ...]:
        """Return the store's maps that exist now; a first build begins for missing ones."""

    async def view(self, generation: int, deadline: float) -> View:
        """Return the store's view of a generation, after waiting for it until `deadline`."""

    def attributes(self, found: Ranked) -> Facts | None:
        """Return the attributes of a found memory; None for one of another store."""

    def has(self, found: Ranked) -> bool:
        """Return True if a memory that a search found still is in this store."""

    def use(self, found: Iterable[Ranked]) -> None:
        """Count one use of each of the found memories that is of this store."""


@runtime_checkable
class LimitedStore(Store, Protocol):
    """Protocol of a store that adds at most `most` memories to a search, and looks for its question."""

    @property
    def most(self) -> int: ...

    async def view_for(self, question: Question) -> View:
        """Return the view to search for a question; it may take rows in that are elsewhere."""


@runtime_checkable
class RemoteStore(Store, Protocol):
    """Protocol of a store on a server, which runs the search itself; its views are empty."""

    has_second: bool
    """True if the server has vectors of the second model (CJK) of this machine."""

    async def nearest(self, question: Question) -> Sequence[SearchResult]:
        """Return the nearest memories for a question, a list for each scope. May raise anything."""

    async def nearest_by_second(self, question: Question) -> Sequence[SearchResult]:
        """Return the nearest memories for a question with vectors of the second model, as `nearest`."""

    async def reached(self, question: Question) -> Sequence[Ranked]:
        """Return memories reached through the entities of a question, best first. May raise anything."""


class FileStore:
    """Memories in the files of some roots, searched as one store; the first use of a root starts a build."""

    def __init__(
        self,
        indexer: Indexer,
        roots: Iterable[Root],
        *,
        scope: str = "",
        owner: str = "",
        state: State | None = None,
    ) -> None:
        """Create a store of these roots; `state` holds the attributes of memories."""
        self.scope, self.owner = scope, owner
        self.name = scope or "files"
        self.roots = tuple(roots)
        self._indexer = indexer
        self._state = state
        self.indexes: tuple[RootIndex, ...] = ()  # opened at the first use

    def maps(self) -> tuple[VectorMap, ...]:
        """Return the maps of the roots that exist now; the first use begins their builds."""
        return tuple(index.map for index in self._open_indexes() if index.map is not None)

    def added_generation(self) -> int:
        """Return the generation that shows all memories added by this daemon, 0 for none."""
        return max((index.generations.added for index in self._open_indexes()), default=0)

    def attributes(self, found: Ranked) -> Facts | None:
        """Return the attributes of a found memory; None if it is in no root of this store."""
        if self._state is None or all(root.top != found.root for root in self.roots):
            return None
        facts = self._state.facts(*found.key)
        return msgspec.structs.replace(facts, agent_id=self.owner) if self.owner else facts

    def has(self, found: Ranked) -> bool:
        """Return True if a memory that a search found still is in a root of this store."""
        return is_in_maps(self.maps(), found)

    def use(self, found: Iterable[Ranked]) -> None:
        """Count one use of each of the found memories that is in a root of this store."""
        if self._state is not None:
            tops = {root.top for root in self.roots}
            self._state.accesses.hit([each.key for each in found if each.root in tops])

    def _open_indexes(self) -> tuple[RootIndex, ...]:
        """Return the indexes of the roots; the first use begins their builds."""
        self.indexes = self.indexes or tuple(map(self._indexer.open, self.roots))
        return self.indexes

    async def view(self, generation: int, deadline: float) -> View:
        """Return the view after waiting until `deadline` for a build that tried to show `generation`.

        0 is the first build; an empty root is waited for after any change. Problems on disk are in the view.
        """
        indexes = self._open_indexes()
        for index in indexes:
            while index.generations.tried < (goal := _generation_to_await(index, generation)):
                if not await index.until_tried(goal, deadline):
                    break
        identity = self._indexer.identity
        return View(
            maps=tuple(index.map for index in indexes if index.map is not None),
            generation=_shown_by_all(indexes),
            waiting=any(index.generations.tried < _generation_to_await(index, 0) for index in indexes),
            problem=_build_problem(indexes, generation),
            baseline=self._indexer.learner.baseline,
            held=next((index.progress.held for index in indexes if index.progress.held), ""),
            unembedded=_missing_vectors_reason(indexes),
            is_uncalibrated=identity is not None and self._indexer.learner.is_wanting,
            key=identity.key if identity is not None else None,
            used=identity.note_query if identity is not None else ignore_dimension,
            left_out=partial(_left_out, indexes),
        )


def is_in_maps(maps: Iterable[VectorMap], found: Ranked) -> bool:
    """Return True if one of these maps has a memory that a search found."""
    return any(home.root == found.root and home.find(found.memory.id) is not None for home in maps)


def _generation_to_await(index: RootIndex, generation: int) -> int:
    """Return the generation that a search waits for; of a root without memories, the newest."""
    is_empty = index.map is not None and not index.map.memories
    return index.generations.wanted if is_empty else min(max(generation, 1), index.generations.wanted)


def _shown_by_all(indexes: Sequence[RootIndex]) -> int:
    """Return the greatest generation that all roots show completely."""
    all_of = [index.generations for index in indexes]
    lagging = [each.visible for each in all_of if each.visible < each.wanted]
    return min(lagging) if lagging else max((each.visible for each in all_of), default=0)


def _left_out(indexes: Sequence[RootIndex]) -> str:
    """Say how many files are withheld or are no memories, with the reason of one; "" for none."""
    withheld = sum(len(index.builder.withheld) for index in indexes)
    snapshots = [index.builder.snapshot for index in indexes]
    unread = [problem for each in snapshots if each is not None for problem in each.unread]
    sentences = []
    if withheld:
        sentences.append(f"{withheld:,} not used yet")
    if unread:
        files = "1 file is" if len(unread) == 1 else f"{len(unread):,} files are"
        such_as = "" if len(unread) == 1 else "such as "
        sentences.append(
            f"{files} not used ({such_as}{os.path.basename(unread[0].path)}: {unread[0].reason})"
        )
    return ", ".join(sentences)


def _build_problem(indexes: Sequence[RootIndex], generation: int) -> str:
    """Return the reason why a root has no map after a build, or an older one than asked for; else ""."""
    for index in indexes:
        if index.map is None and index.generations.tried and index.progress.error:
            return index.progress.error
    for index in indexes:
        if index.progress.error and index.generations.visible < min(generation, index.generations.wanted):
            return f"stale: {index.progress.error}"
    return ""


def _missing_vectors_reason(indexes: Sequence[RootIndex]) -> str:
    """Return why a root with memories has no vectors, the error of its last build; else ""."""
    for index in indexes:
        if index.map is not None and index.map.memories and not index.map.dense and index.progress.error:
            return index.progress.error
    return ""
