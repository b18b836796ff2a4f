"""One root as the indexer knows it: its map, how far it has come, and what has to be looked at next.

A writer marks the root and gets a generation: a number that says when the change is visible. Marks that come
while a build runs are one more build. A reader of a generation waits until a build has *tried* to show it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from forged.fair_queue import retrieved
from forged.files import Root
from forged.map import VectorMap
from forged.maps.builder import Builder
from forged.maps.embedding import EmbeddingRun

T = TypeVar("T")


class Progress(msgspec.Struct):
    """State of one root's builds, for status. `held`: why texts that have no vector may not leave for one."""

    state: str = "loading"
    embedded: int = 0
    to_embed: int = 0
    build_ms: float = 0.0
    built_at: float = 0.0
    error: str = ""
    held: str = ""


class Generations(msgspec.Struct):
    """How far one root has come; each number is the greatest generation of its kind.

    | field    | the greatest generation                                               |
    |----------|-----------------------------------------------------------------------|
    | wanted   | that was handed out                                                   |
    | building | that the build under way will show                                    |
    | visible  | that the map shows                                                    |
    | tried    | that the map shows or a build failed to show; words alone may show it |
    | ended    | whose build is over, vectors and all, or has failed                   |
    | added    | of a memory that this daemon added                                    |
    """

    wanted: int
    building: int = 0
    visible: int = 0
    tried: int = 0
    ended: int = 0
    added: int = 0


class RootIndex:
    """One root: its map, its generations and its builder task. `used_at` is `time.monotonic()`.

    `run` are its texts on their way to be embedded, while there are some. `richer` is set when enough
    of them have a vector to be worth another map.
    """

    def __init__(self, root: Root, builder: Builder, next_generation: Callable[[], int]) -> None:
        self.root = root
        self.builder = builder
        self.progress = Progress()
        self.map: VectorMap | None = None
        self.generations = Generations(next_generation())
        self.used_at = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self.marked = asyncio.Event()
        self.marked.set()
        self.run: EmbeddingRun | None = None
        self.richer = asyncio.Event()
        self._everything = True  # has to be looked at, and not only these files:
        self._files: set[str] = set()
        self._changed = asyncio.Event()
        self._next_generation = next_generation

    def mark(self, files: frozenset[str] = frozenset(), *, after_s: float = 0.0) -> int:
        """Ask for a rescan; return the generation in which what is on disk now will be visible.

        With `files`, paths of changed memory files, only they are looked at. With `after_s` the build, which
        shares the interpreter with requests, begins so much later, or when a request waits for it. Files that
        wait already are not hurried.
        """
        if files and files <= self._files:
            return self.generations.wanted
        self._everything = self._everything or not files
        self._files |= files
        self.generations.wanted = self._next_generation()
        if after_s:
            self.generations.added = self.generations.wanted
            asyncio.get_running_loop().call_later(after_s, self._begin_if_wanted)
        else:
            self.marked.set()
        return self.generations.wanted

    def _begin_if_wanted(self) -> None:
        if self.generations.building < self.generations.wanted:
            self.marked.set()

    def take_marks(self) -> frozenset[str]:
        """Begin a build of what is wanted now: the files it has to look at, or nothing for all of them."""
        self.marked.clear()
        self.generations.building = self.generations.wanted
        files = frozenset() if self._everything else frozenset(self._files)
        self._everything, self._files = False, set()
        return files

    async def stirred_before(self, run: asyncio.Task[T]) -> bool:
        """Whether the root is marked, or has enough new vectors to show, before a run is over."""
        stirs = [asyncio.create_task(event.wait()) for event in (self.marked, self.richer)]
        for stir in stirs:
            stir.add_done_callback(retrieved)
        try:
            await asyncio.wait({run, *stirs}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for stir in stirs:
                stir.cancel()
        return not run.done()

    def notify_waiters(self) -> None:
        """Wake everyone who waits for this root to come further."""
        self._changed.set()
        self._changed = asyncio.Event()

    def has_ended(self, generation: int) -> bool:
        return self._reached(self.generations.ended, generation)

    async def until_tried(self, generation: int, deadline: float) -> bool:
        """Wait until a build has tried to show `generation`, and say whether that was before `deadline`."""
        return await self._until(lambda: self._reached(self.generations.tried, generation), deadline)

    async def until_ended(self, generation: int, deadline: float | None = None) -> bool:
        """Wait until that build is over, however long it takes if there is no deadline.

        Words are searchable before the vectors are there.
        """
        return await self._until(lambda: self.has_ended(generation), deadline)

    def _reached(self, greatest: int, generation: int) -> bool:
        return greatest >= min(max(generation, 1), self.generations.wanted)

    async def _until(self, is_reached: Callable[[], bool], deadline: float | None) -> bool:
        if not is_reached():
            self._begin_if_wanted()
        try:
            async with asyncio.timeout_at(deadline):
                while not is_reached():
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True
