"""Events on stable storage until their memories are: a file each, and a journal of what was decided.

`<id>.event` is what was acknowledged. `<id>.documents` is its journal: once that is there the model is never
asked about the event again, and doing it again means to link files that may be linked already. An event that
is given up moves with its journal to a second directory, as `<id>.dead`.

A kill in the middle of a burial, or of a revival, leaves an event in both directories. Then a whole dead
file wins: nothing is lost, as it holds all of the event, and nothing runs for ever, as an event is buried
because it failed again and again. A revival that was cut short was never acknowledged. If the dead file is
not whole, the spool keeps the event.

What cannot be read never stops a load. A damaged file is set aside among the dead as it is; one that may be
good for somebody (a newer version, another owner, no regular file) stays where it is. One file per event,
rather than one log, so that a damaged block costs one event (reliability-anchors.md 3.1, A6).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from forged.capture.dead import Buried, DeadEvents
from forged.capture.spool_file import (
    DOCUMENTS,
    EVENT,
    Record,
    Suffix,
    Unreadable,
    is_event_id,
    listed,
    made,
    named,
    opened,
    unlink,
)
from forged.capture.values import Document, Event
from forged.errors import StoreError
from forged.files import atomic
from forged.files.snapshot import printable
from forged.memory import Problem, utc_now

__all__ = ["Buried", "Loaded", "Spool"]

logger = logging.getLogger(__name__)

_TEMPS_AGE_S = 3600.0
_REASON_LENGTH = 2000

_Found = Event | str | Problem


class Loaded(msgspec.Struct, frozen=True):
    """What waits: events in order, ids of journals whose event is gone; files of no use, and why."""

    events: tuple[Event, ...] = ()
    orphans: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Spool:
    """Blocking. One thread of one process changes events at a time; a worker may use the journals."""

    def __init__(
        self,
        directory: str,
        dead_directory: str,
        *,
        max_bytes: int = 64 << 20,
        max_events: int = 256,
        max_dead_bytes: int = 32 << 20,
    ) -> None:
        """Take absolute paths; both directories are made, private, with their first file."""
        self._path = directory
        self._dead = DeadEvents(dead_directory, max_dead_bytes)
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._sizes: dict[str, int] = {}

    # --- events that wait -----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Events here, as of the last load and what was put and removed since."""
        return len(self._sizes)

    @property
    def bytes(self) -> int:
        return sum(tuple(self._sizes.values()))  # a copy first: the event loop reads while a thread puts

    def has_room(self, size: int) -> bool:
        """Whether an event of so many bytes may be accepted. Nothing else asks: what was promised is kept."""
        return self.count < self._max_events and self.bytes + size <= self._max_bytes

    def put(self, event: Event) -> None:
        """Return once the event will survive a power cut. Raises StoreError: then it is not here."""
        name = named(event.id, ".event")
        with atomic.explained(f"cannot write to {self._path}"):
            data = EVENT.encode(event)
            with made(self._path) as directory, contextlib.suppress(FileExistsError):
                atomic.publish(directory, name, data)
        self._sizes[event.id] = len(data)

    def put_all(self, events: Sequence[Event]) -> None:
        """Put events with one sync of the directory: time is short when the daemon is told to stop.

        Raises StoreError if some could not be stored; the others are.
        """
        stored: dict[str, int] = {}
        failures: list[StoreError] = []
        with atomic.explained(f"cannot write to {self._path}"), made(self._path) as directory:
            for event in events:
                try:
                    stored[event.id] = _place(directory, event)
                except StoreError as error:
                    failures.append(error)
            os.fsync(directory)
        self._sizes |= stored
        if failures:
            raise StoreError(f"{len(failures)} of {len(events)} events not spooled: {failures[0]}")

    def remove(self, event_id: str) -> None:
        """Forget an event that is finished, if it is here, and its journal. Raises StoreError.

        The event goes first, durably, then its journal. Cut short, that leaves a journal alone, which only
        links again what is linked. The other way round an event would be left alone, and the model would be
        asked again and could answer something else.
        """
        event, journal = named(event_id, ".event"), named(event_id, ".documents")
        with atomic.explained(f"cannot remove {event_id}"), opened(self._path) as directory:
            if directory is not None:
                unlink(directory, event)
                os.fsync(directory)
                unlink(directory, journal)
        self._sizes.pop(event_id, None)

    def journal(self, event_id: str, documents: tuple[Document, ...]) -> None:
        """Return once it is durable what an event comes to. An earlier journal stands. Raises StoreError."""
        name = named(event_id, ".documents")
        with atomic.explained(f"cannot write to {self._path}"):
            data = DOCUMENTS.encode(documents)
            with made(self._path) as directory, contextlib.suppress(FileExistsError):
                atomic.publish(directory, name, data)

    def journalled(self, event_id: str) -> tuple[Document, ...] | None:
        """Return what an event comes to, None if that is undecided. Raises StoreError if unreadable."""
        found = self._journal(event_id)
        if isinstance(found, Unreadable):
            raise StoreError(f"the journal of {event_id} cannot be used: {found.reason}")
        return found

    # --- events that were given up --------------------------------------------------------------------

    def bury(self, event: Event, reason: str) -> None:
        """Move an event, which need not be here, and its journal to the dead.

        Raises StoreError: then it is here, or in both places until the next attempt or load.
        """
        journal = self._journal(event.id)
        if isinstance(journal, Unreadable) and journal.stays:
            raise StoreError(f"the journal of {event.id} cannot be used: {journal.reason}")
        documents = None if isinstance(journal, Unreadable) else journal
        with atomic.explained(f"cannot set aside {event.id}"):
            self._dead.add(Record(event, reason[:_REASON_LENGTH], utc_now(), documents))
            if isinstance(journal, Unreadable):
                self._set_aside(event.id, ".documents")
        self.remove(event.id)
        try:
            self._dead.trim()
        except (OSError, StoreError) as error:  # the burial is done; the next one tries again
            logger.warning("dead turns not trimmed error=%s", error)

    def dead(self) -> tuple[Buried, ...]:
        """Events that were given up, oldest first. Raises StoreError."""
        with atomic.explained(f"cannot read {self._dead.path}"):
            return self._dead.all()

    def dead_count(self) -> int:
        """How many `dead` would name, for the price of a listing. Raises StoreError."""
        with atomic.explained(f"cannot read {self._dead.path}"):
            return len(self._dead.ids())

    @property
    def dead_dropped(self) -> int:
        """Dead turns that were erased since the start because there were too many."""
        return self._dead.dropped

    def revive(self, event_id: str) -> Event | None:
        """Take an event back into the spool, whatever room there is; None if none of this id is readable.

        Raises StoreError: then it is dead as before.
        """
        if not is_event_id(event_id):
            return None
        with atomic.explained(f"cannot revive {event_id}"):
            record = self._dead.read(event_id)
            if not isinstance(record, Record):
                return None
            # The journal first, for the reason that lets it go last in `remove`.
            if record.documents is not None:
                self.journal(event_id, record.documents)
            self.put(record.event)
            self._dead.erase(event_id)
        return record.event

    def drop_dead(self, event_id: str) -> bool:
        """Erase an event that was given up; false if there is none of this id. Raises StoreError."""
        with atomic.explained(f"cannot erase {event_id[:80]!r}"):
            return is_event_id(event_id) and self._dead.erase(event_id)

    # --- after a start --------------------------------------------------------------------------------

    def load(self) -> Loaded:
        """Settle what was cut short and return what waits. Trouble is in `problems`; nothing is raised."""
        self._sizes = {}
        found = [*self._attempt(self._dead.path, self._settle), *self._attempt(self._path, self._waiting)]
        return Loaded(
            tuple(item for item in found if isinstance(item, Event)),
            tuple(item for item in found if isinstance(item, str)),
            tuple(item for item in found if isinstance(item, Problem)),
        )

    def _attempt(self, name: str, step: Callable[[], Iterator[_Found]]) -> Iterator[_Found]:
        """All that a step finds, and what ended it: trouble with one file must not hide the others."""
        try:
            yield from step()
        except (OSError, StoreError) as error:
            yield self._problem(name, atomic.why(error) if isinstance(error, OSError) else str(error))

    def _settle(self) -> Iterator[_Found]:
        self._dead.sweep(time.time() - _TEMPS_AGE_S)
        dead = self._dead.ids()
        waiting = self._listed()[0] if dead else {}
        for event_id in sorted(dead.keys() & waiting.keys()):
            yield from self._attempt(event_id, partial(self._settle_one, event_id))

    def _settle_one(self, event_id: str) -> Iterator[_Found]:
        """Leave an event in one place; see above."""
        record = self._dead.read(event_id)
        if isinstance(record, Record):
            self.remove(event_id)
        elif isinstance(self._event(event_id), Event) and not (record is not None and record.stays):
            self._dead.erase(event_id)
        yield from ()

    def _waiting(self) -> Iterator[_Found]:
        with opened(self._path) as directory:
            if directory is not None:
                atomic.sweep(directory, time.time() - _TEMPS_AGE_S)
        waiting, foreign = self._listed()
        for name in foreign:
            yield self._problem(name, "not a file of the spool; left alone")
        for event_id in waiting:
            yield from self._attempt(event_id, partial(self._take_up, event_id))

    def _take_up(self, event_id: str) -> Iterator[_Found]:
        event, journal = self._event(event_id), self._journal(event_id)
        if isinstance(event, Unreadable):
            yield self._problem(f"{event_id}.event", event.reason)
            if event.stays:
                return
            self._set_aside(event_id, ".event")
        if isinstance(journal, Unreadable):
            yield self._problem(f"{event_id}.documents", journal.reason)
            if journal.stays:
                return
            # Some of it may be linked: whether the model is asked again is for a person to say.
            if isinstance(event, Event):
                self.bury(event, "its journal is unreadable")
            else:
                self._set_aside(event_id, ".documents")
        elif isinstance(event, Event):
            self._sizes[event_id] = self._size(event_id)
            yield event
        elif journal is not None:
            yield event_id

    # --- files ----------------------------------------------------------------------------------------

    def _listed(self) -> tuple[dict[str, set[Suffix]], list[str]]:
        with opened(self._path) as directory:
            return ({}, []) if directory is None else listed(directory, (".event", ".documents"))

    def _event(self, event_id: str) -> Event | Unreadable | None:
        with opened(self._path) as directory:
            found = None if directory is None else EVENT.read(directory, named(event_id, ".event"))
        # An empty value is an event of a new id: the id says that this is the one that was put.
        return Unreadable("unreadable") if isinstance(found, Event) and found.id != event_id else found

    def _journal(self, event_id: str) -> tuple[Document, ...] | Unreadable | None:
        name = named(event_id, ".documents")
        with atomic.explained(f"cannot read {self._path}"), opened(self._path) as directory:
            return None if directory is None else DOCUMENTS.read(directory, name)

    def _size(self, event_id: str) -> int:
        with opened(self._path) as directory:
            return os.stat(named(event_id, ".event"), dir_fd=directory).st_size

    def _set_aside(self, event_id: str, suffix: Suffix) -> None:
        with opened(self._path) as directory:
            if directory is not None:
                self._dead.add_as_it_is(directory, event_id, suffix)

    def _problem(self, name: str, reason: str) -> Problem:
        return Problem(printable(os.path.join(self._path, name)), reason)


def _place(directory: int, event: Event) -> int:
    """Put an event into a directory whose sync is up to the caller; return its bytes. Raises StoreError."""
    name, data = named(event.id, ".event"), EVENT.encode(event)
    with atomic.explained(f"cannot write {name}"), contextlib.suppress(FileExistsError):
        atomic.place(directory, name, data)
    return len(data)
