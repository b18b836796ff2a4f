"""What is judged as one, and kept as one: a short message, or a sentence and the neighbours that it needs.

In go the statements of a window, out come units in their order, of which the worker asks the vectors; of a
long message no more than its first and last sentences. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from forged.capture.statements import Statement

# Characters: of a message that is kept whole, of a sentence with its neighbour, and of the message that says
# what a sentence stands in.
SHORT, LONG, AROUND = 160, 250, 1_000
_MOST = 12


class Unit(msgspec.Struct, frozen=True):
    """`text` is what would be kept, `sentences` what is judged, `around` the message that it stands in."""

    text: str
    sentences: tuple[Statement, ...]
    around: str

    @property
    def message(self) -> int:
        return self.sentences[0].message

    def texts(self) -> tuple[str, ...]:
        """All whose vectors are needed."""
        return (self.around, *(each.text for each in self.sentences))


def units(said: Sequence[Statement]) -> tuple[Unit, ...]:
    """Return the units of all messages."""
    messages = groupby(said, key=attrgetter("message"))
    return tuple(unit for _, each in messages for unit in _of_message(tuple(each)))


def _of_message(said: tuple[Statement, ...]) -> Iterator[Unit]:
    message = said[0].around
    around = message.strip()[:AROUND]
    if len(message) <= SHORT and "\n" not in message.strip():
        yield Unit(_together(said), said, around)
        return
    for each in said if len(said) <= _MOST else (*said[: _MOST // 2], *said[-_MOST // 2 :]):
        yield Unit(each.whole if len(each.whole) <= LONG else each.text, (each,), around)


def _together(said: Sequence[Statement]) -> str:
    """All sentences but a mere request to keep them, behind what the first one agrees to."""
    agreed = said[0].whole.partition(said[0].text)[0]
    told = [each.text for each in said if not each.asks_alone]
    return agreed + " ".join(told or ([] if agreed else [said[0].text]))
