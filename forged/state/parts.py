"""Captures that come in numbered parts, until all parts are there, and which captures are done.

A part is on disk before it is answered, so a sender goes on after a kill where it was. When all parts are
there, they are taken out in the transaction that stores the events they come to, and the id is kept for a
day: what is sent again is known then, also to another daemon. What its sender gave up goes after a day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from forged.conversation import Utterance
from forged.state.cutting import CutCount
from forged.state.database import Change, Database
from forged.state.rows import Kept, Rows
from forged.text.forgetting import Words, without_sentences

KEPT_S = 24 * 3600


class Part(msgspec.Struct, frozen=True):
    """Messages as they may be kept, None for one of which nothing may be, and the digests of all of them.

    The first is the rest of a message if the part is `begun`, the last only the beginning if it `goes_on`.
    """

    window: tuple[Utterance | None, ...]
    digests: bytes
    begun: bool = False
    goes_on: bool = False

    @property
    def size(self) -> int:
        """Estimated bytes in memory and on disk."""
        said = (len(each.text.encode()) + 64 for each in self.window if each is not None)
        return 512 + sum(said) + len(self.digests)


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row: a part of a capture, or of how many slices a capture that is done consists."""

    part: Part | None = None
    slices: int = 0


class Parts(Rows[Slot]):
    """One for the daemon, by a capture's id and the number of a part, or a capture's id alone.

    `bytes` is what all parts take. `clock` gives Unix seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database,
            "parts",
            Slot,
            durable=True,
            keep_s=KEPT_S,
            weigh=lambda slot: slot.part.size if slot.part is not None else 0,
            clock=clock,
        )

    def _replace(self, rows: Mapping[str, Kept[Slot]]) -> None:
        self._numbers: dict[str, set[int]] = {}  # of the parts that are there
        super()._replace(rows)

    def _apply(self, rows: Mapping[str, Kept[Slot] | None], *, renew: bool = True) -> None:
        super()._apply(rows, renew=renew)
        for key, kept in rows.items():
            event_id, _, number = key.partition("/")
            there = self._numbers.get(event_id, set())
            if number:
                (there.discard if kept is None else there.add)(int(number))
            if there:
                self._numbers[event_id] = there
            else:
                self._numbers.pop(event_id, None)

    def done(self, event_id: str) -> int | None:
        """In how many slices a capture is judged, None if it is not known to be there whole."""
        found = self.get(event_id)
        return None if found is None else found.slices

    def of(self, event_id: str) -> dict[int, Part]:
        """The parts of a capture that are there, by their numbers."""
        found = (
            (number, self.get(f"{event_id}/{number}")) for number in sorted(self._numbers.get(event_id, ()))
        )
        return {number: slot.part for number, slot in found if slot is not None and slot.part is not None}

    async def put(self, event_id: str, number: int, part: Part) -> None:
        """Keep a part, which may be there already. Raises StoreError."""
        await self.store({f"{event_id}/{number}": Slot(part)}, renew=False)

    async def cut(self, unwanted: Sequence[Words]) -> CutCount:
        """Take sentences that hold an unwanted text out of all parts; what was done. Raises StoreError."""
        done, left = CutCount(), dict[str, Slot]()
        for key, slot in self.items():
            if slot.part is not None and (found := _without(slot.part, unwanted))[1]:
                done += CutCount(found[1], 1)
                left[key] = Slot(found[0])
        await self.store(left, renew=False)
        return done

    def finishing(self, event_id: str, slices: int) -> Change:
        """Return what takes a capture's parts out and notes that it is done; `finished` says so at once."""
        return self.change(self._finished(event_id, slices))

    def finished(self, event_id: str, slices: int) -> None:
        """A capture is done, and in memory no part of it is kept."""
        self.hold(self._finished(event_id, slices))

    def _finished(self, event_id: str, slices: int) -> dict[str, Slot | None]:
        parts = dict.fromkeys(f"{event_id}/{number}" for number in self.of(event_id))
        return parts | {event_id: Slot(slices=slices)}


def _without(part: Part, unwanted: Sequence[Words]) -> tuple[Part, int]:
    """A part without some sentences, and how many these were; its messages keep their places."""
    window: list[Utterance | None] = []
    sentences = 0
    for each in part.window:
        text, count = ("", 0) if each is None else without_sentences(each.text, unwanted)
        window.append(Utterance(each.role, text) if each is not None and text.strip() else None)
        sentences += count
    return msgspec.structs.replace(part, window=tuple(window)), sentences
