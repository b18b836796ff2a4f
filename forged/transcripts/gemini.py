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

_SPEAKERS: dict[object, Speaker] = {"user": "user", "gemini": "assistant"}
_SUMMARY = "<state_snapshot>"


class _Record(msgspec.Struct):
    """Message of the file."""

    id: object = ""
    type: object = ""
    timestamp: object = ""
    content: object = ""


class _Changes(msgspec.Struct):
    """Changes to a history."""

    messages: list[_Record] = []


class _Line(msgspec.Struct):
    """Line of the file."""

    id: object = ""
    type: object = ""
    timestamp: object = ""
    content: object = ""
    session_id: object = msgspec.field(default="", name="sessionId")
    start_time: object = msgspec.field(default="", name="startTime")
    kind: object = "main"
    messages: list[_Record] = []
    changes: _Changes = msgspec.field(default_factory=_Changes, name="$set")
    rewind: object = msgspec.field(default=None, name="$rewindTo")


_decode = msgspec.json.Decoder(_Line).decode


def read(lines: Iterable[bytes]) -> SessionDraft:
    """Return the session of these lines."""
    draft, messages = SessionDraft(), dict[str, TranscriptMessage]()
    for line in draft.decoded(lines, _decode):
        if line.session_id:
            draft.about(line.session_id, "", "", seconds(line.start_time))
            draft.is_other = draft.is_other or line.kind != "main"
        history = [*line.messages, *line.changes.messages]
        if _is_summary(history):
            for each in messages.values():
                each.is_new = False
        for record in (*history, _Record(line.id, line.type, line.timestamp, line.content)):
            _put(messages, record)
        if isinstance(line.rewind, str):
            _take_back(messages, line.rewind)
    draft.messages = list(messages.values())
    return draft


def _is_summary(history: Sequence[_Record]) -> bool:
    """Return True for a history that begins with a snapshot."""
    return any(text_of(each.content).lstrip().startswith(_SUMMARY) for each in history)


def _put(messages: dict[str, TranscriptMessage], record: _Record) -> None:
    """Add a message or replace it."""
    role, text = speaker(_SPEAKERS, record.type), text_of(record.content)
    if role is None or not isinstance(record.id, str) or not text.strip():
        return
    if (known := messages.get(record.id)) is not None:
        known.text = text
    else:
        messages[record.id] = TranscriptMessage(role, text, seconds(record.timestamp))


def _take_back(messages: dict[str, TranscriptMessage], since: str) -> None:
    """Remove messages from an id on."""
    ids = list(messages)
    for gone in ids[ids.index(since) if since in messages else 0 :]:
        del messages[gone]
