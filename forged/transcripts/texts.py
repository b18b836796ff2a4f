"""The text of a message in the forms that harnesses write: a string, or parts of which some are text."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from forged.conversation import Speaker

# What a decoder says of a line: no JSON, or of another form; half a character; nested without end.
NO_LINE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# A part with text that is none of these was not said: a result, a thought, a call. Gemini's have no type.
_TEXT_TYPES = ("text", "input_text", "output_text", None)
_NOT_SAID = ("thought", "synthetic", "ignored", "functionCall", "functionResponse")


def text_of(content: object) -> str:
    """What of it is text, one part after the other; nothing of what has another form."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := part_text(part)))


def part_text(part: object) -> str:
    """The text of one part, or nothing."""
    if not isinstance(part, dict) or part.get("type") not in _TEXT_TYPES or any(map(part.get, _NOT_SAID)):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def speaker(speakers: Mapping[object, Speaker], word: object) -> Speaker | None:
    """Who speaks where a harness writes this word, whatever stands in its place."""
    return speakers.get(word) if isinstance(word, str) else None
