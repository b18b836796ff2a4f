"""Names of requests and fields that changed since the recording, and steps that answer differently."""

from __future__ import annotations

from typing import Any

# Type of a request, then type of its reply, as they were recorded and as they are now.
TYPES: dict[str, str] = {}
# Fields of requests and replies, anywhere.
FIELDS: dict[str, str] = {}
# Fields of replies that are gone.
GONE: frozenset[str] = frozenset()
# Steps that may answer differently, by their number, with the reason.
CHANGED: dict[int, str] = {
    217: "all verbs list the same scopes where one is unknown",
    224: "all verbs list the same scopes where one is unknown",
    229: "a restored memory has the counts that it had when it went to the trash",
    383: "injections of a memory that was moved or restored are on record under its new place",
    384: "a memory that was moved or restored has the counts that it had",
}


def request(kind: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A request of the story as it is asked now."""
    if kind == "relate":
        kind = "edit"
        fields = {
            {"related": "relate", "remove": "unrelate"}.get(name, name): each for name, each in fields.items()
        }
    return TYPES.get(kind, kind), {FIELDS.get(name, name): value for name, value in fields.items()}


def reply(value: Any) -> Any:
    """A recorded reply under the names of now."""
    if isinstance(value, dict):
        kept = {FIELDS.get(name, name): reply(each) for name, each in value.items() if name not in GONE}
        return {**kept, "type": TYPES.get(kept["type"], kept["type"])} if "type" in kept else kept
    return [reply(each) for each in value] if isinstance(value, list) else value
