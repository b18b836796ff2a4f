"""One root as the indexer knows it: its map, its generations, and what has to be looked at next.

A mark hands out a generation. It is visible in the map, attempted by a build that may have failed, and ended
when that build is over with all its vectors; a reader that names a generation waits for the second of these,
because after a failure there is nothing to wait for (design.md section 4, `min_generation`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from forged.files.roots import Root
from forged.map.vector_map import VectorMap
from forged.maps.builder import Builder


class Progress(msgspec.Struct):
    """State of one root's builds, for status."""

    state: str = "loading"
    embedded: int = 0
    to_embed: int = 0
    build_ms: float = 0.0
    built_at: float = 0.0
    error: str = ""


class RootIndex:
    """One root: its map, its generations and its builder task."""

    def __init__(self, root: Root, builder: Builder, next_generation: Callable[[], int]) -> None:
        self.root = root
        self.builder = builder
        self.progress = Progress()
        self.map: VectorMap | None = None
        self.wanted = next_generation()
        self.visible = 0  # greatest generation that the map shows
        self.attempted = 0  # greatest generation that a build tried to show
        self.ended = 0  # greatest generation whose build is over, vectors and all
        self.goal = 0  # what the build that is under way will show
        self.used_at = time.monotonic()
        self.dirty = asyncio.Event()
        self.dirty.set()
        self._whole = True  # not only these files have to be looked at
        self._files: set[str] = set()
        self.task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._next_generation = next_generation

    def mark(self, files: frozenset[str] = frozenset()) -> int:
        """Ask for a rescan; return the generation in which what is on disk now will be visible.

        With `files`, paths of memory files that are known to have changed, only they are looked at.
        """
        self._whole = self._whole or not files
        self._files |= files
        self.wanted = self._next_generation()
        self.dirty.set()
        return self.wanted

    def marked(self) -> frozenset[str]:
        """The files that the next build has to look at, or nothing for all; asked once for each build."""
        files = frozenset() if self._whole else frozenset(self._files)
        self._whole, self._files = False, set()
        return files

    def moved(self) -> None:
        """Wake everyone who waits for this root."""
        self._moved.set()
        self._moved = asyncio.Event()

    def has(self, generation: int, *, whole: bool = False) -> bool:
        reached = self.ended if whole else self.attempted
        return reached >= min(generation, self.wanted) and reached > 0

    async def reach(self, generation: int, deadline: float, *, whole: bool = False) -> None:
        """Wait until a build has tried to show `generation`, at most until `deadline`; never raises.

        With `whole` until that build is over: words are searchable before the vectors are there.
        """
        try:
            async with asyncio.timeout_at(deadline):
                while not self.has(generation, whole=whole):
                    await self._moved.wait()
        except TimeoutError:
            pass
