"""Remove the sentences of a forgotten text from capture events and from pending decisions.

The rest of an event is kept. Forgotten texts are given by their words (`forged.text.forgetting`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.conversation import Utterance
from forged.state.event_values import DecidedMemory, Decision, Event
from forged.text.forgetting import Words, without_sentences


class CutCount(msgspec.Struct, frozen=True):
    """Number of sentences removed for a forgotten text, and of the events, parts or proposals with them."""

    sentences: int = 0
    events: int = 0

    def __add__(self, other: CutCount) -> CutCount:
        return CutCount(self.sentences + other.sentences, self.events + other.events)


class CutEvent(msgspec.Struct, frozen=True):
    """Capture event and its decided memories as a cut left them, and the number of removed sentences."""

    event: Event
    documents: Decision | None
    sentences: int

    @property
    def is_empty(self) -> bool:
        """Return True if neither text of the event nor decided memories are left after the cut."""
        return not self.event.window and not self.documents

    @property
    def cut(self) -> CutCount:
        """Return the count of this cut: its removed sentences, and one event if there are any."""
        return CutCount(self.sentences, min(self.sentences, 1))


def cut(event: Event, documents: Decision | None, unwanted: Sequence[Words]) -> CutEvent:
    """Return an event and its decided memories without the sentences that contain a forgotten text."""
    found = [without_sentences(utterance.text, unwanted) for utterance in event.window]
    asked, count = without_sentences(event.asked, unwanted)
    sentences = count + sum(count for _, count in found)
    if sentences:
        event = msgspec.structs.replace(_with_texts(event, [text for text, _ in found]), asked=asked)
    if documents is None:
        return CutEvent(event, None, sentences)
    kept = [(document, *without_sentences(document.memory.content, unwanted)) for document in documents]
    left = tuple(
        _cut_memory(document, text, count, unwanted) for document, text, count in kept if text.strip()
    )
    return CutEvent(event, left, sentences + sum(count for *_, count in kept))


def _with_texts(event: Event, texts: Sequence[str]) -> Event:
    """Return the event with these texts in its window, without blank messages."""
    kept = [number for number, text in enumerate(texts) if text.strip()]
    return msgspec.structs.replace(
        event,
        window=tuple(Utterance(event.window[number].role, texts[number]) for number in kept),
        said_at=tuple(event.said_at[number] for number in kept) if event.said_at else (),
    )


def _cut_memory(document: DecidedMemory, text: str, count: int, unwanted: Sequence[Words]) -> DecidedMemory:
    """Return a decided memory with `text` as content, and its pasted text without forgotten sentences."""
    pasted, pasted_count = without_sentences(document.pasted, unwanted)
    if not count and not pasted_count:
        return document
    memory = msgspec.structs.replace(document.memory, content=text.strip()) if count else document.memory
    return msgspec.structs.replace(document, memory=memory, pasted=pasted)
