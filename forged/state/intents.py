"""What has to be brought to its end although the daemon may be killed on the way: removals, moves, returns.

A verb that takes several steps on disk puts down what it is about before the first and takes that away after
the last; a daemon that starts finds what the one before it did not finish. Ids and hashes only, never text.
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


class Rewrite(msgspec.Struct, frozen=True, order=True):
    """A file that names `older` as its predecessor and not `former`: the hashes before and after."""

    id: str
    before: str
    after: str
    older: str = ""
    former: str = ""


class Intent(msgspec.Struct, frozen=True):
    """One such verb in one root, of this `top` and `scope`.

    `kind`: remove, restore or move. `ids` are taken away (or come back, in `batch`), `erase` for good; `why`
    is kept with them in the trash. `became` is the id of the new file of a move, in the root `to_top`.
    """

    key: str
    kind: str
    top: str
    scope: str
    ids: tuple[str, ...]
    rewrites: tuple[Rewrite, ...] = ()
    erase: bool = False
    why: str = ""
    batch: str = ""
    became: str = ""
    to_top: str = ""


class Intents:
    """All that is not finished, in `known` by key."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.known: dict[str, Intent] = {}

    def restore(self, known: Iterable[Intent]) -> None:
        """Take over what a file holds, as it is opened."""
        self.known = {intent.key: intent for intent in known} | self.known

    async def begin(self, intent: Intent) -> None:
        """Put it down, durably on return. Raises StoreError."""
        await self._database.run(partial(_put, intent))
        self.known[intent.key] = intent

    async def end(self, key: str) -> None:
        """It is done. What cannot be written down is found done again at the next start."""
        if self.known.pop(key, None) is not None:
            await self._database.run(lambda connection: tables.remove(connection, "intents", key))


def all_intents(connection: Connection) -> tuple[Intent, ...]:
    """All rows. Raises Damaged."""
    return tuple(
        msgspec.msgpack.decode(said, type=Intent)
        for _, said in tables.rows(connection, "intents")
        if isinstance(said, bytes)
    )


def _put(intent: Intent, connection: Connection) -> None:
    tables.put(connection, "intents", intent.key, msgspec.msgpack.encode(intent))
