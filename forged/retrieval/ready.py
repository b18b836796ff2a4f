"""Replies that were made once and may be sent again: the newest of them, as many as fit into 4 MiB.

Most calls of a turn after its first get the same reply. What of it is the same each time is kept here as it
goes over the wire, by whoever sends it; this knows nothing of the form. One belongs to the very answer that
it was made of: of any other for the same turn it is none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from forged.retrieval.values import Answer

MOST_BYTES = 4 << 20


class Ready(msgspec.Struct, frozen=True, eq=False):
    """A reply made of an answer: what it says in short, and its text and the rest as they are sent."""

    answer: Answer
    status: str
    included: int
    digest: str
    text: bytes
    rest: bytes

    @property
    def size(self) -> int:
        return len(self.text) + len(self.rest)


class ReadyReplies:
    """The newest replies by key; the one that was sent last is the last to go."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = 0
        self._replies: OrderedDict[Hashable, Ready] = OrderedDict()

    def get(self, key: Hashable, answer: Answer) -> Ready | None:
        """The reply that was made of this answer, if it is still here."""
        found = self._replies.get(key)
        if found is None or found.answer is not answer:
            return None
        self._replies.move_to_end(key)
        return found

    def put(self, key: Hashable, reply: Ready) -> None:
        """Keep a reply, unless it alone is more than all may be."""
        self._drop(key)
        if reply.size > self._most:
            return
        self._replies[key] = reply
        self._held += reply.size
        while self._held > self._most:
            self._drop(next(iter(self._replies)))

    def clear(self) -> None:
        self._replies.clear()
        self._held = 0

    def _drop(self, key: Hashable) -> None:
        if (gone := self._replies.pop(key, None)) is not None:
            self._held -= gone.size
