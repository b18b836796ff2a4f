"""Trash: removed files that can be restored for 7 days, a directory with a note for each.

Notes are next to the files and not in `state.db`, so that a file can be restored as long as it exists. A note
holds ids, paths and rows of tables, and no text of a memory. Blocks for the disk. Raises StoreError.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from forged.errors import MemoryFormatError
from forged.files import NOTE, atomic, parse
from forged.memory import Memory
from forged.state import OwnFile, TrashedRows
from forged_client.typed import resolved

TRASH_S = 7 * 24 * 3600.0


class TrashNote(msgspec.Struct, frozen=True):
    """Note about a file in the trash: its former place, and data to restore it with.

    `batch` is shared by all removals of one request. `why` is forget, prompt, undo or move. `followers` are
    ids whose predecessor was this one and is `older` now. `counted`: it was in use, not withheld. `became` is
    the id after a move. `rows` are its rows of tables, `own` is the record of its file if forged wrote it.
    `identity` is that of the root.
    """

    id: str
    top: str
    scope: str
    folder: str
    name: str
    batch: str
    why: str
    taken_at: float
    older: str = ""
    followers: tuple[str, ...] = ()
    counted: bool = True
    became: str = ""
    rows: TrashedRows = TrashedRows()
    identity: str = ""
    own: OwnFile | None = None

    @property
    def until(self) -> float:
        """Unix time after which the file cannot be restored."""
        return self.taken_at + TRASH_S


class TrashEntry(NamedTuple):
    """A file in the trash: its directory, note, bytes and memory."""

    place: str
    note: TrashNote
    data: bytes
    memory: Memory


class Trash:
    """Trash directory of one daemon: lists removed files, drops restored ones and erases others."""

    def __init__(self, path: str) -> None:
        self.path = path

    def of_batch(self, batch: str) -> list[TrashEntry]:
        """Return the entries that one request removed."""
        return [each for each in self._entries() if each.note.batch == batch]

    def held(self, now: float) -> tuple[TrashEntry, ...]:
        """Return all entries that can be restored at a time (Unix seconds), newest first."""
        found = [each for each in self._entries() if now - each.note.taken_at <= TRASH_S]
        return tuple(sorted(found, key=lambda each: -each.note.taken_at))

    def still_there(self, some: Iterable[TrashEntry]) -> list[TrashEntry]:
        """Return those of the entries that still exist."""
        return [each for each in some if os.path.isdir(each.place)]

    def drop(self, some: Iterable[TrashEntry]) -> None:
        """Delete the directories of entries whose files are restored."""
        with atomic.explained(f"cannot tidy {self.path}"):
            for each in some:
                _remove_entry(each.place)

    def erase(self, top: str, ids: Collection[str], contents: Collection[str]) -> tuple[TrashEntry, ...]:
        """Erase a root's memories from the trash, and every file there with one of their or given texts.

        Returns the entries of the memories. Entries that disappear meanwhile are skipped.
        """
        named = tuple(each for each in self._entries() if each.note.top == top and each.note.id in ids)
        texts = (*contents, *(each.memory.content for each in named))
        wanted = [text for content in texts if (text := content.strip().encode(errors="replace"))]
        with atomic.explained(f"cannot erase from {self.path}"):
            for each in named:
                _remove_entry(each.place)
            for place in self._entry_folders():
                if any(_contains_any(path, wanted) for path in _files_in(place)):
                    _remove_entry(place)
        return named

    def erase_expired(self, now: float) -> None:
        """Erase entries whose directory has not changed in the 7 days before `now`."""
        for place in self._entry_folders():
            with contextlib.suppress(FileNotFoundError):
                if now - os.stat(place).st_ctime > TRASH_S:
                    shutil.rmtree(place, ignore_errors=True)

    def _entry_folders(self) -> list[str]:
        """Return the directories of all entries; none if there is no trash yet."""
        try:
            with os.scandir(self.path) as entries:
                return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def _entries(self) -> Iterator[TrashEntry]:
        """Yield all entries of the trash whose note and file are readable."""
        for place in self._entry_folders():
            try:
                note = msgspec.json.decode(_read_bytes(os.path.join(place, NOTE)), type=resolved(TrashNote))
                data = _read_bytes(os.path.join(place, note.name))
                memory = parse(data, note.scope, note.name.removesuffix(".md"))
            except (OSError, msgspec.MsgspecError, MemoryFormatError):
                continue
            yield TrashEntry(place, note, data, memory)


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _files_in(place: str) -> list[str]:
    try:
        return [os.path.join(place, name) for name in os.listdir(place)]
    except FileNotFoundError:
        return []


def _contains_any(path: str, wanted: Collection[bytes]) -> bool:
    """Return True if a file contains one of the wanted texts."""
    try:
        data = _read_bytes(path)
    except FileNotFoundError:
        return False
    return any(text in data for text in wanted)


def _remove_entry(place: str) -> None:
    """Remove a directory with its files; the note goes last, so that a kill leaves a known entry."""
    for path in sorted(_files_in(place), key=lambda each: os.path.basename(each) == NOTE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(place)
