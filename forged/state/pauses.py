"""Pauses of forged by the user, everywhere or in repositories; they survive a restart.

Doubt is decided for privacy: while the pauses cannot be read, nothing is injected or captured, until they are
readable or a person resumes everywhere. A pause is in force at once even if it cannot be written; a
resumption only once it is written. Resuming everywhere keeps pauses of single repositories.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from forged.errors import StoreError
from forged.state.damage import NOTE
from forged.state.database import Database, Table, meta_value, put, remove

if TYPE_CHECKING:
    from sqlite3 import Connection

EVERYWHERE = "*"
# Key in `meta`: time at which a pause last began or ended, in Unix milliseconds.
CHANGED = "pauses_changed_at"
_UNREAD = "the state has not been read yet"
_UNWRITTEN = {
    True: "paused only until the daemon ends, because the pause cannot be saved: {}",
    False: "nothing was resumed, because that cannot be saved: {}",
}


class Pauses:
    """Pauses by the user in `places`, in memory and file; `doubt`: why they are uncertain, or "".

    `changed_at` is when a pause last began or ended anywhere, in Unix seconds; 0 for never.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._table = Table(database, "pauses", bool, is_copied=True, load=self._load)
        self._clock = clock
        self._changing = asyncio.Lock()
        self.places: frozenset[str] = frozenset()
        self.doubt = _UNREAD
        self.changed_at = 0.0

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read pauses, doubt and the time of the last change; return a function that takes them over."""
        places = [row.key for row in self._table.read_all(connection)]
        note, changed_at = meta_value(connection, NOTE), meta_value(connection, CHANGED)
        return lambda: self.restore(places, note, changed_at)

    async def set(self, top: str | None, paused: bool) -> None:
        """Begin or end the pause of one top, or the pause of everything for None; durable.

        Raises StoreError; then a pause holds until the daemon ends, and a resumption has no effect.
        """
        place = EVERYWHERE if top is None else top
        async with self._changing:
            wanted = self.places | {place} if paused else self.places - {place}
            now = math.ceil(self._clock() * 1000)
            self.changed_at = now / 1000
            if paused:
                self.places = wanted
            try:
                await self._database.run(partial(self._change, place, paused, now))
            except StoreError as error:
                raise StoreError(_UNWRITTEN[paused].format(error)) from error
            self.places = wanted
            if top is None:
                self.doubt = ""

    def restore(self, places: Iterable[str], doubt: str, changed_at: str = "") -> None:
        """Take over pauses and the last change from the file at open, and the reason of a doubt."""
        self.places |= frozenset(places)
        self.doubt = doubt
        if changed_at.isdecimal():
            self.changed_at = max(self.changed_at, int(changed_at) / 1000)

    def _change(self, place: str, paused: bool, now: int, connection: Connection) -> None:
        """Write or delete a pause, write the time; a change for everywhere also ends the doubt."""
        put(connection, "meta", CHANGED, str(now))
        if paused:
            self._table.write(connection, place, value=True)
        else:
            self._table.erase(connection, place)
        if place == EVERYWHERE:  # the person saw the doubt and decided
            remove(connection, "meta", NOTE)

    def is_paused(self, tops: Collection[str]) -> bool:
        """Return True if a person paused one of these tops or everything; False while in doubt."""
        return not self.doubt and (EVERYWHERE in self.places or not self.places.isdisjoint(tops))

    def reason(self, tops: Collection[str]) -> str:
        """Return a sentence on why capture and injection stop for these tops: a doubt, a pause; or ""."""
        if self.doubt:
            return self.doubt
        if EVERYWHERE in self.places:
            return "paused everywhere; `forgectl resume --all` ends it"
        return "" if self.places.isdisjoint(tops) else "paused; `forgectl resume` ends it"

    def listed(self) -> tuple[str, ...]:
        """Return the paused places: `*` for everywhere, then tops of repositories."""
        tops = tuple(sorted(self.places - {EVERYWHERE}))
        return (EVERYWHERE, *tops) if EVERYWHERE in self.places else tops
