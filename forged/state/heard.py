"""How far each session has been heard: the digests of its messages in their order, and when they were heard.

What is known of a session is a Watermark. It is in memory first, and in the file with the transaction that
also stores the messages themselves: what counts as heard is never less durable than what was said. Bounded:
of a session the newest messages are known, and of all sessions those that were heard last; what is known no
more is heard once more.
"""

from __future__ import annotations

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows

DIGEST_BYTES = 8
MOST_MESSAGES, MOST_SESSIONS, MOST_BYTES = 1 << 15, 1024, 8 << 20

# How many messages were first heard at a time, in Unix seconds; 0: nobody knows when.
Run = tuple[int, float]


class Watermark(msgspec.Struct, frozen=True):
    """The digests of what a session has said, one after the other, and runs of messages heard together."""

    digests: bytes = b""
    runs: tuple[Run, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """When each message was first heard."""
        return tuple(at for count, at in self.runs for _ in range(count))

    @property
    def heard_last(self) -> float:
        return max((at for _, at in self.runs), default=0.0)

    def grown(self, digests: bytes, at: float) -> Watermark:
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
        return Watermark((self.digests + digests)[-MOST_MESSAGES * DIGEST_BYTES :], tuple(runs))


NOTHING = Watermark()


class Heard(Rows[Watermark]):
    """One for the daemon; `pending` is what the transaction that stores events has to write."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "heard",
            Watermark,
            most=MOST_SESSIONS,
            most_bytes=MOST_BYTES,
            weigh=lambda watermark: len(watermark.digests),
        )

    def of(self, session: str) -> Watermark:
        return self.get(session, NOTHING)

    async def save(self) -> None:
        """Write nothing: the file has it with the events or not at all."""
