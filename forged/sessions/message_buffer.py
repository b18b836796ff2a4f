"""Buffer of the messages of all sessions, and of those that wait for capture. Nothing is raised."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from forged.sessions.messages import ByteCount, SessionMessages
from forged.sessions.transcript import text_of
from forged.text.forgetting import Words, without_sentences

# Limits on all messages, and on those that capture refuses: above it the oldest are lost.
MOST_BYTES, MOST_REFUSED_BYTES = 32 << 20, 32 << 20
# Seconds without an event after which a session counts as ended.
SILENT_S = 3600.0
_EARLY = (
    f"{{}} turns were captured before their end, because at most {MOST_BYTES >> 20} MB of messages are held"
)
_LOST = "{} messages were lost, because capture did not take them in time"


class MessageBuffer:
    """Messages of all sessions, at most 32 MB; for space the quietest session is handed over first.

    `leave` hands over to capture the messages that it has not taken: they are `due` until `release`. Messages
    of sessions that are silent for an hour are due as well. `early` counts sessions that were handed over
    before the end of their turn.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.began = clock()
        self.early = 0
        self._lost = 0
        self._room, self._leaving_room = ByteCount(), ByteCount()
        self._leaving: OrderedDict[SessionMessages, None] = OrderedDict()
        # The quietest first; those with an open private span in a second table.
        self._current = (OrderedDict[SessionMessages, None](), OrderedDict[SessionMessages, None]())

    def __iter__(self) -> Iterator[SessionMessages]:
        return chain(tuple(self._leaving), *map(tuple, self._current))

    @property
    def is_full(self) -> bool:
        """True if the messages of open sessions have more than 32 MB."""
        return self._room.used > MOST_BYTES

    @property
    def lost(self) -> int:
        """Number of messages that were dropped for space before capture took them."""
        return self._lost + sum(each.lost for each in self)

    def touch(self, messages: SessionMessages) -> None:
        """Mark a session's messages as just changed; above the limit hand over others, then trim these."""
        messages.touched = self.clock()
        self._remove_current(messages)
        self._current[messages.open_spans > 0][messages] = None
        messages.count_in(self._room)
        while self.is_full and (quietest := self._quietest(messages)) is not None:
            self.early += quietest.has_waiting
            self.leave(quietest)
        if self.is_full:
            messages.trim(MOST_BYTES, MOST_BYTES + MOST_REFUSED_BYTES)

    def leave(self, messages: SessionMessages, *, drops: bool = False) -> None:
        """Detach a session's messages to wait for capture; drop them if captured or if `drops`."""
        self._remove_current(messages)
        messages.has_left = True
        if drops or not messages.has_waiting:
            self._drop_texts(messages)
            return
        messages.count_in(self._leaving_room)
        self._leaving[messages] = None
        while self._leaving_room.used > MOST_REFUSED_BYTES and len(self._leaving) > 1:
            oldest = next(iter(self._leaving))
            self._lost += len(oldest.waiting)
            self.release(oldest)

    def due(self, *, all_of_them: bool = False, again: bool = False) -> tuple[SessionMessages, ...]:
        """Return messages to capture: of ended sessions, with `again` of silent ones and refused, or all."""
        if all_of_them:
            return tuple(each for each in self if each.has_waiting)
        if not again:
            return tuple(each for each in self._leaving if not each.refusal)
        since = self.clock() - SILENT_S
        return tuple(each for each in self if each.has_waiting and (each.has_left or each.touched <= since))

    def release(self, messages: SessionMessages) -> None:
        """Drop the waiting messages of an ended session: capture has them, or must not get them."""
        if messages in self._leaving:
            del self._leaving[messages]
            self._drop_texts(messages)

    def of_roots(self, tops: Collection[str]) -> tuple[SessionMessages, ...]:
        """Return the messages of all sessions that see one of these roots."""
        return tuple(each for each in self if not set(tops).isdisjoint(each.place.tops))

    async def cut(self, unwanted: Sequence[Words]) -> None:
        """Remove sentences with an unwanted text from the messages of all sessions."""
        held = [message for each in self for message in each.messages]

        def left() -> dict[int, str]:
            cut = ((each, without_sentences(text_of(each), unwanted)) for each in held)
            return {id(each): text for each, (text, count) in cut if count}

        if changed := await asyncio.to_thread(left):
            for each in self:
                each.replace_texts(changed)

    def clear(self, top: str | None = None) -> None:
        """Drop waiting messages of ended sessions: of those that see this root or, without one, of all."""
        for each in list(self._leaving):
            if top is None or top in each.place.tops:
                self.release(each)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for `status` on messages that were refused, captured early, or lost."""
        refused = [each.refusal for each in self._leaving if each.refusal]
        lost = self.lost
        return (
            *([f"{len(refused)} sessions that are over wait for capture: {refused[-1]}"] if refused else ()),
            *([_EARLY.format(self.early)] if self.early else ()),
            *([_LOST.format(lost)] if lost else ()),
        )

    def _quietest(self, newest: SessionMessages) -> SessionMessages | None:
        """Return the longest unchanged messages but `newest`; those in a private span come last."""
        return next((each for held in self._current for each in held if each is not newest), None)

    def _remove_current(self, messages: SessionMessages) -> None:
        """Remove a session's messages from those of open sessions."""
        for held in self._current:
            held.pop(messages, None)

    def _drop_texts(self, messages: SessionMessages) -> None:
        """Drop a session's messages, and add its earlier losses to the total of lost ones."""
        self._lost += messages.lost
        messages.lost = 0
        messages.clear()
