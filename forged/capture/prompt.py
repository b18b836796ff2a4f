"""What the classifier model is told: when something is worth remembering, and the conversation to judge.

The words and their reasons stand in forged/text/prompts/classifier*.md, the form of the answer here. The
conversation is data between two marks that its own text cannot know. The mark depends on the first message
only, so that a growing window keeps the beginning that providers cache.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from forged import conversation
from forged.capture.authorship import marked, pieces_of
from forged.capture.values import KnownMemory
from forged.conversation import Utterance
from forged.memory import Category, Relationship, Scope
from forged.text import prompts

# Characters of one listed memory, and bytes of the whole list: with instructions and schema 1,500 tokens.
_LINE_LIMIT = 120
_LIST_LIMIT = 1_430
_LABEL_LIMIT = 40
# A line that reads as if somebody else began to speak: marked like a paste, it passes for nobody's word.
_SPEAKER = re.compile(r"^(?=[ \t]*(?:user|assistant|system)[ \t]*:)", re.IGNORECASE | re.MULTILINE)

SYSTEM = prompts.text("classifier")
_ASK = prompts.template("classifier.ask")

_EDGE: dict[str, object] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "relationship": {"type": "string", "enum": list(Relationship)},
    },
    "required": ["id", "relationship"],
    "additionalProperties": False,
}
_STRINGS: dict[str, object] = {"type": "array", "items": {"type": "string"}}
_MEMORY: dict[str, object] = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "scope": {"type": "string", "enum": [Scope.REPO, Scope.USER, Scope.AGENT]},
        "category": {"type": "string", "enum": list(Category)},
        "supersedes": {"type": "string"},
        "related": {"type": "array", "items": _EDGE},
        "cues": _STRINGS,
        "evidence": _STRINGS,
        "entities": _STRINGS,
        "relations": _STRINGS,
        "importance": {"type": "number"},
    },
    "required": [
        *("content", "scope", "category", "supersedes", "related"),
        *("cues", "evidence", "entities", "relations", "importance"),
    ],
    "additionalProperties": False,
}
# Strict modes want an object at the root and every property required; not every server knows nullable types.
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"memories": {"type": "array", "items": _MEMORY}},
    "required": ["memories"],
    "additionalProperties": False,
}


def user_prompt(
    window: Sequence[Utterance], known: Sequence[KnownMemory], *, begun: bool = False, goes_on: bool = False
) -> str:
    """Return the window between its marks, then the existing memories if there are any.

    `window` is not empty; its first message may be the rest of one that is `begun`, its last the beginning
    of one that `goes_on`. `known` come nearest first, and the list ends where it would grow too long.
    """
    mark = f"======== {hashlib.sha256(window[0].text.encode('utf-8', 'replace')).hexdigest()[:12]} ========"
    shown = [each.text for each in window]
    for place, pieces in pieces_of(window, begun=begun, goes_on=goes_on):
        shown[place] = marked(window[place].text, pieces)
    said = conversation.as_text(
        [Utterance(each.role, _SPEAKER.sub("> ", text)) for each, text in zip(window, shown, strict=True)]
    )
    existing = f"EXISTING MEMORIES\n{_listed(known)}\n\n" if known else ""
    return _ASK.substitute(mark=mark, said=said, existing=existing)


def _listed(known: Sequence[KnownMemory]) -> str:
    lines: list[str] = []
    room = _LIST_LIMIT
    for head in known:
        line = _line(head)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _line(head: KnownMemory) -> str:
    label = f"{_plain(head.scope, _LABEL_LIMIT)}/{_plain(head.category, _LABEL_LIMIT)}"
    return f"- [{_plain(head.id, _LINE_LIMIT)}] ({label}) {_plain(head.first_line, _LINE_LIMIT)}"


def _plain(text: str, limit: int) -> str:
    """Cut a text to one line without control characters: memory files may hold anything."""
    return "".join(c if c.isprintable() else " " for c in text[:limit]).strip()
