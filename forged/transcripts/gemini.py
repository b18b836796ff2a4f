"""Gemini CLI: `tmp/PROJECT/chats/session-*.jsonl`, messages by id and changes to them.

A message is written anew as it grows, `$set` puts a whole history in its place, and `$rewindTo` takes back
what follows; here a message counts where it stood first, in its newest words, unless it was taken back. A
history that begins with a snapshot of the state is a summary. The workspace stands in a file beside the
folder of chats, and no file says which version wrote it.
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
    id: object = ""
    type: object = ""
    timestamp: object = ""
    content: object = ""


class _Changes(msgspec.Struct):
    messages: list[_Record] = []


class _Line(msgspec.Struct):
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
    """What the lines tell of their session."""
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
    return any(text_of(each.content).lstrip().startswith(_SUMMARY) for each in history)


def _put(messages: dict[str, TranscriptMessage], record: _Record) -> None:
    role, text = speaker(_SPEAKERS, record.type), text_of(record.content)
    if role is None or not isinstance(record.id, str) or not text.strip():
        return
    if (known := messages.get(record.id)) is not None:
        known.text = text
    else:
        messages[record.id] = TranscriptMessage(role, text, seconds(record.timestamp))


def _take_back(messages: dict[str, TranscriptMessage], since: str) -> None:
    ids = list(messages)
    for gone in ids[ids.index(since) if since in messages else 0 :]:
        del messages[gone]
