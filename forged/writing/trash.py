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

TRASH_S = 7 * 24 * 3600.0


class TrashNote(msgspec.Struct, frozen=True):
    """Former place of a file in the trash, with related data. Times are Unix seconds.

    `batch` is shared by all removals of one request. `why` is forget, undo or move. `followers` are ids whose
    predecessor was this one and is `older` now. `counted`: it was in use, not withheld. `became` is the id
    after a move. `rows` are its rows of tables, `own` is the record of its file if forged wrote it.
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
        """Return the time after which it cannot be restored."""
        return self.taken_at + TRASH_S


class TrashEntry(NamedTuple):
    """A file in the trash: its directory, note, bytes and memory."""

    place: str
    note: TrashNote
    data: bytes
    memory: Memory


class Trash:
    """Directory of removed files."""

    def __init__(self, path: str) -> None:
        self.path = path

    def of(self, batch: str) -> list[TrashEntry]:
        """Return the entries of one request."""
        return [each for each in self._all() if each.note.batch == batch]

    def held(self, now: float) -> tuple[TrashEntry, ...]:
        """Return all entries that can be restored at a time (Unix seconds), newest first."""
        found = [each for each in self._all() if now - each.note.taken_at <= TRASH_S]
        return tuple(sorted(found, key=lambda each: -each.note.taken_at))

    def left(self, some: Iterable[TrashEntry]) -> list[TrashEntry]:
        """Return those entries that still exist."""
        return [each for each in some if os.path.isdir(each.place)]

    def drop(self, some: Iterable[TrashEntry]) -> None:
        """Delete entries whose files are restored."""
        with atomic.explained(f"cannot tidy {self.path}"):
            for each in some:
                _remove(each.place)

    def erase(self, top: str, ids: Collection[str], contents: Collection[str]) -> tuple[TrashEntry, ...]:
        """Erase files of these memories of a root, and files that contain one of these texts or of theirs.

        Returns the entries of the memories. Entries that disappear meanwhile are skipped.
        """
        named = tuple(each for each in self._all() if each.note.top == top and each.note.id in ids)
        texts = (*contents, *(each.memory.content for each in named))
        wanted = [text for content in texts if (text := content.strip().encode(errors="replace"))]
        with atomic.explained(f"cannot erase from {self.path}"):
            for each in named:
                _remove(each.place)
            for place in self._places():
                if any(_holds(path, wanted) for path in _files_in(place)):
                    _remove(place)
        return named

    def empty(self, now: float) -> None:
        """Erase entries older than 7 days at `now`."""
        for place in self._places():
            with contextlib.suppress(FileNotFoundError):
                if now - os.stat(place).st_ctime > TRASH_S:
                    shutil.rmtree(place, ignore_errors=True)

    def _places(self) -> list[str]:
        try:
            with os.scandir(self.path) as entries:
                return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def _all(self) -> Iterator[TrashEntry]:
        for place in self._places():
            try:
                note = msgspec.json.decode(_bytes(os.path.join(place, NOTE)), type=TrashNote)
                data = _bytes(os.path.join(place, note.name))
                memory = parse(data, note.scope, note.name.removesuffix(".md"))
            except (OSError, msgspec.MsgspecError, MemoryFormatError):
                continue
            yield TrashEntry(place, note, data, memory)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _files_in(place: str) -> list[str]:
    try:
        return [os.path.join(place, name) for name in os.listdir(place)]
    except FileNotFoundError:
        return []


def _holds(path: str, wanted: Collection[bytes]) -> bool:
    try:
        data = _bytes(path)
    except FileNotFoundError:
        return False
    return any(text in data for text in wanted)


def _remove(place: str) -> None:
    """Remove a directory with its files; the note goes last, so that a kill leaves a known entry."""
    for path in sorted(_files_in(place), key=lambda each: os.path.basename(each) == NOTE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(place)
