"""Remove think blocks, `<think>...</think>`, which reasoning models put before an answer."""

from __future__ import annotations

import re

_END = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
_BEGINNING = re.compile(r"\s*<(?:think|thinking|thought)>", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Return the text after its last think block (all without one); "" if a block is open."""
    ends = [match.end() for match in _END.finditer(text)]
    answer = text[ends[-1] :] if ends else text
    return "" if _BEGINNING.match(answer) else answer.strip()


def shows_the_end_of_a_thought(text: str) -> bool:
    """Return True if a think block ends in a text, wherever it began."""
    return bool(_END.search(text))


def begins_in_a_thought(text: str) -> bool:
    """Return True if a think block ends in a text that does not begin with its opening tag."""
    return shows_the_end_of_a_thought(text) and not _BEGINNING.match(text)
