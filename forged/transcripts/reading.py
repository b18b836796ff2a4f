"""Find past sessions of a harness, and read one as a whole or from its end.

`sessions` lists them without opening a file, newest first. `read` reads one, `read_tail` the end of one that
a hook names. An unreadable file raises TranscriptError; invalid content is skipped.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from forged.transcripts import files, opencode
from forged.transcripts.files import TranscriptError
from forged.transcripts.formats import FORMATS
from forged.transcripts.past_session import PastSession, SessionDraft, past_session_of

_MOST_FILES = 100_000
_PROJECT_BYTES = 4_096


class FoundSession(msgspec.Struct, frozen=True):
    """Session on disk, not read yet: in its own file, or under its id in a database."""

    agent: str
    path: str
    changed_at: float
    bytes: int = 0
    session_id: str = ""


def sessions(agent: str, home: str, since: float = 0.0) -> list[FoundSession]:
    """Return the sessions of a harness changed since a Unix time, newest first.

    Unreadable folders are left out.
    """
    row = FORMATS[agent]
    found: list[FoundSession] = []
    for names in row.places:
        for entry in _entries(home, names):
            found += (
                _session_of_file(agent, entry, since)
                if row.read
                else _sessions_of_database(agent, entry, since)
            )
            if len(found) >= _MOST_FILES:
                break
    return sorted(found, key=lambda each: (-each.changed_at, each.path, each.session_id))


def read(found: FoundSession, home: str) -> PastSession:
    """Read a found session with all its messages. Raises TranscriptError."""
    return read_tail(found.path, found.agent, 1 << 62, home=home, session_id=found.session_id)


def read_tail(path: str, agent: str, most_bytes: int, *, home: str, session_id: str = "") -> PastSession:
    """Read a session: its file's first line and last `most_bytes`; of a database, all of it.

    A path outside of `home`, the harness's folder, is refused.
    """
    reads = FORMATS[agent].read
    try:
        if reads is None:
            files.require_below(path, home)
            return past_session_of(agent, opencode.read(path, session_id))
        with files.opened(path, home) as file:
            lines, is_whole = files.tail_of(file, most_bytes)
            draft = reads(lines)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise TranscriptError(f"it cannot be read: {type(error).__name__}") from error
    if agent == "gemini":
        _set_workspace(draft, path, home)
    return past_session_of(agent, draft, is_whole=is_whole)


def _entries(folder: str, names: Sequence[str]) -> Iterator[os.DirEntry[str]]:
    """Yield files below a folder, by one name pattern for each level, without following links."""
    try:
        with os.scandir(folder) as entries:
            fitting = [each for each in entries if fnmatchcase(each.name, names[0])]
    except OSError:
        return
    for entry in fitting:
        if len(names) > 1 and entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, names[1:])
        elif len(names) == 1 and entry.is_file(follow_symlinks=False):
            yield entry


def _session_of_file(agent: str, entry: os.DirEntry[str], since: float) -> Iterable[FoundSession]:
    """Yield the session of a file of this user if it changed since a Unix time."""
    try:
        stat = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if stat.st_mtime >= since and stat.st_uid == os.getuid():
        yield FoundSession(agent, entry.path, stat.st_mtime, stat.st_size)


def _sessions_of_database(agent: str, entry: os.DirEntry[str], since: float) -> list[FoundSession]:
    """Return the sessions of a database that changed since a Unix time; none if it is unreadable."""
    try:
        listed = opencode.changed_sessions(entry.path, since)
    except sqlite3.Error:
        return []
    return [FoundSession(agent, entry.path, at, session_id=session_id) for session_id, at in listed]


def _set_workspace(draft: SessionDraft, path: str, home: str) -> None:
    """Set a draft's workspace from Gemini's file next to the chats."""
    note = os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root")
    try:
        with files.opened(note, home) as file:
            draft.set_once("", file.read(_PROJECT_BYTES).decode().strip(), "", 0.0)
    except (OSError, ValueError, TranscriptError):
        return
