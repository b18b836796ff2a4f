"""Tables of rows in memory, readable in any thread, with a copy in `state.db`.

A durable table writes the file first, and changes nothing in memory if that fails. Other tables are
write-behind: a kill may lose the last five seconds. `Database.commit` takes changes of several tables. A row
that is put again becomes the newest. The oldest rows are removed beyond a limit of rows, bytes or age.
`MemoryRows` are keyed by memory.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from forged.errors import StoreError
from forged.state.database import Change, Database, Row, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

V = TypeVar("V")
_NO_BOUND = 1 << 62


class CachedRow(NamedTuple, Generic[V]):
    """A value in memory, its time (Unix seconds), and its size if the table counts bytes."""

    value: V
    at: float
    size: int


class Rows(Table[V], Mapping[str, V]):
    """Table as a mapping in memory, with a copy in `state.db` and limits of rows, `bytes` and age."""

    def __init__(
        self,
        database: Database,
        name: str,
        kind: type[V],
        *,
        durable: bool = False,
        most: int = _NO_BOUND,
        most_bytes: int = _NO_BOUND,
        weigh: Callable[[V], int] | None = None,
        keep_s: float = math.inf,
        merge: Callable[[V, V], V] | None = None,  # of the file's value and an earlier one
        is_copied: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(database, name, kind, is_copied=is_copied)
        self._durable, self._most, self._most_bytes = durable, most, most_bytes
        self._keep_s, self._merge, self._clock = keep_s, merge, clock
        self._weigh = weigh or (lambda value: len(self.encode(value)) if most_bytes < _NO_BOUND else 0)
        self._kept: dict[str, CachedRow[V]]  # oldest first
        self._replace_all({})
        self._lock = threading.Lock()  # changes come from the event loop and the database's thread
        self._unsaved, self._warned = set[str](), False

    def __getitem__(self, key: str) -> V:
        return self._kept[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def items(self) -> ItemsView[str, V]:
        """Return all current rows, oldest first."""
        return {key: kept.value for key, kept in tuple(self._kept.items())}.items()

    def values(self) -> ValuesView[V]:
        """Return all current values, oldest first."""
        return dict(self.items()).values()

    def update(self, values: Mapping[str, V | None], *, renew: bool = True, at: float | None = None) -> None:
        """Put rows, or delete those that are None; without `renew` a row keeps its position and time."""
        assert not self._durable, f"{self.name} is written with store"
        with self._lock:
            fresh = self._cached_rows(values, at, renew=renew)
            self._apply(fresh, renew=renew)
            self._unsaved.update(fresh)
            self._drop_rows(self._keys_over_limit({}))

    def hold(self, values: Mapping[str, V | None]) -> None:
        """Put rows in memory only, for a caller that writes them itself; `None` deletes one."""
        with self._lock:
            self._apply(self._cached_rows(values, None, renew=True))

    async def store(
        self, values: Mapping[str, V | None], *, renew: bool = True, at: float | None = None
    ) -> None:
        """Put rows as `update` does, durably on return. Raises StoreError; then nothing changed."""
        await self.database.commit(self.change(values, renew=renew, at=at))

    def change(
        self, values: Mapping[str, V | None], *, renew: bool = True, at: float | None = None
    ) -> Change:
        """Return a change that puts rows; if the table is not durable, put them in memory now."""
        if self._durable:
            return _DurableChange(self, self._cached_rows(values, at, renew=renew), renew=renew)
        self.update(values, renew=renew, at=at)
        return self.pending()

    def pending(self) -> Change:
        """Return a change that writes the rows that are not in the file yet."""
        with self._lock:
            return _PendingChange(self, {key: self._kept.get(key) for key in self._unsaved})

    @property
    def is_saved(self) -> bool:
        """Return True if the file has all changes of the rows in memory."""
        return not self._unsaved

    async def flush(self) -> None:
        """Write the rows that are not in the file yet, durably on return. Raises StoreError."""
        await self.database.commit(self.pending())

    async def save(self) -> None:
        """Write the rows that are not in the file yet. Raises nothing; a failed write is repeated later."""
        if self.is_saved:
            return
        try:
            await self.database.commit(self.pending(), durable=False)
            self._warned = False
        except StoreError as error:
            if not self._warned:
                logger.warning("rows are in memory only table=%s error=%s", self.name, error)
            self._warned = True

    def tidy(self) -> None:
        """Remove the oldest rows beyond the limits of number, bytes and age."""
        with self._lock:
            self._drop_rows(self._keys_over_limit({}))

    def load(self, connection: Connection) -> Callable[[], object]:
        """Read all rows; the returned function takes them over. Raises Damaged."""
        return partial(self.restore, tuple(self.read_all(connection)))

    def restore(self, found: Iterable[Row[V]]) -> None:
        """Take over the rows of the file at open; rows put earlier win, or are merged; apply the limits."""
        with self._lock:
            early = self._kept
            rows = sorted(found, key=lambda row: row.at)
            self._replace_all({row.key: CachedRow(row.value, row.at, self._weigh(row.value)) for row in rows})
            for key, kept in early.items():
                before, value = self._kept.get(key), kept.value
                if before is not None and self._merge is not None:
                    value = self._merge(before.value, kept.value)
                self._apply({key: CachedRow(value, kept.at, self._weigh(value))})
            self._drop_rows(self._keys_over_limit({}))

    def _cached_rows(
        self, values: Mapping[str, V | None], at: float | None, *, renew: bool
    ) -> dict[str, CachedRow[V] | None]:
        now, made = self._clock() if at is None else at, dict[str, CachedRow[V] | None]()
        for key, value in values.items():
            old = None if renew else self._kept.get(key)
            made[key] = (
                None if value is None else CachedRow(value, old.at if old else now, self._weigh(value))
            )
        return made

    def _keys_over_limit(self, fresh: Mapping[str, CachedRow[V] | None]) -> list[str]:
        """Return keys of the oldest rows beyond the limits of number, bytes or age, once these are put."""
        count, size = len(self._kept), self.bytes
        for key, kept in fresh.items():
            old = self._kept.get(key)
            count += (kept is not None) - (old is not None)
            size += (kept.size if kept else 0) - (old.size if old else 0)
        oldest, gone = self._clock() - self._keep_s, list[str]()
        for key, old in self._kept.items():
            if count <= self._most and size <= self._most_bytes and old.at > oldest:
                break
            if key not in fresh:
                gone.append(key)
                count, size = count - 1, size - old.size
        return gone

    def _replace_all(self, rows: Mapping[str, CachedRow[V]]) -> None:
        self._kept, self.bytes = {}, 0
        self._apply(rows)

    def _apply(self, rows: Mapping[str, CachedRow[V] | None], *, renew: bool = True) -> None:
        for key, kept in rows.items():
            old = self._kept.get(key)
            self.bytes += (kept.size if kept else 0) - (old.size if old else 0)
            if renew or kept is None:
                self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept

    def _drop_rows(self, keys: Collection[str]) -> None:
        self._apply(dict.fromkeys(keys))
        self._unsaved.update(keys)

    def _write_rows(self, rows: Mapping[str, CachedRow[V] | None], connection: Connection) -> None:
        self.erase(connection, *(key for key, kept in rows.items() if kept is None))
        for key, kept in rows.items():
            if kept is not None:
                self.write(connection, key, kept.value, kept.at)


class _DurableChange(Generic[V]):
    """Change of a durable table: first in the file, then in memory; drops the oldest over the limits."""

    def __init__(self, table: Rows[V], rows: dict[str, CachedRow[V] | None], *, renew: bool) -> None:
        self.table, self._rows, self._renew, self._gone = table, rows, renew, list[str]()
        self.name, self.is_empty = table.name, not rows

    def write(self, connection: Connection) -> None:
        with self.table._lock:
            self._gone = self.table._keys_over_limit(self._rows)
        self.table.erase(connection, *self._gone)
        self.table._write_rows(self._rows, connection)

    def apply(self) -> None:
        with self.table._lock:
            self.table._apply(dict.fromkeys(self._gone))
            self.table._apply(self._rows, renew=self._renew)


class _PendingChange(Generic[V]):
    """Change that writes rows that are only in memory; a row changed meanwhile stays pending."""

    def __init__(self, table: Rows[V], rows: dict[str, CachedRow[V] | None]) -> None:
        self.table, self._rows, self.name, self.is_empty = table, rows, table.name, not rows

    def write(self, connection: Connection) -> None:
        self.table._write_rows(self._rows, connection)

    def apply(self) -> None:
        with self.table._lock:
            now = self.table._kept
            self.table._unsaved -= {key for key, kept in self._rows.items() if now.get(key) is kept}


class MemoryRows(Rows[V]):
    """Table with one row for each memory, by a root's path or identity and the memory's id."""

    _by_root: dict[str, dict[str, V]]

    def of(self, root: str, memory_id: str) -> V | None:
        return self.get(key_of(root, memory_id))

    def of_root(self, root: str) -> Mapping[str, V]:
        """Return all rows of a root, by the memory's id; the mapping is live."""
        return self._by_root.get(root, {})

    def _replace_all(self, rows: Mapping[str, CachedRow[V]]) -> None:
        self._by_root = {}
        super()._replace_all(rows)

    def _apply(self, rows: Mapping[str, CachedRow[V] | None], *, renew: bool = True) -> None:
        super()._apply(rows, renew=renew)
        for key, kept in rows.items():
            root, _, memory_id = key.rpartition("\n")
            if kept is not None:
                self._by_root.setdefault(root, {})[memory_id] = kept.value
            elif memory_id in (of_root := self._by_root.get(root, {})):
                del of_root[memory_id]

    def erase_change(self, root: str, memory_ids: Iterable[str]) -> Change:
        """Return a change that erases the rows of these memories of a root."""
        return self.change({key: None for each in memory_ids if (key := key_of(root, each)) in self})

    async def forget(self, root: str, memory_ids: Iterable[str]) -> None:
        """Erase the rows of these memories of a root, durably on return. Raises StoreError."""
        await self.database.commit(self.erase_change(root, memory_ids))

    def rows_of(self, root: str, memory_ids: Iterable[str]) -> dict[str, V]:
        """Return the existing rows of these memories of a root, by id."""
        return {each: self[key] for each in memory_ids if (key := key_of(root, each)) in self}

    def restore_change(self, root: str, rows: Mapping[str, V]) -> Change:
        """Return a change that puts rows of memories of a root, given by id."""
        return self.change({key_of(root, each): row for each, row in rows.items()})

    def move_change(self, root: str, memory_ids: Collection[str], to_root: str, memory_id: str) -> Change:
        """Return a change that moves rows to one memory: merged, or only the newest one kept."""
        rows, value = self.rows_of(root, memory_ids), self.get(there := key_of(to_root, memory_id))
        for row in reversed(rows.values()):
            value = row if value is None else self._merge(row, value) if self._merge else value
        gone: dict[str, V | None] = {key_of(root, each): None for each in rows}
        return self.change(gone | {there: value} if rows else {})


def key_of(root: str, memory_id: str) -> str:
    """Return the key of a memory in a table of memories. No path of a root ends in a newline."""
    return f"{root}\n{memory_id}"
