"""Text of a message in harness formats: a string, or parts of which some are text."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from forged.conversation import Speaker

# Errors of a decoder for invalid JSON, another form, half a character, or endless nesting.
NO_LINE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# Types of parts that were said; others are results, thoughts and calls. Gemini's parts have none.
_TEXT_TYPES = ("text", "input_text", "output_text", None)
_NOT_SAID = ("thought", "synthetic", "ignored", "functionCall", "functionResponse")


def text_of(content: object) -> str:
    """Return the text of a message's content, a string or parts; other content is left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := part_text(part)))


def part_text(part: object) -> str:
    """Return the text of a message's part, or "" for a thought, a tool's content or other data."""
    if not isinstance(part, dict) or part.get("type") not in _TEXT_TYPES or any(map(part.get, _NOT_SAID)):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def speaker(speakers: Mapping[object, Speaker], word: object) -> Speaker | None:
    """Look up which speaker a harness's word for a role means; None for any other value."""
    return speakers.get(word) if isinstance(word, str) else None
