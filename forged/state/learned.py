"""How far past sessions were read for memories: of each the digests of what was judged, and a mark.

The mark is its reader's word for all that a session said; one that still has its mark has nothing new.
`writing` puts a session's progress into the file within the transaction that stores what is to be judged, so
that a kill loses neither without the other; then `set` makes it known. Of too many the oldest are known no
more, and are read once more: what they bring is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Damaged

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_SESSIONS, MOST_BYTES = 20_000, 16 << 20


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What of a session was judged: digests of its messages in their order, and when the last were."""

    agent: str
    session_id: str
    mark: str = ""
    digests: bytes = b""
    at: float = 0.0


_decode = msgspec.msgpack.Decoder(Progress).decode


class Learned:
    """One for the daemon; lives in its event loop. The key of a session is that of its live captures."""

    def __init__(self) -> None:
        self._known: dict[str, Progress] = {}  # oldest first

    def restore(self, rows: Iterable[tuple[str, Progress]]) -> None:
        """Take over what a file holds, as it is opened."""
        for key, progress in sorted(rows, key=lambda row: row[1].at):
            self.set(key, progress)

    def of(self, key: str) -> Progress | None:
        return self._known.get(key)

    def marks(self, agent: str) -> dict[str, str]:
        """The marks of an agent's sessions, by their ids."""
        return {each.session_id: each.mark for each in self._known.values() if each.agent == agent}

    def writing(self, key: str, progress: Progress) -> Callable[[Connection], None]:
        """What writes it, and takes out of the file what there is no room for."""
        gone = self._too_many(key, progress)

        def write(connection: Connection) -> None:
            tables.put(connection, "learned", key, msgspec.msgpack.encode(progress))
            for old in gone:
                tables.remove(connection, "learned", old)

        return write

    def set(self, key: str, progress: Progress) -> None:
        """Let this be known; it is in the file."""
        for old in (*self._too_many(key, progress), key):
            self._known.pop(old, None)
        self._known[key] = progress

    def _too_many(self, key: str, progress: Progress) -> list[str]:
        others = {old: len(each.digests) for old, each in self._known.items() if old != key}
        count, size = len(others) + 1, sum(others.values()) + len(progress.digests)
        gone: list[str] = []
        for old, length in others.items():
            if count <= MOST_SESSIONS and size <= MOST_BYTES:
                break
            gone.append(old)
            count, size = count - 1, size - length
        return gone


def all_learned(connection: Connection) -> tuple[tuple[str, Progress], ...]:
    """All rows. Raises Damaged."""
    try:
        return tuple(
            (str(key), _decode(said if isinstance(said, bytes) else b""))
            for key, said in tables.rows(connection, "learned")
        )
    except msgspec.DecodeError as error:
        raise Damaged(f"which past sessions were read cannot be read: {error}") from error
