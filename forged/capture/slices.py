"""Cut conversations into windows of whole messages, one for each event.

A message longer than a window is cut at the end of a paragraph, a line, a sentence or a word. Secrets are
removed before, so none is at a cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from forged.conversation import Utterance

# Most characters of a window.
WINDOW_LIMIT = 64_000
# Places to cut, best first; the cut is after the match.
_ENDS = tuple(
    re.compile(rf"(?s:.*){end}")
    for end in (r"\n\s*\n", r"\n", r"(?:[.!?\u2026](?=\s)|[\u3002\uff01\uff1f])", r"\s")
)


class TimedMessage(msgspec.Struct, frozen=True):
    """Message and the Unix time when it was first sent.

    `begun`: it continues the message before. `goes_on`: the next message continues it.
    """

    utterance: Utterance
    said_at: float
    begun: bool = False
    goes_on: bool = False


def slices(said: Iterable[TimedMessage]) -> Iterator[tuple[TimedMessage, ...]]:
    """Cut messages into windows and yield them in order; a cut message ends its window."""
    window: list[TimedMessage] = []
    room = WINDOW_LIMIT
    for message in said:
        for piece in _cut_to_windows(message):
            length = len(piece.utterance.text)
            if window and (length > room or piece.begun or window[-1].goes_on):
                yield tuple(window)
                window, room = [], WINDOW_LIMIT
            window.append(piece)
            room -= length
    if window:
        yield tuple(window)


def _cut_to_windows(message: TimedMessage) -> Iterator[TimedMessage]:
    """Yield the pieces of one message, each of which fits a window."""
    text, begun = message.utterance.text, message.begun
    while len(text) > WINDOW_LIMIT:
        end = _cut_index(text)
        if text[:end].strip():
            yield TimedMessage(
                Utterance(message.utterance.role, text[:end]), message.said_at, begun, goes_on=True
            )
            begun = True
        text = text[end:]
    if text.strip():
        yield TimedMessage(Utterance(message.utterance.role, text), message.said_at, begun, message.goes_on)


def _cut_index(text: str) -> int:
    """Return the index to cut at in a window's second half: after a paragraph, line, sentence or word."""
    for end in _ENDS:
        if found := end.match(text, WINDOW_LIMIT // 2, WINDOW_LIMIT):
            return found.end()
    return WINDOW_LIMIT
