"""Transcripts of Gemini CLI: `tmp/PROJECT/chats/session-*.jsonl`, messages by id and changes.

A message is written again as it grows, `$set` replaces the history, and `$rewindTo` removes what follows. A
message counts at its first place with its newest text, unless it was removed. A history that begins with a
state snapshot is a summary. The workspace is in a file next to the chats, and no file names the version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from forged.conversation import Speaker
from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import speaker, text_of
from forged_client.typed import resolved

_SPEAKERS: dict[object, Speaker] = {"user": "user", "gemini": "assistant"}
_SUMMARY = "<state_snapshot>"


class _GeminiMessage(msgspec.Struct):
    """Id, type, time and content of a message in a transcript of Gemini CLI."""

    id: object = ""
    type: object = ""
    timestamp: object = ""
    content: object = ""


class _GeminiChanges(msgspec.Struct):
    """Messages that a line of Gemini CLI puts in place of the session's history so far."""

    messages: list[_GeminiMessage] = []


class _GeminiLine(msgspec.Struct):
    """Line of a transcript of Gemini CLI: a message, a history, or a change to it."""

    id: object = ""
    type: object = ""
    timestamp: object = ""
    content: object = ""
    session_id: object = msgspec.field(default="", name="sessionId")
    start_time: object = msgspec.field(default="", name="startTime")
    kind: object = "main"
    messages: list[_GeminiMessage] = []
    changes: _GeminiChanges = msgspec.field(default_factory=_GeminiChanges, name="$set")
    rewind: object = msgspec.field(default=None, name="$rewindTo")


_decode = msgspec.json.Decoder(resolved(_GeminiLine)).decode


def read(lines: Iterable[bytes]) -> SessionDraft:
    """Read a Gemini CLI transcript into a draft, with replaced texts and removals applied."""
    draft, messages = SessionDraft(), dict[str, TranscriptMessage]()
    for line in draft.decoded(lines, _decode):
        if line.session_id:
            draft.set_once(line.session_id, "", "", seconds(line.start_time))
            draft.is_other = draft.is_other or line.kind != "main"
        history = [*line.messages, *line.changes.messages]
        if _is_summary(history):
            for each in messages.values():
                each.is_new = False
        for record in (*history, _GeminiMessage(line.id, line.type, line.timestamp, line.content)):
            _put_message(messages, record)
        if isinstance(line.rewind, str):
            _delete_from(messages, line.rewind)
    draft.messages = list(messages.values())
    return draft


def _is_summary(history: Sequence[_GeminiMessage]) -> bool:
    """Return True if a message of a history begins with a state snapshot, which is Gemini's summary."""
    return any(text_of(each.content).lstrip().startswith(_SUMMARY) for each in history)


def _put_message(messages: dict[str, TranscriptMessage], record: _GeminiMessage) -> None:
    """Add a message of the person or the model, or replace the text of the one with its id."""
    role, text = speaker(_SPEAKERS, record.type), text_of(record.content)
    if role is None or not isinstance(record.id, str) or not text.strip():
        return
    if (known := messages.get(record.id)) is not None:
        known.text = text
    else:
        messages[record.id] = TranscriptMessage(role, text, seconds(record.timestamp))


def _delete_from(messages: dict[str, TranscriptMessage], since: str) -> None:
    """Delete the messages from an id on; all of them if the id is unknown."""
    ids = list(messages)
    for gone in ids[ids.index(since) if since in messages else 0 :]:
        del messages[gone]
