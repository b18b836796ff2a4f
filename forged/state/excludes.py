"""In which repositories git ignores what forged captures, and what a person said about that.

A repository is known by its common git directory and by what that is on its disk, as `forged.trust` makes it.
What was not read yet is as if it were not there. Answered from memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Database

if TYPE_CHECKING:
    from sqlite3 import Connection


class Exclude(msgspec.Struct, frozen=True):
    """One repository. `choice` is exclude, commit, or nothing where the configuration decides.

    `has_line`: forged's line is in its `info/exclude`. `is_told`: a person was told of it.
    """

    common: str
    identity: str
    choice: str = ""
    has_line: bool = False
    is_told: bool = False

    @property
    def key(self) -> str:
        return f"{self.identity} {self.common}"


class Excludes:
    """One for the daemon. May be asked in any thread. `is_read`: the file was opened."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Exclude] = {}
        self.is_read = False

    def restore(self, known: Iterable[Exclude]) -> None:
        """Take over what a file holds, as it is opened."""
        self.is_read = True
        for each in known:
            self._known.setdefault(each.key, each)

    def of(self, common: str, identity: str) -> Exclude:
        """Return the record of this very repository, or an empty one."""
        fresh = Exclude(common, identity)
        return self._known.get(fresh.key, fresh)

    def listed(self) -> tuple[Exclude, ...]:
        return tuple(self._known.values())

    async def put(self, record: Exclude) -> None:
        """Write a record down, durably; one that says nothing is removed. Raises StoreError."""
        await self._database.run(partial(_put, record))
        if _says_nothing(record):
            self._known.pop(record.key, None)
        else:
            self._known[record.key] = record


def all_excludes(connection: Connection) -> tuple[Exclude, ...]:
    """All rows. Raises Damaged."""
    found = []
    for key, choice, has_line, is_told in tables.rows(connection, "excludes"):
        identity, _, common = str(key).partition(" ")
        found.append(Exclude(common, identity, str(choice), bool(has_line), bool(is_told)))
    return tuple(found)


def _says_nothing(record: Exclude) -> bool:
    return not (record.choice or record.has_line)


def _put(record: Exclude, connection: Connection) -> None:
    if _says_nothing(record):
        tables.remove(connection, "excludes", record.key)
    else:
        tables.put(
            connection, "excludes", record.key, record.choice, int(record.has_line), int(record.is_told)
        )
