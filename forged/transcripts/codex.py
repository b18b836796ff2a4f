"""Transcripts of Codex: `sessions/YEAR/MONTH/DAY/rollout-*.jsonl`, lines of a type with a payload.

Response items of the user or the assistant are the messages; event messages repeat them. Metadata, or tags in
older versions, mark text that the harness put in as the user's. A `compacted` line is a summary: later lines
came after it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.conversation import Speaker
from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import part_text, text_of
from forged_client.typed import resolved


class _CodexPayload(msgspec.Struct):
    """Payload of a transcript line of Codex: a session's data or a message."""

    type: object = ""
    role: object = ""
    content: object = None
    id: object = ""
    cwd: object = ""
    cli_version: object = ""
    timestamp: object = ""
    source: object = ""
    thread_source: object = "user"
    internal_chat_message_metadata_passthrough: object = None


class _CodexLine(msgspec.Struct):
    """Line of a transcript of Codex: its type, time and payload."""

    type: str = ""
    timestamp: object = ""
    payload: _CodexPayload = msgspec.field(default_factory=_CodexPayload)


_decode = msgspec.json.Decoder(resolved(_CodexLine)).decode


def read(lines: Iterable[bytes]) -> SessionDraft:
    """Read a Codex transcript into a draft of its session, with messages before a summary marked."""
    draft = SessionDraft()
    for line in draft.decoded(lines, _decode):
        said = line.payload
        if line.type == "session_meta" and not draft.session_id:
            draft.set_once(said.id, said.cwd, said.cli_version, seconds(said.timestamp))
            draft.headless = said.source == "exec"
            # A thread that an agent began has its own source.
            draft.is_other = isinstance(said.source, dict) or said.thread_source not in ("user", None)
        elif line.type == "compacted":
            draft.mark_summarised()
        elif line.type == "response_item" and said.type == "message" and said.role in ("user", "assistant"):
            role: Speaker = "user" if said.role == "user" else "assistant"
            draft.messages.append(
                TranscriptMessage(role, _text_without_harness(said), seconds(line.timestamp))
            )
    return draft


def _text_without_harness(said: _CodexPayload) -> str:
    """Return a message's text, without parts that the harness put into the person's message."""
    origins = _part_authors(said.internal_chat_message_metadata_passthrough)
    if said.role != "user" or not isinstance(said.content, list) or len(origins) != len(said.content):
        return text_of(said.content)
    typed = (part for part, origin in zip(said.content, origins, strict=True) if origin in ("user", ""))
    return "\n".join(filter(None, map(part_text, typed)))


def _part_authors(metadata: object) -> list[object]:
    """Return the author of each part of a message, by its metadata; [] without metadata."""
    items = metadata.get("content_item_metadata") if isinstance(metadata, dict) else None
    return [_part_author(item) for item in items] if isinstance(items, list) else []


def _part_author(item: object) -> object:
    """Return the author of a part, by its metadata; "" if unknown."""
    provenance = item.get("provenance") if isinstance(item, dict) else None
    return provenance.get("type", "") if isinstance(provenance, dict) else ""
