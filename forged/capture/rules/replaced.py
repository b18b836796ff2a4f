"""What a statement does away with, and which earlier line said so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forged.capture.rules.patterns import patterns

# Words that something is in use, right before its name.
_AFFIRMS = (
    r"(?:\b(?:use[sd]?|using|prefers?|preferred|is|are|with|via|in|on|chose|to|by|through)|用|使用|喜欢|是)"
    r"\s*(?:the |a |an |only )?"
)


def replaced(content: str, lines: Sequence[str]) -> int | None:
    """Return the index of the only line that says what `content` does away with.

    None when there is no such line, or a choice of them: a link that is missing does little harm, and a wrong
    one hides a memory that still holds.
    """
    found = {index for old in given_up(content) for index, line in enumerate(lines) if _affirms(line, old)}
    return found.pop() if len(found) == 1 else None


def given_up(content: str) -> list[str]:
    """What a statement says is used no more, as it names it."""
    matches = (form.pattern.search(content) for form in patterns().replacements)
    return [match["old"].strip("`") for match in matches if match is not None]


def _affirms(line: str, old: str) -> bool:
    """Whether a line says that `old` is in use, and nothing against anything."""
    named = rf"(?<![\w-])`?{re.escape(old)}`?(?![\w-])"
    return not patterns().denies.search(line) and re.search(_AFFIRMS + named, line, re.IGNORECASE) is not None
