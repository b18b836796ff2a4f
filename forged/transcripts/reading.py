"""Past sessions of a harness: found, and read as a whole or from their end.

`sessions` lists what there is without opening a file, newest first; `read` reads one, `read_tail` the end of
one that a hook names. A file that cannot be read is TranscriptError; what of it makes no sense is skipped.
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
from forged.transcripts.past_session import PastSession, SessionDraft, finished

_MOST_FILES = 100_000
_PROJECT_BYTES = 4_096


class FoundSession(msgspec.Struct, frozen=True):
    """A session that is there: in a file of its own, or under its id in a database."""

    agent: str
    path: str
    changed_at: float
    bytes: int = 0
    session_id: str = ""


def sessions(agent: str, home: str, since: float = 0.0) -> list[FoundSession]:
    """What a harness has below its folder and has touched since then (Unix seconds), newest first.

    What cannot be looked into is left out.
    """
    row = FORMATS[agent]
    found: list[FoundSession] = []
    for names in row.places:
        for entry in _entries(home, names):
            found += _of_file(agent, entry, since) if row.read else _of_database(agent, entry, since)
            if len(found) >= _MOST_FILES:
                break
    return sorted(found, key=lambda each: (-each.changed_at, each.path, each.session_id))


def read(found: FoundSession, home: str) -> PastSession:
    """All that was said in a session. Raises TranscriptError."""
    return read_tail(found.path, found.agent, 1 << 62, home=home, session_id=found.session_id)


def read_tail(path: str, agent: str, most_bytes: int, *, home: str, session_id: str = "") -> PastSession:
    """What the last bytes of a file tell; of a database all of the session. Raises TranscriptError.

    `home` is the harness's folder: a path out of it is refused.
    """
    reads = FORMATS[agent].read
    try:
        if reads is None:
            files.check(path, home)
            return finished(agent, opencode.read(path, session_id))
        with files.opened(path, home) as file:
            lines, is_whole = files.tail_of(file, most_bytes)
            draft = reads(lines)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise TranscriptError(f"it cannot be read: {type(error).__name__}") from error
    if agent == "gemini":
        _name_workspace(draft, path, home)
    return finished(agent, draft, is_whole=is_whole)


def _entries(folder: str, names: Sequence[str]) -> Iterator[os.DirEntry[str]]:
    """Files below a folder whose names fit; nothing is followed."""
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


def _of_file(agent: str, entry: os.DirEntry[str], since: float) -> Iterable[FoundSession]:
    try:
        stat = entry.stat(follow_symlinks=False)
    except OSError:
        return
    if stat.st_mtime >= since and stat.st_uid == os.getuid():
        yield FoundSession(agent, entry.path, stat.st_mtime, stat.st_size)


def _of_database(agent: str, entry: os.DirEntry[str], since: float) -> list[FoundSession]:
    try:
        listed = opencode.listed(entry.path, since)
    except sqlite3.Error:
        return []
    return [FoundSession(agent, entry.path, at, session_id=session_id) for session_id, at in listed]


def _name_workspace(draft: SessionDraft, path: str, home: str) -> None:
    """Gemini writes a project's folder down beside its chats."""
    beside = os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root")
    try:
        with files.opened(beside, home) as file:
            draft.about("", file.read(_PROJECT_BYTES).decode().strip(), "", 0.0)
    except (OSError, ValueError, TranscriptError):
        return
