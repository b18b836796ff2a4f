"""In which repositories git ignores what forged captures, and what a person said about that.

A repository is known by its common git directory and by what that is on its disk, as `forged.trust` makes it.
What was not read yet is as if it were not there. Answered from memory.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows
from forged.state.tables import Row


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


class Excludes(Rows[Exclude]):
    """One for the daemon. May be asked in any thread. `is_read`: the file was opened."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "excludes", Exclude, durable=True, is_copied=True)
        self.is_read = False

    def restore(self, found: Iterable[Row[Exclude]]) -> None:
        """Take over what a file holds, as it is opened."""
        super().restore(found)
        self.is_read = True

    def of(self, common: str, identity: str) -> Exclude:
        """Return the record of this very repository, or an empty one."""
        fresh = Exclude(common, identity)
        return self.get(fresh.key, fresh)

    async def put(self, record: Exclude) -> None:
        """Write a record down, durably; one that says nothing is removed. Raises StoreError."""
        await self.store({record.key: record if record.choice or record.has_line else None})
