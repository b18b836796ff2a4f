"""What was taken away and can come back for 7 days: a directory for each file, with a note of where it lay.

The notes lie beside the files and not in `state.db`, so that a file can come back as long as it is there. A
note holds ids, paths and details, and no text of a memory. Blocks for the disk; StoreError is raised.
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
from forged.state import Detail, OwnFile

TRASH_S = 7 * 24 * 3600.0
_ERASED_KEPT = 1000


class Note(msgspec.Struct, frozen=True):
    """Where a file lay, and with what it went. Times are Unix seconds.

    `batch` is shared by all that one request took away, whose `key` it was; `why` is forget, undo or move.
    `followers` are the ids that named this one as their predecessor and name `older` since. `counted`: it was
    used, and not withheld. `became` is the id of what it was moved to. `detail` is what was known of it, and
    `own` what was on record of its file, if it was ours. `identity` is which folder the root was.
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
    key: str = ""
    detail: Detail = Detail()
    identity: str = ""
    own: OwnFile | None = None


class Trashed(NamedTuple):
    """A file in the trash: its directory, its note, its bytes and the memory in it."""

    place: str
    note: Note
    data: bytes
    memory: Memory


class Trash:
    """The directory of all that was taken away. `erased` are ids that went for good, by the request's key."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.erased: dict[str, tuple[str, ...]] = {}

    def note_erased(self, key: str, ids: tuple[str, ...]) -> None:
        """What a request of this key erased, for its repetition after a connection that broke."""
        if key:
            self.erased[key] = ids
            if len(self.erased) > _ERASED_KEPT:
                del self.erased[next(iter(self.erased))]

    def held(self, now: float) -> tuple[Trashed, ...]:
        """All that can come back at a time (Unix seconds), newest first."""
        found = [each for each in self._all() if now - each.note.taken_at <= TRASH_S]
        return tuple(sorted(found, key=lambda each: -each.note.taken_at))

    def drop(self, some: Iterable[Trashed]) -> None:
        """Files that are back where they were."""
        with atomic.explained(f"cannot tidy {self.path}"):
            for each in some:
                shutil.rmtree(each.place)

    def erase(self, contents: Collection[str]) -> None:
        """Erase files that hold one of these texts."""
        wanted = [content.strip().encode(errors="replace") for content in contents]
        with atomic.explained(f"cannot erase from {self.path}"):
            for place in self._places():
                if any(_holds(os.path.join(place, name), wanted) for name in os.listdir(place)):
                    shutil.rmtree(place)

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

    def _all(self) -> Iterator[Trashed]:
        """What has a note; what an older forged put there has none and stays where it is."""
        for place in self._places():
            try:
                note = msgspec.json.decode(_bytes(os.path.join(place, NOTE)), type=Note)
                data = _bytes(os.path.join(place, note.name))
                memory = parse(data, note.scope, note.name.removesuffix(".md"))
            except (OSError, msgspec.MsgspecError, MemoryFormatError):
                continue
            yield Trashed(place, note, data, memory)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _holds(path: str, wanted: Collection[bytes]) -> bool:
    data = _bytes(path)
    return any(text in data for text in wanted if text)
