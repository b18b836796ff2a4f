"""Session memories as a store, with maps like those of files: searched by words, then by vectors.

A view never waits. The models' queues embed the texts, which pass the egress guard of their model under the
roots that their session saw. A text that was kept despite a secret is not sent to any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec

from forged.attributes import Facts
from forged.map import Ranked, VectorMap
from forged.maps import EmbeddingQueue, Indexer, text_hash
from forged.memory import Scope
from forged.models import cleaned
from forged.stores.session_memories import SessionMemories, SessionMemory
from forged.stores.store import View, is_in_maps


def root_of_session(session_id: str) -> str:
    """Return the root name of a session's memories: it is no path, so no file root has this name."""
    return f"session:{session_id}"


class SessionStore:
    """Store of one session's memories, for searches; its views are ready at once."""

    scope: str = Scope.SESSION
    name: str = Scope.SESSION

    def __init__(self, memories: SessionMemories, views: SessionViews, session_id: str) -> None:
        self.owner = session_id
        self._memories = memories
        self._views = views
        self._root = root_of_session(session_id)

    def maps(self) -> tuple[VectorMap, ...]:
        """Return the session's map; none without memories."""
        return self._views.view(self.owner).maps

    async def view(self, generation: int, deadline: float) -> View:
        """Return the view of the session now; it is never waited for."""
        del generation, deadline
        return self._views.view(self.owner)

    def attributes(self, found: Ranked) -> Facts | None:
        """Return the attributes of a found memory; None if it is not of this session."""
        return facts_in_session(self._memories, found.memory.id) if found.root == self._root else None

    def has(self, found: Ranked) -> bool:
        """Return True if a memory that a search found still is in this session; they expire."""
        return is_in_maps(self.maps(), found)

    def use(self, found: Iterable[Ranked]) -> None:
        """Count one use of each of the found memories that is of this session."""
        for each in found:
            if each.root == self._root:
                self._memories.use(each.memory.id)


def facts_in_session(memories: SessionMemories, memory_id: str) -> Facts:
    """Return a session memory's attributes; for an expired one defaults with importance 0."""
    row = memories.find(memory_id)
    return Facts(importance=0.0) if row is None else row.facts  # it expired during the search


class _SessionMap(msgspec.Struct, frozen=True, eq=False):
    """Map of one session's memories, with the revisions of these and of each model's vectors."""

    revisions: tuple[int, ...]
    home: VectorMap


class SessionViews:
    """Views of all sessions' memories; the map of a session is built when it is needed."""

    def __init__(self, memories: SessionMemories, indexer: Indexer) -> None:
        self._memories = memories
        self._indexer = indexer
        self._maps: dict[str, _SessionMap] = {}
        for queue in indexer.queues:
            queue.add_holder(partial(self._texts_for, queue))
            memories.on_added(queue.wake)

    def view(self, session_id: str) -> View:
        """Return the view of a session's memories now."""
        identity = self._indexer.identity
        home = self._current_map(session_id)
        return View(
            maps=(home,) if home is not None else (),
            baseline=self._indexer.learner.baseline,
            is_uncalibrated=self._indexer.learner.is_wanting,
            key=identity.key if identity is not None else None,
        )

    def sweep(self) -> None:
        """Drop the expired memories of all sessions, and the maps of sessions without memories."""
        self._memories.sweep()
        self._maps = {name: made for name, made in self._maps.items() if self._memories.revision(name)}

    def _current_map(self, session_id: str) -> VectorMap | None:
        """Return the map of a session's memories, built again if they changed; None without any."""
        revision, known = self._memories.revision(session_id), self._maps.get(session_id)
        if not revision:
            self._maps.pop(session_id, None)
            return None
        revisions = (revision, *(queue.revision for queue in self._indexer.queues))
        if known is None or known.revisions != revisions:
            home = self._build_map(session_id, self._memories.of(session_id), revision)
            known = self._maps[session_id] = _SessionMap(revisions, home)
        return known.home

    def _build_map(self, session_id: str, rows: Iterable[SessionMemory], generation: int) -> VectorMap:
        """Return a new map of a session's memories, with the vectors that their models have made."""
        return self._indexer.map_of(
            root_of_session(session_id),
            Scope.SESSION,
            [row.memory for row in rows],
            lambda queue, memory: queue.get(text_hash(memory.content)),
            generation=generation,
        )

    def _texts_for(self, queue: EmbeddingQueue) -> Iterator[tuple[tuple[str, ...], Mapping[bytes, str]]]:
        """Yield all texts for a model, by hash, with the roots that their sessions saw."""
        found: dict[tuple[str, ...], dict[bytes, str]] = {}
        for row in self._memories.all():
            text = row.memory.content
            if text.strip() and self._indexer.queue_of(text) is queue:
                found.setdefault(row.tops, {})[text_hash(text)] = cleaned(text)
        yield from found.items()
