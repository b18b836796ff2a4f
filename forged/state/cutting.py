"""Taking the sentences of a forgotten text out of capture events, and out of what was decided about them.

What else was said in an event stays. Texts are given by their words (`forged.text.forgetting`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.conversation import Utterance
from forged.state.event_values import DecidedMemory, Decision, Event
from forged.text.forgetting import Words, without_sentences


class CutCount(msgspec.Struct, frozen=True):
    """How many sentences were taken out of how many events; those that were empty then are gone."""

    sentences: int = 0
    events: int = 0

    def __add__(self, other: CutCount) -> CutCount:
        return CutCount(self.sentences + other.sentences, self.events + other.events)


class CutEvent(msgspec.Struct, frozen=True):
    """What is left of an event and of what was decided about it, and how many sentences are not."""

    event: Event
    documents: Decision | None
    sentences: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to be asked about or to be written."""
        return not self.event.window and not self.documents

    @property
    def cut(self) -> CutCount:
        return CutCount(self.sentences, min(self.sentences, 1))


def cut(event: Event, documents: Decision | None, unwanted: Sequence[Words]) -> CutEvent:
    """An event and its documents without the sentences that hold an unwanted text."""
    found = [without_sentences(utterance.text, unwanted) for utterance in event.window]
    sentences = sum(count for _, count in found)
    if sentences:
        event = _with_texts(event, [text for text, _ in found])
    if documents is None:
        return CutEvent(event, None, sentences)
    kept = [(document, *without_sentences(document.memory.content, unwanted)) for document in documents]
    left = tuple(
        _with_text(document, text, count, unwanted) for document, text, count in kept if text.strip()
    )
    return CutEvent(event, left, sentences + sum(count for *_, count in kept))


def _with_texts(event: Event, texts: Sequence[str]) -> Event:
    """The event with these texts in its window; messages that are blank then are left out."""
    kept = [number for number, text in enumerate(texts) if text.strip()]
    return msgspec.structs.replace(
        event,
        window=tuple(Utterance(event.window[number].role, texts[number]) for number in kept),
        said_at=tuple(event.said_at[number] for number in kept) if event.said_at else (),
    )


def _with_text(document: DecidedMemory, text: str, count: int, unwanted: Sequence[Words]) -> DecidedMemory:
    pasted, pasted_count = without_sentences(document.pasted, unwanted)
    if not count and not pasted_count:
        return document
    memory = msgspec.structs.replace(document.memory, content=text.strip()) if count else document.memory
    return msgspec.structs.replace(document, memory=memory, pasted=pasted)
