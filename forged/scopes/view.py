"""The file roots of a request as they are seen at one moment.

`FileRoots` waits for the maps of some roots and returns them as one frozen `View`. A memory is told from the
others by its map and its id: links lead to memories of the same map only, so nothing in a repository
replaces, hides or relates what is the user's. Nothing here reads a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from forged.files import Root
from forged.map import Baseline, VectorMap
from forged.maps import Indexer, RootIndex
from forged.memory import Memory

Key = tuple[int, str]
"""A memory of a view: the place of its map, and its id there."""


def _nobody(_: int) -> None:
    """Without a model nobody asks what its vectors are like."""


def _nothing() -> str:
    """Maps that were made of no files leave none out."""
    return ""


class View(msgspec.Struct, frozen=True, eq=False):
    """Maps that a request may use.

    `generation` orders what is visible. `waiting` is true while a root has nothing to search before a build
    that is to come; `problem` says why a root's map is missing or older than asked for, in one word or two.
    `baseline` is that of the model of the dense legs, None while it is not known, and `is_uncalibrated` tells
    that one is wanted. `key` names the model that answers now, whose vectors alone can be compared with those
    of a query; `used` is told of how many numbers these are. `unembedded` says why a map has no dense leg
    although its build is over, `held` why texts of a root may not leave for vectors. `left_out` counts, in
    words, the files that are in no map, or says nothing; it looks through all of them.
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
    used: Callable[[int], None] = _nobody
    left_out: Callable[[], str] = _nothing

    @property
    def legs(self) -> tuple[str, ...]:
        """Legs that can answer in at least one map."""
        lexical = any(m.has_words for m in self.maps)
        dense = any(m.dense for m in self.maps)
        return tuple(name for name, there in (("lexical", lexical), ("dense", dense)) if there)

    def __len__(self) -> int:
        return sum(len(m.memories) for m in self.maps)

    def find(self, memory_id: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
        """The memories of this id, of one scope or of all: each scope may have one, of its first map."""
        homes = (each for each in self.maps if scope in {"", each.scope})
        found = ((home, home.find(memory_id)) for home in homes)
        firsts: dict[str, tuple[VectorMap, Memory]] = {}
        for home, memory in found:
            if memory is not None:
                firsts.setdefault(home.scope, (home, memory))
        return tuple(firsts.values())

    def heads_led_to(self, key: Key) -> Iterator[Key]:
        """Heads that a memory's `related` edges lead to in its own map; edges into nothing are left out."""
        place, memory_id = key
        home = self.maps[place]
        found = home.find(memory_id)
        for edge in found.related if found is not None else ():
            if home.find(edge.id) is not None:
                yield place, home.chains.head(edge.id)

    def chain(self, vector_map: VectorMap, memory_id: str) -> tuple[Memory, ...]:
        """The chain of a memory, oldest first."""
        found = map(vector_map.find, vector_map.chains.chain(memory_id))
        return tuple(memory for memory in found if memory is not None)


class FileRoots:
    """Some roots, opened when they are first looked at: that starts their first build."""

    def __init__(self, indexer: Indexer, roots: Iterable[Root]) -> None:
        self._indexer = indexer
        self._roots = tuple(roots)
        self._indexes: tuple[RootIndex, ...] = ()

    def shown(self) -> tuple[int, ...]:
        """What stands for the maps that are there now: another value as soon as one of them is another."""
        return tuple(index.map.generation if index.map is not None else 0 for index in self._opened())

    def maps(self) -> tuple[VectorMap, ...]:
        """The maps that are there now."""
        return tuple(index.map for index in self._opened() if index.map is not None)

    def added(self) -> int:
        """The generation in which all memories are visible that this daemon added, 0 for none."""
        return max((index.generations.added for index in self._opened()), default=0)

    def _opened(self) -> tuple[RootIndex, ...]:
        self._indexes = self._indexes or tuple(map(self._indexer.open, self._roots))
        return self._indexes

    async def see(self, generation: int, deadline: float) -> View:
        """What is visible, after waiting until `deadline` for a build that tried to show `generation`.

        0 stands for the first build; what changed in an empty root is waited for as that is. Never raises for
        what is on disk: the view says what is missing.
        """
        indexes = self._opened()
        for index in indexes:
            while index.generations.tried < (goal := _goal(index, generation)):
                if not await index.until_tried(goal, deadline):
                    break
        identity = self._indexer.identity
        return View(
            maps=tuple(index.map for index in indexes if index.map is not None),
            generation=_shown_by_all(indexes),
            waiting=any(index.generations.tried < _goal(index, 0) for index in indexes),
            problem=_problem(indexes, generation),
            baseline=self._indexer.learner.baseline,
            held=next((index.progress.held for index in indexes if index.progress.held), ""),
            unembedded=_unembedded(indexes),
            is_uncalibrated=self._indexer.learner.is_wanting,
            key=identity.key if identity is not None else None,
            used=identity.used if identity is not None else _nobody,
            left_out=partial(_left_out, indexes),
        )


def _goal(index: RootIndex, generation: int) -> int:
    """The generation that a search has to wait for; of a root that shows nothing, whatever it changed to."""
    is_empty = index.map is not None and not index.map.memories
    return index.generations.wanted if is_empty else min(max(generation, 1), index.generations.wanted)


def _shown_by_all(indexes: Sequence[RootIndex]) -> int:
    """Greatest generation of which nothing is missing: a root that lags behind holds the others back."""
    all_of = [index.generations for index in indexes]
    lagging = [each.visible for each in all_of if each.visible < each.wanted]
    return min(lagging) if lagging else max((each.visible for each in all_of), default=0)


def _left_out(indexes: Sequence[RootIndex]) -> str:
    """Count in words the withheld files and those that are no memories, with the reason of one."""
    withheld = sum(len(index.builder.withheld) for index in indexes)
    snapshots = [index.builder.snapshot for index in indexes]
    unread = [problem for each in snapshots if each is not None for problem in each.unread]
    told = []
    if withheld:
        told.append(f"{withheld:,} may not be used now")  # why, the notice says
    if unread:
        files = "1 file is" if len(unread) == 1 else f"{len(unread):,} files are"
        such_as = "" if len(unread) == 1 else "such as "
        told.append(f"{files} not used ({such_as}{os.path.basename(unread[0].path)}: {unread[0].reason})")
    return ", ".join(told)


def _problem(indexes: Sequence[RootIndex], generation: int) -> str:
    """Why a root has no map although that was tried, or shows less than was asked for; else nothing."""
    for index in indexes:
        if index.map is None and index.generations.tried and index.progress.error:
            return index.progress.error
    for index in indexes:
        if index.progress.error and index.generations.visible < min(generation, index.generations.wanted):
            return f"stale: {index.progress.error}"
    return ""


def _unembedded(indexes: Sequence[RootIndex]) -> str:
    """What the last build failed of, of a root whose memories have no vectors; else nothing."""
    for index in indexes:
        if index.map is not None and index.map.memories and not index.map.dense and index.progress.error:
            return index.progress.error
    return ""
