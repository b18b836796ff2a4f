"""What a hook prints: what is for the model and what is for the person, in the form of a harness.

An event with neither is answered with no byte at all. Only the keys that all harnesses know are used, as one
of them refuses a whole answer for a key that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.hooks.events import HookEvent
from forged.text.harnesses import Hooks


def takes_context(event: HookEvent, row: Hooks) -> bool:
    """Whether the harness puts what is answered to this event into the conversation."""
    return event.name in row.context


def output(event: HookEvent, row: Hooks, injection: str, lines: Sequence[str]) -> bytes:
    """The answer to an event: the text that the model is to see, and `lines` for the person."""
    answer: dict[str, object] = {}
    if injection and takes_context(event, row):
        answer["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": injection}
    if lines and row.tells and takes_context(event, row):
        answer["systemMessage"] = "\n".join(lines)
    return msgspec.json.encode(answer) if answer else b""
