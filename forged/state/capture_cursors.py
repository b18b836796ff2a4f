"""Capture cursors of live and past sessions: digests of the messages already judged, in order.

A capture cursor is in memory first, and in the file with the transaction that stores the messages as events:
it is never more durable than they are. Progress in a past session is stored with its events, too; its mark is
its reader's word for all that it said. A message beyond a bound is judged once more.
"""

from __future__ import annotations

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows

DIGEST_BYTES = 8
MOST_MESSAGES, MOST_CURSORS, MOST_BYTES = 1 << 15, 20_000, 32 << 20

# How many messages were first heard at a time, in Unix seconds; 0: nobody knows when.
Run = tuple[int, float]


class CaptureCursor(msgspec.Struct, frozen=True):
    """Digests of the judged messages of a session, in order, and runs of messages judged together."""

    digests: bytes = b""
    runs: tuple[Run, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """When each message was first heard."""
        return tuple(at for count, at in self.runs for _ in range(count))

    @property
    def heard_last(self) -> float:
        return max((at for _, at in self.runs), default=0.0)

    def grown(self, digests: bytes, at: float) -> CaptureCursor:
        """With messages that were heard now; of too many the newest are left."""
        if not digests:
            return self
        runs = [*self.runs, (len(digests) // DIGEST_BYTES, at)]
        too_many = (len(self.digests) + len(digests)) // DIGEST_BYTES - MOST_MESSAGES
        while too_many > 0:
            count, first = runs.pop(0)
            if count > too_many:
                runs.insert(0, (count - too_many, first))
            too_many -= count
        return CaptureCursor((self.digests + digests)[-MOST_MESSAGES * DIGEST_BYTES :], tuple(runs))


NOTHING = CaptureCursor()


class CaptureCursors(Rows[CaptureCursor]):
    """One for the daemon; `pending` is what the transaction that stores events has to write."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "capture_cursors",
            CaptureCursor,
            most=MOST_CURSORS,
            most_bytes=MOST_BYTES,
            weigh=lambda cursor: len(cursor.digests),
        )

    def of(self, session: str) -> CaptureCursor:
        return self.get(session, NOTHING)

    async def save(self) -> None:
        """Write nothing: the file has it with the events or not at all."""


MOST_SESSIONS, MOST_LEARNED_BYTES = 20_000, 16 << 20


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What of a session was judged: digests of its messages in their order, and when the last were."""

    agent: str
    session_id: str
    mark: str = ""
    digests: bytes = b""
    at: float = 0.0


class Learned(Rows[Progress]):
    """One for the daemon. The key of a session is that of its live captures."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "learned",
            Progress,
            durable=True,
            most=MOST_SESSIONS,
            most_bytes=MOST_LEARNED_BYTES,
            weigh=lambda progress: len(progress.digests),
        )

    def marks(self, agent: str) -> dict[str, str]:
        """The marks of an agent's sessions, by their ids."""
        return {each.session_id: each.mark for each in self.values() if each.agent == agent}
