"""Transcripts of OpenCode: a SQLite file with sessions, messages and parts.

It is opened read-only. Changes in OpenCode's journal are read as well; without a journal the file is read as
it is, and nothing is written next to it. A session with a parent is an agent's own. A reply may be marked as
a summary, and the parts of a compaction are no prose.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

import msgspec

from forged.conversation import Speaker
from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import NO_LINE, part_text, speaker
from forged_client.typed import resolved

_SPEAKERS: dict[object, Speaker] = {"user": "user", "assistant": "assistant"}
_BUSY_S = 1.0
_SESSIONS = "select id, time_updated from session where parent_id is null and time_updated >= ?"
_SESSION = "select directory, version, time_created, parent_id from session where id = ?"
_MESSAGES = "select id, data, time_created from message where session_id = ? order by time_created, id"
_PARTS = """
select message_id, data from part where session_id = ? and length(data) <= ? and data like '%"text"%'
order by id
"""
_MOST_BYTES = 4 << 20


class _OpenCodeData(msgspec.Struct):
    """Role and summary flag in the data of a message in OpenCode's database."""

    role: object = ""
    summary: object = None


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """Open OpenCode's database read-only, for this context. Raises sqlite3.Error."""
    journal = os.path.exists(f"{path}-wal")
    how = "mode=ro" if journal else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, timeout=_BUSY_S)) as connection:
        yield connection


def changed_sessions(path: str, since: float) -> list[tuple[str, float]]:
    """Return the ids of sessions changed since a Unix time, with their times. Raises sqlite3.Error."""
    with opened(path) as connection:
        rows = connection.execute(_SESSIONS, (since * 1000,)).fetchall()
    return [(each, seconds(at)) for each, at in rows if isinstance(each, str)]


def read(path: str, session_id: str) -> SessionDraft:
    """Read a session of OpenCode's database into a draft. Raises sqlite3.Error."""
    draft = SessionDraft(session_id=session_id)
    with opened(path) as connection:
        for directory, version, created, parent in connection.execute(_SESSION, (session_id,)):
            draft.set_once(session_id, directory, version, seconds(created))
            draft.is_other = parent is not None
        texts = _texts_by_message(connection, session_id, draft)
        for message_id, data, at in connection.execute(_MESSAGES, (session_id,)):
            _add_message(draft, data, seconds(at), texts.get(message_id, []))
    return draft


def _add_message(draft: SessionDraft, data: object, at: float, texts: list[str]) -> None:
    """Add a message to the draft; for a summary, only mark the messages before it."""
    found = _decoded_data(data, draft)
    role = speaker(_SPEAKERS, found.role)
    if role == "assistant" and found.summary is True:
        draft.mark_summarised()
    elif role is not None and texts:
        draft.messages.append(TranscriptMessage(role, "\n".join(texts), at))


def _texts_by_message(
    connection: sqlite3.Connection, session_id: str, draft: SessionDraft
) -> dict[object, list[str]]:
    """Return the texts of a session's messages, by message id; count invalid parts as skipped."""
    found: dict[object, list[str]] = {}
    for message_id, data in connection.execute(_PARTS, (session_id, _MOST_BYTES)):
        try:
            part = msgspec.json.decode(data)
        except (*NO_LINE, TypeError):
            draft.skipped += 1
            continue
        if text := _unquoted(part_text(part)):
            found.setdefault(message_id, []).append(text)
    return found


def _decoded_data(data: object, draft: SessionDraft) -> _OpenCodeData:
    """Return the decoded data of a message; count invalid data as skipped."""
    try:
        return msgspec.json.decode(
            data if isinstance(data, str | bytes) else b"", type=resolved(_OpenCodeData)
        )
    except NO_LINE:
        draft.skipped += 1
        return _OpenCodeData()


def _unquoted(text: str) -> str:
    """Return a prompt without the quotation marks that `opencode run` adds."""
    try:
        found = msgspec.json.decode(text) if text.startswith('"') and text.endswith('"') else text
    except NO_LINE:
        return text
    return found if isinstance(found, str) else text
