"""Injected set of each session, and records of injections: ids and versions, no text.

`InjectedSets` has a row for each session and set of roots, `Injections` one for each turn. Both answer from
memory and are write-behind: after a kill a session may get a memory once more. The oldest rows are dropped
beyond a limit. `forget` and `replace_moved` find the rows of a memory and raise StoreError.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from secrets import token_hex
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from forged.state.database import Database, Row
from forged.state.rows import CachedRow, MemoryRows, Rows, key_of
from forged.text.injected_text import one_line
from forged_client.typed import resolved

MOST_SETS, MOST_BYTES, COUNTED = 20_000, 64 << 20, 8192
MOST, KEPT_S = 2000, 30 * 24 * 3600.0
# Approximate bytes of a set, and of one of its entries.
_SET_BYTES, _ENTRY_BYTES = 512, 256
_NAMED, _NAME_CHARACTERS = ("session_id", "agent", "turn_id"), 200
_KEY_BYTES = 8
# Limit of sets that are not rows yet.
_MOST_PUT = 64


class SetKey(msgspec.Struct, frozen=True, array_like=True):
    """Key of an injected set: agent, session, and the tops of the roots that the session sees."""

    agent: str
    session_id: str
    tops: tuple[str, ...]


class InjectedEntry(msgspec.Struct, frozen=True, array_like=True):
    """One memory of an injected set: root, id, version, digest of its text, how and when it came.

    `mark` is its relation to the memory `of`, in the words of the injected block. A mark `outdated` is a
    warning only. `pinned`: it came without a search. `stale`: its evidence had changed. `turn` names the turn
    that brought it.
    """

    root: str
    id: str
    version: int
    digest: bytes
    mark: str = ""
    of: str = ""
    pinned: bool = False
    stale: bool = False
    turn: str = ""


class InjectedSet(msgspec.Struct, frozen=True):
    """Memories in the context of a session since that context began, in order, with counts of turns.

    `token` marks its blocks. `began` is Unix seconds. `summary` is the end of the newest summary, `window`
    the bytes said since then when the set began, `turns` the number of turns. `has_pinned`: the pinned
    memories were injected. `compacts`: the agent reports its compactions.
    """

    token: str
    began: float
    summary: int = 0
    window: int = 0
    turns: int = 0
    has_pinned: bool = False
    compacts: bool = False
    entries: tuple[InjectedEntry, ...] = ()


T = TypeVar("T")
_key = msgspec.json.Decoder(resolved(SetKey))
_Memory = tuple[str, str]


class InjectedSets(Rows[InjectedSet]):
    """Table of injected sets by agent, session and roots; `uses` counts sessions per memory found.

    `now` are the current sets. A turn `put`s a set, which becomes a row with the next call or `save`.
    """

    now: dict[SetKey, InjectedSet]
    _of_session: defaultdict[tuple[str, str], dict[SetKey, None]]
    _of_memory: defaultdict[_Memory, dict[str, None]]

    def __init__(self, database: Database) -> None:
        self._put: dict[SetKey, None] = {}
        super().__init__(
            database,
            "injected_sets",
            InjectedSet,
            most=MOST_SETS,
            most_bytes=MOST_BYTES,
            weigh=lambda each: _SET_BYTES + _ENTRY_BYTES * len(each.entries),
        )
        self.uses = MemoryRows(database, "uses", int, most=COUNTED, merge=int.__add__)

    def put(self, key: SetKey, injected: InjectedSet) -> None:
        """Set a session's injected set in memory; a later call or `save` makes it a row."""
        self.now[key], self._put[key] = injected, None
        if len(self._put) >= _MOST_PUT:
            self._make_rows()

    def _make_rows(self) -> None:
        """Turn the sets that `put` left in memory into rows, to be saved."""
        if self._put:
            put, self._put = self._put, {}
            self.update({_row_key(key): self.now[key] for key in put})

    async def save(self) -> None:
        self._make_rows()
        await super().save()

    def restore(self, found: Iterable[Row[InjectedSet]]) -> None:
        self._make_rows()
        super().restore(found)

    def of_session(self, agent: str, session_id: str) -> dict[SetKey, InjectedSet]:
        """Return the injected sets of a session of an agent, by key: one for each set of roots."""
        self._make_rows()
        return {key: self.now[key] for key in self._of_session.get((agent, session_id), ())}

    def drop(self, keys: Iterable[SetKey]) -> None:
        self._make_rows()
        self.update(dict.fromkeys(map(_row_key, keys)))

    def count_use(self, root: str, memory_id: str) -> None:
        """Count one more session that found a memory by search."""
        self.uses.update({key_of(root, memory_id): (self.uses.of(root, memory_id) or 0) + 1})

    async def forget(self, root: str, memory_ids: Collection[str]) -> None:
        """Erase these memories of a root from sets and counts of uses, durably. Raises StoreError."""
        changed: dict[str, InjectedSet | None] = {}
        for name, injected in self._sets_with(root, memory_ids):
            entries = (_entry_without(each, root, memory_ids) for each in injected.entries)
            changed[name] = replace(injected, entries=tuple(each for each in entries if each is not None))
        sets = self.change(changed, renew=False)
        await self.database.commit(sets, self.uses.erase_change(root, memory_ids))

    async def replace_moved(
        self, root: str, memory_ids: Collection[str], to_root: str, memory_id: str, version: int
    ) -> None:
        """Replace moved memories in all sets by the memory that they became, durably on return."""
        changed: dict[str, InjectedSet | None] = {}
        for name, injected in self._sets_with(root, memory_ids):
            entries = [
                replace(each, root=to_root, id=memory_id, version=version, mark="", of="")
                if each.root == root and each.id in memory_ids
                else _entry_without(each, root, memory_ids) or each
                for each in injected.entries
            ]
            newest = {(each.root, each.id): each for each in entries}
            changed[name] = replace(injected, entries=tuple(newest.values()))
        await self.store(changed, renew=False)

    def memories(self) -> Iterator[tuple[str, str]]:
        """Yield each memory that any injected set refers to, by root and id."""
        self._make_rows()
        return iter(tuple(self._of_memory))

    def _sets_with(self, root: str, memory_ids: Iterable[str]) -> list[tuple[str, InjectedSet]]:
        """Return the injected sets that refer to one of these memories of a root, by row key."""
        self._make_rows()
        names = {name: None for each in memory_ids for name in self._of_memory.get((root, each), ())}
        return [(name, self[name]) for name in names]

    def _replace_all(self, rows: Mapping[str, CachedRow[InjectedSet]]) -> None:
        self.now, self._of_session, self._of_memory = {}, defaultdict(dict), defaultdict(dict)
        super()._replace_all(rows)

    def _apply(self, rows: Mapping[str, CachedRow[InjectedSet] | None], *, renew: bool = True) -> None:
        """Apply changes of rows; update `now`, and the indexes by session and by memory."""
        for name, kept in rows.items():
            old = self._kept.get(name)
            before, after = _mentions(old.value if old else None), _mentions(kept.value if kept else None)
            for each in before - after:
                _discard_from(self._of_memory, each, name)
            for each in after - before:
                self._of_memory[each][name] = None
            key = _key.decode(name)
            if kept is not None:
                self.now[key] = kept.value
                self._of_session[key.agent, key.session_id][key] = None
            elif self.now.pop(key, None) is not None:
                _discard_from(self._of_session, (key.agent, key.session_id), key)
        super()._apply(rows, renew=renew)


def _mentions(injected: InjectedSet | None) -> set[_Memory]:
    """Return the memories that a set contains or that its entries refer to, by root and id."""
    entries = injected.entries if injected is not None else ()
    named = {(each.root, each.id) for each in entries}
    return named | {(each.root, each.of) for each in entries if each.of}


def _discard_from(found: defaultdict[tuple[str, str], dict[T, None]], key: tuple[str, str], each: T) -> None:
    found[key].pop(each, None)
    if not found[key]:
        del found[key]


def _entry_without(each: InjectedEntry, root: str, memory_ids: Collection[str]) -> InjectedEntry | None:
    """Return an entry without references to these memories of a root; None if it is one of them."""
    if each.root != root:
        return each
    if each.id in memory_ids:
        return None
    return replace(each, mark="", of="") if each.of in memory_ids else each


def _row_key(key: SetKey) -> str:
    return msgspec.json.encode(key).decode()


class RecordedMemory(msgspec.Struct, frozen=True, array_like=True):
    """A memory of an `InjectionRecord`, with how it was found and why it was admitted."""

    root: str
    id: str
    version: int
    found_by: str = ""
    admitted_as: str = ""


class InjectionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Record of an injection: the memories that were new to the session. `at` is Unix seconds.

    `tops` are the roots of the request, the repository's and the user's; `strategy` is that of the search.
    """

    at: float
    tops: tuple[str, ...] = ()
    session_id: str = ""
    agent: str = ""
    turn_id: str = ""
    strategy: str = ""
    memories: tuple[RecordedMemory, ...] = ()


class Injections(Rows[InjectionRecord]):
    """Table of injection records of all sessions, kept for 30 days. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "injections", InjectionRecord, most=MOST, keep_s=KEPT_S, clock=clock)

    def listed(self) -> tuple[InjectionRecord, ...]:
        """Return the injection records of the last 30 days, at most 2,000, newest first."""
        self.tidy()
        return tuple(self.values())[::-1]

    def add(self, injected: InjectionRecord) -> None:
        """Add the record of an injection; long names of session, agent and turn are cut."""
        names = {field: one_line(getattr(injected, field), _NAME_CHARACTERS) for field in _NAMED}
        self.update({token_hex(_KEY_BYTES): replace(injected, **names)}, at=injected.at)

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Remove these memories of a root from all injection records, emptied ones too; durable."""
        changed: dict[str, InjectionRecord | None] = {}
        for key, each in self.items():
            left = tuple(one for one in each.memories if one.root != top or one.id not in memory_ids)
            if left != each.memories:
                changed[key] = replace(each, memories=left) if left else None
        await self.store(changed, renew=False)

    async def replace_moved(
        self, top: str, memory_ids: Collection[str], to_top: str, memory_id: str, version: int
    ) -> None:
        """Replace moved memories in all records by the memory that they became, durably on return.

        Raises StoreError.
        """
        changed: dict[str, InjectionRecord | None] = {}
        for key, each in self.items():
            memories = {
                (one.root, one.id): one
                for one in (
                    replace(one, root=to_top, id=memory_id, version=version)
                    if one.root == top and one.id in memory_ids
                    else one
                    for one in each.memories
                )
            }
            if tuple(memories.values()) != each.memories:
                changed[key] = replace(each, memories=tuple(memories.values()))
        await self.store(changed, renew=False)

    def memories(self) -> Iterator[tuple[str, str]]:
        """Yield each memory of all records, by root and id; may repeat."""
        return ((one.root, one.id) for each in self.values() for one in each.memories)
