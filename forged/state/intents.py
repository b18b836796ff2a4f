"""Intents: removals, moves and restores that must be completed after a kill.

A verb with several steps on disk stores its intent before the first step and deletes it after the last. A
starting daemon completes the intents that it finds. They hold ids and hashes, never text.
"""

from __future__ import annotations

import asyncio

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows


class Rewrite(msgspec.Struct, frozen=True, order=True):
    """Hashes of a memory file before and after its predecessor's id changes from `former` to `older`."""

    id: str
    before: str
    after: str
    older: str = ""
    former: str = ""


class Intent(msgspec.Struct, frozen=True):
    """Unfinished removal, restore or move of memories in the root `top`, to be completed after a kill.

    `kind` is remove, restore or move. `ids` are removed (or restored from `batch`), `erase` for good; the
    trash stores `why`. `became` is the id of a move's new file, in the root `to_top` of the scope `to_scope`.
    `identity` and `to_identity` are the folders of the two roots.
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
    identity: str = ""
    to_scope: str = ""
    to_identity: str = ""


class Intents(Rows[Intent]):
    """Table of unfinished removals, moves and restores; `resumed` is set once older ones are completed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "intents", Intent, durable=True)
        self.resumed = asyncio.Event()
        self.resumed.set()

    async def begin(self, intent: Intent) -> None:
        """Store an intent durably; a restore deletes unfinished removals of its ids. Raises StoreError.

        The next start would repeat those removals.
        """
        opposed = self._opposed(intent) if intent.kind == "restore" else ()
        await self.store(dict.fromkeys(opposed) | {intent.key: intent})

    async def end(self, intent: Intent) -> None:
        """Delete a completed intent, and unfinished ones that do the opposite to the same ids."""
        await self.drop(intent.key, *self._opposed(intent))

    async def drop(self, *keys: str) -> None:
        """Delete intents by key, in memory even if the file fails; the next start finds them completed."""
        dropped = dict.fromkeys(key for key in keys if key in self)
        self.hold(dropped)
        await self.store(dropped)

    def _opposed(self, intent: Intent) -> tuple[str, ...]:
        """Return keys of unfinished intents that restore what this one removes, or the other way round."""
        returns, ids = intent.kind == "restore", frozenset(intent.ids)
        return tuple(
            each.key
            for each in self.values()
            if (each.kind == "restore") != returns and each.top == intent.top and ids.issuperset(each.ids)
        )
