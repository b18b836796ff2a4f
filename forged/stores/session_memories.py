"""Memories of sessions: they live in this process for a while, and are gone when it ends.

A memory lasts as long as its session, and at most the time to live. A session keeps its newest memories. All
sessions together keep a number of bytes; the one without additions for the longest time is dropped first.
Expired memories are not returned. Nothing is raised, and nothing is written to a disk.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from forged import memory
from forged.attributes import Facts
from forged.memory import Memory, Scope, Trigger

MOST_BYTES = 64 << 20
# Bytes of a row without its text: the values around it, and a vector.
_OVERHEAD_BYTES = 4096


class SessionMemory(msgspec.Struct, frozen=True):
    """One memory of a session with attributes; `created` is in seconds since 1970.

    `tops` are the roots that the session saw: if one of them is paused, no model gets its text.
    """

    memory: Memory
    facts: Facts
    created: float
    tops: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.memory.id

    @property
    def session_id(self) -> str:
        return self.memory.session_id


def new_session_memory(
    content: str, session_id: str, now: float, *, category: str = "", origin: str = ""
) -> Memory:
    """Return a new memory of a session with this text; it is not added."""
    at = memory.utc(now)
    return Memory(
        id=memory.new_id(),
        content=content,
        created_at=at,
        updated_at=at,
        version=1,
        scope=Scope.SESSION,
        category=category or memory.default_category(Scope.SESSION),
        session_id=session_id,
        trigger=Trigger.EXPLICIT,
        origin=origin,
    )


class _SessionRows:
    """Memories of one session in the order of addition; `revision` changes with them."""

    def __init__(self) -> None:
        self.rows: OrderedDict[str, SessionMemory] = OrderedDict()
        self.revision = 0


class SessionMemories:
    """Memories of all sessions, in this process alone, until they expire. Used on one event loop.

    `dropped` counts those that were dropped for space before they expired.
    """

    def __init__(
        self,
        *,
        ttl_s: float = 3600.0,
        most: int = 100,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create an empty store; `ttl_s` is the time to live, `most` the limit of one session."""
        self.clock = clock
        self.ttl_s = ttl_s
        self.dropped = 0
        self._listeners: list[Callable[[], None]] = []
        self._most, self._most_bytes = most, most_bytes
        self._sessions: OrderedDict[str, _SessionRows] = OrderedDict()
        self._session_of: dict[str, str] = {}  # by memory id
        self._bytes = 0
        self._moments = 0

    def add(self, row: SessionMemory) -> SessionMemory:
        """Add a memory to its session unless its agent has the text there; return the one kept.

        Its time to live begins at its creation. It replaces a memory with the same id.
        """
        for known in self.of(row.session_id):
            if known.memory.content == row.memory.content and known.facts.agent_id == row.facts.agent_id:
                return known
        if (there := self._session_of.get(row.id)) is not None:
            self._drop(self._sessions[there], row.id)
            self._drop_if_empty(there, self._sessions[there])
        row = _with_facts(row, expires_at=memory.utc(row.created + self.ttl_s))
        session = self._sessions.setdefault(row.session_id, _SessionRows())
        self._sessions.move_to_end(row.session_id)
        session.rows[row.id], self._session_of[row.id] = row, row.session_id
        self._bytes += _size(row)
        self._bump_revision(session)
        self._make_room(session)
        for listener in self._listeners:
            listener()
        return row

    def on_added(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a memory of any session is added."""
        self._listeners.append(listener)

    def of(self, session_id: str) -> tuple[SessionMemory, ...]:
        """Return the memories of a session that have not expired, in the order of addition."""
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        self._expire(session_id, session)
        return tuple(session.rows.values())

    def revision(self, session_id: str) -> int:
        """Return a number that changes with the memories of a session; 0 for a session without any."""
        session = self._sessions.get(session_id)
        if session is None:
            return 0
        self._expire(session_id, session)
        return session.revision if session.rows else 0

    def all(self) -> Iterator[SessionMemory]:
        """Yield the memories of all sessions."""
        for session_id in list(self._sessions):
            yield from self.of(session_id)

    def find(self, memory_id: str) -> SessionMemory | None:
        """Return the memory of an id in any session, None if there is none."""
        session_id = self._session_of.get(memory_id)
        row = self._sessions[session_id].rows[memory_id] if session_id is not None else None
        return row if row is not None and row.created > self._oldest else None

    def use(self, memory_id: str) -> None:
        """Count one use of a session's memory, and note its time."""
        if (row := self.find(memory_id)) is not None:
            counts = {"access_count": row.facts.access_count + 1, "last_accessed": memory.utc(self.clock())}
            self._sessions[row.session_id].rows[memory_id] = _with_facts(row, **counts)

    def remove(self, memory_id: str) -> SessionMemory | None:
        """Remove one memory from its session; return it, None if it was not there."""
        row = self.find(memory_id)
        if row is not None:
            session = self._sessions[row.session_id]
            self._drop(session, memory_id)
            self._drop_if_empty(row.session_id, session)
        return row

    def remove_saying(self, says: Callable[[str], bool]) -> tuple[SessionMemory, ...]:
        """Remove the memories of all sessions with a text for which `says` is true; return them."""
        said = [row for row in self.all() if says(row.memory.content)]
        return tuple(row for row in said if self.remove(row.id) is not None)

    def end(self, session_id: str, agent_id: str) -> None:
        """Drop the memories of an agent's session; those of another agent with the same id stay."""
        session = self._sessions.get(session_id)
        if session is not None:
            for memory_id in [each.id for each in session.rows.values() if each.facts.agent_id == agent_id]:
                self._drop(session, memory_id)
            self._drop_if_empty(session_id, session)

    def sweep(self) -> None:
        """Drop the expired memories of all sessions."""
        for session_id, session in list(self._sessions.items()):
            self._expire(session_id, session)

    @property
    def sessions(self) -> int:
        """Number of sessions with a memory that has not expired."""
        self.sweep()
        return len(self._sessions)

    @property
    def estimated_bytes(self) -> int:
        """Estimated bytes of the memories of all sessions."""
        return self._bytes

    def _make_room(self, newest: _SessionRows) -> None:
        """Drop memories over the limits: this session's first, then of the longest inactive one."""
        while len(newest.rows) > self._most:
            self._drop(newest, next(iter(newest.rows)), early=True)
        while self._bytes > self._most_bytes:
            session_id, oldest = next(iter(self._sessions.items()))
            if oldest is newest and len(newest.rows) == 1:
                return
            self._drop(oldest, next(iter(oldest.rows)), early=True)
            self._drop_if_empty(session_id, oldest)

    @property
    def _oldest(self) -> float:
        """Creation time up to which memories of sessions have expired."""
        return self.clock() - self.ttl_s

    def _expire(self, session_id: str, session: _SessionRows) -> None:
        """Drop the expired memories of a session."""
        oldest = self._oldest
        for memory_id in [row.id for row in session.rows.values() if row.created <= oldest]:
            self._drop(session, memory_id)
        self._drop_if_empty(session_id, session)

    def _drop(self, session: _SessionRows, memory_id: str, *, early: bool = False) -> None:
        """Drop one memory of a session; `early` counts it as dropped before it expired."""
        self._bytes -= _size(session.rows.pop(memory_id))
        del self._session_of[memory_id]
        self.dropped += early
        self._bump_revision(session)

    def _drop_if_empty(self, session_id: str, session: _SessionRows) -> None:
        """Remove a session that has no memories left."""
        if not session.rows:
            self._sessions.pop(session_id, None)

    def _bump_revision(self, session: _SessionRows) -> None:
        """Give a session a new revision."""
        self._moments += 1
        session.revision = self._moments


def _with_facts(row: SessionMemory, **facts: object) -> SessionMemory:
    """Return a session's memory with changed attributes."""
    return msgspec.structs.replace(row, facts=msgspec.structs.replace(row.facts, **facts))


def _size(row: SessionMemory) -> int:
    """Return the estimated bytes of one session memory: text, metadata and vector."""
    return (
        len(row.memory.content.encode("utf-8", "surrogatepass"))
        + len(str(row.facts.metadata))
        + _OVERHEAD_BYTES
    )
