"""Memories whose file is missing, and on how many days; their rows in other tables stay until a sweep.

A branch switch, a stash or an unplugged disk takes files away for a time, so nothing is erased at once. Only
a day counts on which the root's folder could be listed, and each day once.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.state.database import Change, Database
from forged.state.rows import MemoryRows, key_of

MOST = 1 << 17


class Absence(msgspec.Struct, frozen=True):
    """The first and the last day on which a file was missing (UTC, YYYY-MM-DD), and how many days counted."""

    first: str
    last: str
    days: int = 1


class Absences(MemoryRows[Absence]):
    """One for the daemon, durable. A memory that is seen again is `forgotten` here."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "absences", Absence, durable=True, most=MOST)

    def absent(self, root: str, memory_ids: Iterable[str], day: str) -> Change:
        """Count a day on which the files of these memories are missing."""
        counted: dict[str, Absence | None] = {}
        for key in (key_of(root, each) for each in memory_ids):
            known = self.get(key)
            if known is None:
                counted[key] = Absence(day, day)
            elif known.last < day:
                counted[key] = Absence(known.first, day, known.days + 1)
        return self.change(counted, renew=False)
