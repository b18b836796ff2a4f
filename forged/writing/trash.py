"""What was taken away and can come back for 7 days: a directory for each file, with a note of where it lay.

The notes lie beside the files and not in `state.db`, so that a file can come back as long as it is there. A
note holds ids, paths and rows of tables, and no text of a memory. Blocks for the disk; StoreError is raised.
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
    """Where a file lay, and with what it went. Times are Unix seconds.

    `batch` is shared by all that one request took away; `why` is forget, undo or move.
    `followers` are the ids that named this one as their predecessor and name `older` since. `counted`: it was
    used, and not withheld. `became` is the id of what it was moved to. `rows` are what was known of it, and
    `own` is what was on record of its file, if it was ours. `identity` is which folder the root was.
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
        """Return when it can come back no more."""
        return self.taken_at + TRASH_S


class TrashEntry(NamedTuple):
    """A file in the trash: its directory, its note, its bytes and the memory in it."""

    place: str
    note: TrashNote
    data: bytes
    memory: Memory


class Trash:
    """The directory of all that was taken away."""

    def __init__(self, path: str) -> None:
        self.path = path

    def of(self, batch: str) -> list[TrashEntry]:
        """Return the entries of one request."""
        return [each for each in self._all() if each.note.batch == batch]

    def held(self, now: float) -> tuple[TrashEntry, ...]:
        """All that can come back at a time (Unix seconds), newest first."""
        found = [each for each in self._all() if now - each.note.taken_at <= TRASH_S]
        return tuple(sorted(found, key=lambda each: -each.note.taken_at))

    def left(self, some: Iterable[TrashEntry]) -> list[TrashEntry]:
        """Those that are still there."""
        return [each for each in some if os.path.isdir(each.place)]

    def drop(self, some: Iterable[TrashEntry]) -> None:
        """Files that are back where they were."""
        with atomic.explained(f"cannot tidy {self.path}"):
            for each in some:
                _remove(each.place)

    def erase(self, top: str, ids: Collection[str], contents: Collection[str]) -> tuple[TrashEntry, ...]:
        """Erase files of these memories of a root, and files that hold one of these texts or of theirs.

        Returns those of the memories. What goes meanwhile is gone.
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
        """Erase what went more than 7 days before `now`."""
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
    """Remove a directory with its files; the note goes last, so that a kill between leaves it known."""
    for path in sorted(_files_in(place), key=lambda each: os.path.basename(each) == NOTE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(place)
