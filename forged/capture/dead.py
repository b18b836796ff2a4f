"""Events that were given up, one file each with the reason, until a person takes them back or drops them.

Beyond a cap the oldest *turns* are erased without being asked, and counted; what was acknowledged as durable
never is. A file that could not be read in the spool lies here as it was, under its own name: only its id is
known, so it can be dropped and not revived.
"""

from __future__ import annotations

import logging
import os

import msgspec

from forged.capture.spool_file import RECORD, Record, Suffix, Unreadable, listed, made, named, opened, unlink
from forged.capture.values import Document, Event
from forged.files import atomic

logger = logging.getLogger(__name__)

# The record last, so that an erasure which is cut short leaves a dead event and not a riddle.
_SUFFIXES: tuple[Suffix, ...] = (".documents", ".event", ".dead")


class Buried(msgspec.Struct, frozen=True):
    """An event that was given up. Of an unreadable one only the id is known, and `died_at` is empty.

    `documents` are what its journal held.
    """

    event: Event
    reason: str
    died_at: str
    bytes: int
    documents: tuple[Document, ...] = ()


class DeadEvents:
    """The directory of them. Blocking; methods raise OSError or StoreError."""

    def __init__(self, path: str, most_bytes: int) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self.dropped = 0

    def add(self, record: Record) -> None:
        """Return once the record is durable. One that says the same of the same burial stands."""
        name, data = named(record.event.id, ".dead"), RECORD.encode(record)
        with made(self.path) as directory:
            try:
                atomic.publish(directory, name, data)
            except FileExistsError:
                standing = RECORD.read(directory, name)
                if isinstance(standing, Unreadable) and standing.stays:
                    raise
                if not isinstance(standing, Record) or standing.documents != record.documents:
                    unlink(directory, name)
                    atomic.publish(directory, name, data)

    def add_as_it_is(self, source: int, event_id: str, suffix: Suffix) -> None:
        """Take over a file of another directory that cannot be read."""
        with made(self.path) as directory:
            atomic.move(source, named(event_id, suffix), directory)

    def read(self, event_id: str) -> Record | Unreadable | None:
        with opened(self.path) as directory:
            return None if directory is None else _read(directory, event_id)

    def erase(self, event_id: str) -> bool:
        """Remove all that is here of an event, durably; whether there was anything."""
        with opened(self.path) as directory:
            return directory is not None and _erase(directory, event_id)

    def ids(self) -> dict[str, set[Suffix]]:
        """Events that are here and the files of each."""
        with opened(self.path) as directory:
            return {} if directory is None else listed(directory, _SUFFIXES)[0]

    def all(self) -> tuple[Buried, ...]:
        """Every event, in order of ids."""
        with opened(self.path) as directory:
            if directory is None:
                return ()
            return tuple(_buried(directory, *item) for item in listed(directory, _SUFFIXES)[0].items())

    def trim(self) -> None:
        """Keep to the cap if turns alone can pay for it."""
        with opened(self.path) as directory:
            if directory is None:
                return
            sizes = {
                event_id: _bytes(directory, event_id, suffixes)
                for event_id, suffixes in listed(directory, _SUFFIXES)[0].items()
            }
            over = sum(sizes.values()) - self._most_bytes
            for event_id, size in sizes.items():
                if over <= 0:
                    break
                record = _read(directory, event_id)
                if isinstance(record, Record) and not record.event.is_durable:
                    _erase(directory, event_id)
                    over -= size
                    self.dropped += 1
                    logger.warning("dead turn erased, there are too many event=%s bytes=%d", event_id, size)

    def sweep(self, older_than: float) -> None:
        with opened(self.path) as directory:
            if directory is not None:
                atomic.sweep(directory, older_than)


def _read(directory: int, event_id: str) -> Record | Unreadable | None:
    found = RECORD.read(directory, named(event_id, ".dead"))
    if isinstance(found, Record) and found.event.id != event_id:
        return Unreadable("unreadable")
    return found


def _buried(directory: int, event_id: str, suffixes: set[Suffix]) -> Buried:
    size = _bytes(directory, event_id, suffixes)
    found = _read(directory, event_id)
    if isinstance(found, Record):
        return Buried(found.event, found.reason, found.died_at, size, found.documents or ())
    reason = "unreadable" if found is None else found.reason
    return Buried(Event(id=event_id, received_at=""), reason, "", size)


def _bytes(directory: int, event_id: str, suffixes: set[Suffix]) -> int:
    names = (named(event_id, suffix) for suffix in suffixes)
    return sum(os.stat(name, dir_fd=directory, follow_symlinks=False).st_size for name in names)


def _erase(directory: int, event_id: str) -> bool:
    there = [unlink(directory, named(event_id, suffix)) for suffix in _SUFFIXES]
    os.fsync(directory)
    return any(there)
