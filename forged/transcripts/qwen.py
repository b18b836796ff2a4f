"""Qwen Code: `projects/FOLDER/chats/SESSION.jsonl`, one record a line, in Gemini's form of parts.

A record of the system with the subtype `chat_compression` is a summary. Results of tools have a type of their
own, and side conversations are marked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.conversation import Speaker
from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import speaker, text_of

_SPEAKERS: dict[object, Speaker] = {"user": "user", "assistant": "assistant"}


class _Message(msgspec.Struct):
    parts: object = None


class _Line(msgspec.Struct, rename="camel"):
    type: object = ""
    subtype: object = ""
    timestamp: object = ""
    session_id: object = ""
    cwd: object = ""
    version: object = ""
    is_sidechain: bool = False
    message: _Message = msgspec.field(default_factory=_Message)


_decode = msgspec.json.Decoder(_Line).decode


def read(lines: Iterable[bytes]) -> SessionDraft:
    """What the lines tell of their session."""
    draft = SessionDraft()
    for line in draft.decoded(lines, _decode):
        at = seconds(line.timestamp)
        draft.about(line.session_id, line.cwd, line.version, at)
        if line.subtype == "chat_compression":
            draft.summarised()
        role = speaker(_SPEAKERS, line.type)
        if role is not None and not line.is_sidechain:
            draft.messages.append(TranscriptMessage(role, text_of(line.message.parts), at))
    return draft
