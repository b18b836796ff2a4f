"""A conversation in slices that a classifier can take, each of whole messages, and nothing of it left out.

In go messages in their order, out come windows of at most WINDOW_LIMIT characters. A message that is longer
than that alone is cut where a paragraph, a line or a sentence ends, or a word where none does. Secrets are
cut out before, so that none can lie across a cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from forged.conversation import Utterance

# Characters.
WINDOW_LIMIT = 64_000

# Where to cut, best first; the cut is behind what matches.
_ENDS = tuple(
    re.compile(rf"(?s:.*){end}")
    for end in (r"\n\s*\n", r"\n", r"(?:[.!?\u2026](?=\s)|[\u3002\uff01\uff1f])", r"\s")
)


class Said(msgspec.Struct, frozen=True):
    """A message and when it was first heard, in Unix seconds.

    One that is `begun` is the rest of the message before it, one that `goes_on` is not its end.
    """

    utterance: Utterance
    heard_at: float
    begun: bool = False
    goes_on: bool = False


Slice = tuple[Said, ...]


def slices(said: Iterable[Said]) -> Iterator[Slice]:
    """The windows, in order; a piece that is begun is the first of its window, one that goes on the last."""
    window: list[Said] = []
    room = WINDOW_LIMIT
    for message in said:
        for piece in _pieces(message):
            length = len(piece.utterance.text)
            if window and (length > room or piece.begun or window[-1].goes_on):
                yield tuple(window)
                window, room = [], WINDOW_LIMIT
            window.append(piece)
            room -= length
    if window:
        yield tuple(window)


def _pieces(message: Said) -> Iterator[Said]:
    text, begun = message.utterance.text, message.begun
    while len(text) > WINDOW_LIMIT:
        end = _end(text)
        if text[:end].strip():
            yield Said(Utterance(message.utterance.role, text[:end]), message.heard_at, begun, goes_on=True)
            begun = True
        text = text[end:]
    if text.strip():
        yield Said(Utterance(message.utterance.role, text), message.heard_at, begun, message.goes_on)


def _end(text: str) -> int:
    """Where a piece ends that is no longer than a window and not much shorter."""
    for end in _ENDS:
        if found := end.match(text, WINDOW_LIMIT // 2, WINDOW_LIMIT):
            return found.end()
    return WINDOW_LIMIT
