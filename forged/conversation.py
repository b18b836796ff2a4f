"""The part of a conversation that counts: the window of user and assistant text since the last summary.

`Utterance.role` can only be user or assistant, so tool content has no place to hide (ADR-0047).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

# Characters. About 4,000 tokens: enough for the recent arc, small enough for a flash model in 2 s.
WINDOW_LIMIT = 16_000
_LONGEST_WORD = 4_096
_BLANK = re.compile(r"\s")

Speaker = Literal["user", "assistant"]


class Utterance(msgspec.Struct, frozen=True):
    """One message reduced to who said what; `text` is never blank."""

    role: Speaker
    text: str


def window(utterances: Sequence[Utterance], limit: int = WINDOW_LIMIT) -> tuple[Utterance, ...]:
    """Return the newest whole messages of at most `limit` characters, at least the end of the newest."""
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
    """`role: text` blocks, the form in which both prompts hold a conversation."""
    return "\n---\n".join(f"{utterance.role}: {utterance.text}" for utterance in utterances)


def last_user_text(utterances: Sequence[Utterance]) -> str:
    """Text of the newest user message, of a very long one the end; or nothing."""
    return _end(next((u.text for u in reversed(utterances) if u.role == "user"), ""), WINDOW_LIMIT)


def _end(text: str, limit: int) -> str:
    """At most so many characters of a text's end, from a whole word on: half of a secret looks like none."""
    end = text[-limit:]
    if len(text) <= limit or text[-limit - 1].isspace():
        return end
    blank = _BLANK.search(end, 0, _LONGEST_WORD)
    whole = end[blank.end() :] if blank else end
    return whole if whole.strip() else end
