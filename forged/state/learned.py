"""How far past sessions were read for memories: of each the digests of what was judged, and a mark.

The mark is its reader's word for all that a session said; one that still has its mark has nothing new.
A session's progress is a change of the transaction that stores what is to be judged, so that a kill loses
neither without the other. Of too many the oldest are known no more, and are read once more: what they bring
is there already.
"""

from __future__ import annotations

import msgspec

from forged.state.database import Database
from forged.state.rows import Rows

MOST_SESSIONS, MOST_BYTES = 20_000, 16 << 20


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
            most_bytes=MOST_BYTES,
            weigh=lambda progress: len(progress.digests),
        )

    def marks(self, agent: str) -> dict[str, str]:
        """The marks of an agent's sessions, by their ids."""
        return {each.session_id: each.mark for each in self.values() if each.agent == agent}
