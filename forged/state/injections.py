"""What was injected where: which memories each turn of a session got, and how they came. Ids only, no text.

All is answered from memory and written now and then, as what sessions have heard is: the last five seconds
may be lost. Entries go after 30 days, and of too many the oldest; what is forgotten leaves them at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from forged.state.database import Database
from forged.state.rows import Rows
from forged.text.quoted import one_line

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


class Injections(Rows[InjectedTurn]):
    """One for the daemon. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "injections", InjectedTurn, most=MOST, keep_s=KEPT_S, clock=clock)

    def listed(self) -> tuple[InjectedTurn, ...]:
        """All that are known, newest first."""
        self.tidy()
        return tuple(self.values())[::-1]

    def add(self, injected: InjectedTurn) -> None:
        """Take note of an injection; an agent's names for its session and turn are cut if they are long."""
        names = {field: one_line(getattr(injected, field), _NAME_CHARACTERS) for field in _NAMED}
        self.update({token_hex(_KEY_BYTES): replace(injected, **names)}, at=injected.at)

    async def forget(self, top: str, memory_ids: Collection[str]) -> None:
        """Let these memories of a root be in no injection; durably. Raises StoreError."""
        changed: dict[str, InjectedTurn | None] = {}
        for key, each in self.items():
            left = tuple(one for one in each.memories if one.root != top or one.id not in memory_ids)
            if left != each.memories:
                changed[key] = replace(each, memories=left) if left else None
        await self.store(changed, renew=False)

    async def moved(
        self, top: str, memory_ids: Collection[str], to_top: str, memory_id: str, version: int
    ) -> None:
        """Let what these memories of a root became stand in each injection of them; durably.

        Raises StoreError.
        """
        changed: dict[str, InjectedTurn | None] = {}
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
        """Each memory that is in an injection, by root and id; some more than once."""
        return ((one.root, one.id) for each in self.values() for one in each.memories)
