"""What has to be brought to its end although the daemon may be killed on the way: removals, moves, returns.

A verb that takes several steps on disk puts down what it is about before the first and takes that away after
the last; a daemon that starts finds what the one before it did not finish. Ids and hashes only, never text.
"""

from __future__ import annotations

import asyncio

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows


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
    is kept with them in the trash. `became` is the id of the new file of a move, in the root `to_top`, of the
    scope `to_scope`. `identity` and `to_identity` are which folders the two roots were.
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
    """All that is not finished; `resumed` is clear while a starting daemon finishes older ones."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "intents", Intent, durable=True)
        self.resumed = asyncio.Event()
        self.resumed.set()

    async def begin(self, intent: Intent) -> None:
        """Put it down, durably on return. Raises StoreError.

        A return withdraws each removal of the same ids that is unfinished: the next start would do it again.
        """
        opposed = self._opposed(intent) if intent.kind == "restore" else ()
        await self.store(dict.fromkeys(opposed) | {intent.key: intent})

    async def end(self, intent: Intent) -> None:
        """Drop what is done, and with it what is unfinished and does the opposite to the same ids."""
        await self.drop(intent.key, *self._opposed(intent))

    async def drop(self, *keys: str) -> None:
        """Forget these. What cannot be written down is found done again at the next start."""
        dropped = dict.fromkeys(key for key in keys if key in self)
        self.hold(dropped)
        await self.store(dropped)

    def _opposed(self, intent: Intent) -> tuple[str, ...]:
        returns, ids = intent.kind == "restore", frozenset(intent.ids)
        return tuple(
            each.key
            for each in self.values()
            if (each.kind == "restore") != returns and each.top == intent.top and ids.issuperset(each.ids)
        )
