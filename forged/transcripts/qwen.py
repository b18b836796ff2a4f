"""Transcripts of Qwen Code: `projects/FOLDER/chats/SESSION.jsonl`, one record a line.

Messages have parts like Gemini's. A system record with the subtype `chat_compression` is a summary. Tool
results have a type of their own, and side conversations are marked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.conversation import Speaker
from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import speaker, text_of
from forged_client.typed import resolved

_SPEAKERS: dict[object, Speaker] = {"user": "user", "assistant": "assistant"}


class _QwenMessage(msgspec.Struct):
    """Parts of the message in a transcript line of Qwen Code."""

    parts: object = None


class _QwenLine(msgspec.Struct, rename="camel"):
    """Line of a transcript of Qwen Code: its kind, message, time and session."""

    type: object = ""
    subtype: object = ""
    timestamp: object = ""
    session_id: object = ""
    cwd: object = ""
    version: object = ""
    is_sidechain: bool = False
    message: _QwenMessage = msgspec.field(default_factory=_QwenMessage)


_decode = msgspec.json.Decoder(resolved(_QwenLine)).decode


def read(lines: Iterable[bytes]) -> SessionDraft:
    """Read a Qwen Code transcript into a draft of its session, with messages before a summary marked."""
    draft = SessionDraft()
    for line in draft.decoded(lines, _decode):
        at = seconds(line.timestamp)
        draft.set_once(line.session_id, line.cwd, line.version, at)
        if line.subtype == "chat_compression":
            draft.mark_summarised()
        role = speaker(_SPEAKERS, line.type)
        if role is not None and not line.is_sidechain:
            draft.messages.append(TranscriptMessage(role, text_of(line.message.parts), at))
    return draft
