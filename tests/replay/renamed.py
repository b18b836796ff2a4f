"""Names of requests and fields that changed since the recording, and steps that answer differently."""

from __future__ import annotations

from typing import Any

# Type of a request, then type of its reply, as they were recorded and as they are now.
TYPES: dict[str, str] = {}
# Fields of requests and replies, anywhere.
FIELDS: dict[str, str] = {}
# Fields of replies that are gone.
GONE: frozenset[str] = frozenset()
# Fields of a recalled memory that it has since it is a record.
NOT_RECALLED = frozenset({"category", "version", "stale"})
# Steps that may answer differently, by their number, with the reason.
CHANGED: dict[int, str] = {
    217: "all verbs list the same scopes where one is unknown",
    224: "all verbs list the same scopes where one is unknown",
    229: "a restored memory has the counts that it had when it went to the trash",
    383: "injections of a memory that was moved or restored are on record under its new place",
    384: "a memory that was moved or restored has the counts that it had",
}


# Fields of a memory's record, with the values at which the wire leaves them out now.
LEFT_OUT: dict[str, Any] = {
    "supersedes": None,
    "related": [],
    "is_head": True,
    "origin": "",
    "redacted": [],
    "rivals": [],
    "cues": [],
    "evidence": [],
    "stale": [],
    "memory_type": "",
    "importance": 1.0,
    "metadata": {},
    "agent_id": "",
    "access_count": 0,
    "last_accessed": "",
    "entities": [],
    "relations": [],
    "user_id": "",
    "expires_at": "",
    "source": "",
    "session_id": "",
    "document_id": "",
    "chunk_index": -1,
    "root": "",
}
# The same of what a question found: these fields of a hit or a recalled memory are in `found` now.
FOUND: dict[str, Any] = {
    "score": None,
    "cosine": None,
    "distance": None,
    "lexical": None,
    "via": "search",
    "came": "",
    "path": "",
    "older": [],
    "rivals": [],
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
    if isinstance(value, dict) and {"id", "content", "score"} <= value.keys():
        found = {name: value[name] for name in FOUND if value.get(name, FOUND[name]) != FOUND[name]}
        value = {name: each for name, each in value.items() if name not in FOUND} | {"found": found}
    if isinstance(value, dict) and ({"id", "trigger", "is_head"} <= value.keys() or "found" in value):
        value = {name: each for name, each in value.items() if LEFT_OUT.get(name, ...) != each}
    if isinstance(value, dict):
        kept = {FIELDS.get(name, name): reply(each) for name, each in value.items() if name not in GONE}
        return {**kept, "type": TYPES.get(kept["type"], kept["type"])} if "type" in kept else kept
    return [reply(each) for each in value] if isinstance(value, list) else value


def fresh(value: Any) -> Any:
    """A reply of now without fields that were not in the recording: a recalled memory had fewer."""
    if isinstance(value, dict) and value.get("type") == "recalled":
        memories = [{name: each[name] for name in each.keys() - NOT_RECALLED} for each in value["memories"]]
        for each in memories:
            each["found"].pop("via", None)
        return {**value, "memories": memories}
    return value
