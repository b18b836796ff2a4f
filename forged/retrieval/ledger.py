"""What was injected into which session, for `forgectl why`: bounded, in memory only.

It keeps answers, not text of its own: the block itself is dropped, ids and scores stay (design.md
section 6).
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from forged.memory import utc_now
from forged.retrieval.values import Answer

SESSIONS = 256


class Injected(msgspec.Struct, frozen=True):
    """The last answer of a session: `roots` are the tops it was allowed to see, `at` is UTC."""

    session_id: str
    turn_id: str
    roots: tuple[str, ...]
    at: str
    answer: Answer


class Ledger:
    """The newest answer of each of the last 256 sessions."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Injected] = OrderedDict()

    def note(self, session_id: str, turn_id: str, roots: tuple[str, ...], answer: Answer) -> None:
        self._last[session_id] = Injected(session_id, turn_id, roots, utc_now(), answer)
        self._last.move_to_end(session_id)
        while len(self._last) > SESSIONS:
            self._last.popitem(last=False)

    def last(self, session_id: str, roots: tuple[str, ...]) -> Injected | None:
        """The session's last answer; with no session named, the newest one of the same roots."""
        if session_id:
            found = self._last.get(session_id)
            return found if found is not None and found.roots == roots else None
        return next((item for item in reversed(self._last.values()) if item.roots == roots), None)

    def injected(self, session_id: str, roots: tuple[str, ...]) -> tuple[str, ...]:
        """Texts of the memories that the session was last given: what it repeats is no news."""
        found = self._last.get(session_id) if session_id else None
        if found is None or found.roots != roots:
            return ()
        return tuple(ranked.memory.content for ranked in found.answer.ranked[: found.answer.included])

    def purge(self) -> None:
        self._last.clear()
