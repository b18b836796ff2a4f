"""Sessions of agents' lives: stores of memories and, turn by turn, what should stand before the agent.

In goes a directory with `memories.jsonl` and `sessions.jsonl`, out come its stores and sessions. All labels
are checked: DatasetError names the file and what is wrong in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from forged.memory import Scope
from tests.evaluation.dataset import DatasetError, Item
from tests.evaluation.jsonl_set import MEMORIES, MemoryLine, lines

SESSIONS = "sessions.jsonl"


class Turn(msgspec.Struct, frozen=True):
    """What was typed and answered; ids that are wanted here, do no harm, or mislead."""

    user: str
    assistant: str
    kind: str
    wanted: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def labels(self) -> frozenset[str]:
        return self.wanted | self.harmless | self.forbidden


class Session(msgspec.Struct, frozen=True):
    """Turns in order, in one store."""

    id: str
    store: str
    turns: tuple[Turn, ...]


class Store(msgspec.Struct, frozen=True):
    """A repository's memories, those of its user, and the sessions that see both."""

    name: str
    user: tuple[Item, ...]
    items: tuple[Item, ...]
    sessions: tuple[Session, ...]

    @property
    def size(self) -> int:
        return len(self.user) + len(self.items)


class SessionSet(msgspec.Struct, frozen=True):
    """All of a directory."""

    name: str
    stores: tuple[Store, ...]

    @property
    def turns(self) -> int:
        return sum(len(session.turns) for store in self.stores for session in store.sessions)


class _Memory(MemoryLine, frozen=True, kw_only=True):
    store: str
    root: Scope


def is_one(path: Path) -> bool:
    """Whether a path is a directory of sessions."""
    return (path / SESSIONS).exists()


def load(directory: Path) -> SessionSet:
    """Read a directory. Raises DatasetError."""
    memories = lines(directory / MEMORIES, _Memory)
    sessions = lines(directory / SESSIONS, Session)
    _require_labels(memories, sessions, directory / SESSIONS)
    names = dict.fromkeys(session.store for session in sessions)
    name = "/".join(directory.resolve().parts[-2:])
    return SessionSet(name, tuple(_store(each, memories, sessions) for each in names))


def _store(name: str, memories: Sequence[_Memory], sessions: Sequence[Session]) -> Store:
    mine = {memory.id: memory for memory in memories if memory.store == name}
    items = tuple(
        msgspec.structs.replace(memory, version=_version(memory, mine)).item for memory in mine.values()
    )
    return Store(
        name=name,
        user=tuple(item for item in items if item.memory.scope == Scope.USER),
        items=tuple(item for item in items if item.memory.scope == Scope.REPO),
        sessions=tuple(session for session in sessions if session.store == name),
    )


def _version(memory: _Memory, store: Mapping[str, _Memory]) -> int:
    count, older = 1, memory.supersedes
    while older is not None and count <= len(store):
        count, older = count + 1, store[older].supersedes
    return count


def _require_labels(memories: Sequence[_Memory], sessions: Sequence[Session], file: Path) -> None:
    store_of = {memory.id: memory.store for memory in memories}
    if len(store_of) < len(memories):
        raise DatasetError(f"{file.parent / MEMORIES}: an id is there twice")
    for memory in memories:
        if memory.supersedes is not None and store_of.get(memory.supersedes) != memory.store:
            raise DatasetError(f"{file.parent / MEMORIES}: {memory.id} replaces what its store does not hold")
    for session in sessions:
        for label in sorted(frozenset[str]().union(*(turn.labels for turn in session.turns))):
            if store_of.get(label) != session.store:
                raise DatasetError(f"{file}: {session.id} names {label!r}, which its store does not hold")
