"""Window of user and assistant text that retrieval and capture use.

`Utterance.role` can only be user or assistant, so that tool content cannot be represented (ADR-0047).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

# Characters, about 4,000 tokens: enough context, and a small model reads them within 2 s.
WINDOW_LIMIT = 16_000
_LONGEST_WORD = 4_096
_BLANK = re.compile(r"\s")

Speaker = Literal["user", "assistant"]


class Utterance(msgspec.Struct, frozen=True):
    """One message of a conversation: role user or assistant, and a text that must not be blank."""

    role: Speaker
    text: str


def window(utterances: Sequence[Utterance], limit: int = WINDOW_LIMIT) -> tuple[Utterance, ...]:
    """Return the newest whole messages of at most `limit` characters; at least the end of the newest."""
    count, room = 0, limit
    for utterance in reversed(utterances):
        room -= len(utterance.text)
        if room < 0:
            break
        count += 1
    if not count:
        return tuple(Utterance(newest.role, _end(newest.text, limit)) for newest in utterances[-1:])
    return tuple(utterances[-count:])


def as_text(utterances: Sequence[Utterance]) -> str:
    """Return a conversation as blocks `role: text`, the form in which all prompts contain it."""
    return "\n---\n".join(f"{utterance.role}: {utterance.text}" for utterance in utterances)


def last_user_text(utterances: Sequence[Utterance]) -> str:
    """Return the newest user message (the end of a very long one), or ""."""
    return _end(next((u.text for u in reversed(utterances) if u.role == "user"), ""), WINDOW_LIMIT)


def _end(text: str, limit: int) -> str:
    """Return at most the last `limit` characters of a text, from a whole word on: no half of a secret."""
    end = text[-limit:]
    if len(text) <= limit or text[-limit - 1].isspace():
        return end
    blank = _BLANK.search(end, 0, _LONGEST_WORD)
    whole = end[blank.end() :] if blank else end
    return whole if whole.strip() else end
