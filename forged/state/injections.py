"""What was injected where: which memories each turn of a session got, and how they came. Ids only, no text.

All is answered from memory and written now and then, as what sessions have heard is: the last five seconds
may be lost. Entries go after 30 days, and of too many the oldest; what is forgotten leaves them at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from secrets import token_hex
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from forged.state import tables
from forged.state.database import Damaged, Database
from forged.state.soft_rows import ChangedRows
from forged.text.quoted import one_line

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST, KEPT_S = 2000, 30 * 24 * 3600.0
_NAMED, _NAME_CHARACTERS = ("session_id", "agent", "turn_id"), 200
_KEY_BYTES = 8


class Given(msgspec.Struct, frozen=True, array_like=True):
    """One memory of an injection: `via` which way it was found and `came` why it was let in, as in a hit."""

    root: str
    id: str
    version: int
    via: str = ""
    came: str = ""


class InjectedTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memories that a turn got and its session did not have before. `at` is Unix seconds.

    `tops` are the roots that the request saw, the repository's and the user's; `strategy` is how it searched.
    """

    at: float
    tops: tuple[str, ...] = ()
    session_id: str = ""
    agent: str = ""
    turn_id: str = ""
    strategy: str = ""
    memories: tuple[Given, ...] = ()


Row = tuple[str, InjectedTurn]
_decoder = msgspec.msgpack.Decoder(InjectedTurn)


class Injections:
    """One for the daemon; lives in its event loop. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known: dict[str, InjectedTurn] = {}  # oldest first
        self._changed = ChangedRows(database, "injections", "what was injected is")

    def restore(self, rows: Iterable[Row]) -> None:
        """Take over what a file holds, as it is opened; what is known already is newer."""
        found = dict(rows) | self._known
        self._known = dict(sorted(found.items(), key=lambda item: item[1].at))
        self._tidy()

    def listed(self) -> tuple[InjectedTurn, ...]:
        """All that are known, newest first."""
        self._tidy()
        return tuple(reversed(self._known.values()))

    def add(self, injected: InjectedTurn) -> None:
        """Take note of an injection; an agent's names for its session and turn are cut if they are long."""
        names = {field: one_line(getattr(injected, field), _NAME_CHARACTERS) for field in _NAMED}
        key = token_hex(_KEY_BYTES)
        self._known[key] = replace(injected, **names)
        self._changed.add(key)
        self._tidy()

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Let these memories of a root be in no injection; durably. Raises StoreError."""
        for key, each in tuple(self._known.items()):
            left = tuple(one for one in each.memories if one.root != top or one.id not in memory_ids)
            if not left:
                self._drop(key)
            elif left != each.memories:
                self._known[key] = replace(each, memories=left)
                self._changed.add(key)
        await self._changed.write(self._row)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._changed.save(self._row)

    def _tidy(self) -> None:
        oldest = self._clock() - KEPT_S
        too_many = len(self._known) - MOST
        for number, (key, each) in enumerate(tuple(self._known.items())):
            if number >= too_many and each.at > oldest:
                return
            self._drop(key)

    def _drop(self, key: str) -> None:
        del self._known[key]
        self._changed.add(key)

    def _row(self, key: str) -> tables.Columns | None:
        injected = self._known.get(key)
        return None if injected is None else (key, msgspec.msgpack.encode(injected))


def all_injections(connection: Connection) -> tuple[Row, ...]:
    """All rows. Raises Damaged."""
    try:
        return tuple(
            (str(key), _decoder.decode(said if isinstance(said, bytes) else b""))
            for key, said in tables.rows(connection, "injections")
        )
    except msgspec.DecodeError as error:
        raise Damaged(f"what was injected cannot be read: {error}") from error
