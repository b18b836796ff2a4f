"""Convert hook payloads of a harness to canonical events, and replies to its output format.

Ignored are events that the harness's row does not list, those of subagents, and prompts that no person sent.
A field of a wrong type counts as missing. An answer has only keys that all harnesses know, because one of
them refuses a whole answer for an unknown key. Raises PayloadError, which never quotes the payload.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from forged.errors import ForgedError
from forged.text.harnesses import EventKind, Hooks

_MOST_NAME, _MOST_PATH = 256, 4096


class PayloadError(ForgedError):
    """Raised for a hook payload that is invalid or has no session; the message never quotes it."""

    code = "invalid"


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Hook event of an agent's session: `name` is the harness's word for it, `kind` the canonical one.

    `source` is how a session started, who asked for a compaction, or why a session ended. `parent` is the
    session that it was forked from.
    """

    kind: EventKind
    name: str
    agent: str
    session_id: str
    turn_id: str = ""
    workspace: str = ""
    prompt: str = ""
    reply: str = ""
    source: str = ""
    transcript_path: str = ""
    version: str = ""
    parent: str = ""


def event_of(payload: bytes, row: Hooks) -> HookEvent | None:
    """Convert a hook payload by its harness's `row`; None for an ignored event. Raises PayloadError."""
    fields = _decode_payload(payload)
    name, source = (
        _text_field(fields, ("hook_event_name",), _MOST_NAME),
        _text_field(fields, row.source, _MOST_NAME),
    )
    kind = row.events.get(f"{name}:{source}") or row.events.get(name)
    if kind is None or _is_skipped(fields, row):
        return None
    session_id = _text_field(fields, row.session, _MOST_NAME)
    if not session_id:
        raise PayloadError(f"the payload of {name} names no session")
    return HookEvent(
        kind=kind,
        name=name,
        agent=row.called,
        session_id=session_id,
        turn_id=_text_field(fields, row.turn, _MOST_NAME),
        workspace=_text_field(fields, row.workspace, _MOST_PATH),
        prompt=_text_field(fields, row.prompt),
        reply=_text_field(fields, row.reply),
        source=source,
        transcript_path=_text_field(fields, ("transcript_path",), _MOST_PATH),
        version=_text_field(fields, row.version, _MOST_NAME),
        parent=_text_field(fields, row.parent, _MOST_NAME),
    )


def takes_context(event: HookEvent, row: Hooks) -> bool:
    """Return True if the harness puts the hook's answer to this event into the conversation."""
    return event.name in row.context


def output(event: HookEvent, row: Hooks, injection: str, lines: Sequence[str]) -> bytes:
    """Return the JSON answer to a hook event: `injection` for the model, `lines` for the person; or b""."""
    answer: dict[str, object] = {}
    if injection and takes_context(event, row):
        answer["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": injection}
    if lines and row.tells and takes_context(event, row):
        answer["systemMessage"] = "\n".join(lines)
    return msgspec.json.encode(answer) if answer else b""


def _decode_payload(payload: bytes) -> dict[str, object]:
    """Return the fields of a JSON payload, lone surrogates replaced. Raises PayloadError."""
    try:
        try:
            found = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):  # a lone surrogate, which JavaScript can send
            loose = json.dumps(json.loads(payload.decode(errors="replace")), ensure_ascii=False)
            found = msgspec.json.decode(loose.encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise PayloadError("the payload is no JSON") from error
    if not isinstance(found, dict):
        raise PayloadError("the payload is no JSON object")
    return found


def _is_skipped(fields: dict[str, object], row: Hooks) -> bool:
    """Return True if a field says that the event is one that the harness's row leaves out."""
    return any(
        fields[name] in values if values else bool(fields[name])
        for name, values in row.skipped.items()
        if name in fields
    )


def _text_field(fields: dict[str, object], names: tuple[str, ...], most: int | None = None) -> str:
    """Return the first of these fields that is set, of a list its first text; "" if over `most` long."""
    for name in names:
        value = fields.get(name)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str) and first:
            return first if most is None or len(first) <= most else ""
    return ""
