"""What forged 0.1.0 left on disk becomes rows of `state.db`, once; then the old files lie in a backup folder.

It kept events in `spool/` (`<id>.event`, and `<id>.documents` with what was decided), those it gave up in
`dead/` (`<id>.dead`), and `forgotten`, `paused.json` and `cost.json` beside them. Rows are written in one
transaction together with the names of the files they come from. Then the files are moved; a start that finds
files that were taken over already only moves them. So a kill at any moment loses nothing and doubles nothing.
What cannot be read today stays, with all that belongs to it; what is damaged is among the dead, as it was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from forged.files import atomic
from forged.memory import utc_now
from forged.state import tables
from forged.state.damage import NOTE
from forged.state.database import explained, transaction
from forged.state.event_rows import dead_row
from forged.state.event_values import Document, Event, encoded
from forged.state.pauses import EVERYWHERE
from forged.state.spending import all_spent, put_spent

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

T = TypeVar("T")

BACKUP = "state-0.1.0"
_TAKEN = "taken_over"
_FOLDERS = ("dead", "spool")
_FILES = ("forgotten", "paused.json", "cost.json")
_NAME = re.compile(r"(ev_[A-Za-z0-9_-]{1,64})\.(event|documents|dead)")
_HEADER = re.compile(rb"forged-(event|documents|dead) ([0-9]{1,9})\n")
_DIGEST = re.compile(rb"^([0-9a-f]{32}) (\d{10})$", re.MULTILINE)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSED_UNKNOWN = (
    "paused.json of 0.1.0 is damaged; nothing is injected and captured, because a pause of yours may be "
    "lost; `forgectl resume --all` ends that"
)


class _Dead(msgspec.Struct, frozen=True):
    event: Event
    reason: str
    died_at: str
    documents: tuple[Document, ...] | None = None


class _Paused(msgspec.Struct, frozen=True):
    """No field has a default: a file that says less than this is damaged."""

    everywhere: bool
    tops: frozenset[str]


class _Day(msgspec.Struct, frozen=True):
    day: str
    purpose: str
    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Cost(msgspec.Struct, frozen=True):
    days: tuple[_Day, ...]


class _Stays(Exception):  # noqa: N818 - reads as what happens
    """A file is not ours to judge, or may be readable another day; the message is the reason."""


def take_over(connection: Connection, directory: str) -> tuple[str, ...]:
    """Take over what lies in a state directory; return sentences on what stays there. Raises StoreError."""
    with explained(directory):
        found = _old_files(directory)
        if not found:
            return ()
        taken = frozenset(tables.value_of(connection, _TAKEN).split("\n"))
        taking = _Taking(directory, [name for name in found if name not in taken])
        done = [name for name in found if name in taken or name not in taking.staying]
        with transaction(connection):
            taking.write(connection)
            tables.put(connection, "meta", _TAKEN, "\n".join(done))
        _move(directory, done)
        with transaction(connection):
            tables.remove(connection, "meta", _TAKEN)
    logger.info("old state taken over files=%d kept_in=%s", len(done), os.path.join(directory, BACKUP))
    return tuple(f"{os.path.join(directory, name)} stays: {why}" for name, why in taking.staying.items())


def backups(directory: str) -> list[str]:
    """Paths of the folders that old files were moved to."""
    with contextlib.suppress(FileNotFoundError):
        return [entry.path for entry in os.scandir(directory) if entry.name.startswith(BACKUP)]
    return []


def _old_files(directory: str) -> list[str]:
    """Names of old files, relative to the directory."""
    found = []
    for folder in _FOLDERS:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            listed = sorted(os.listdir(os.path.join(directory, folder)))
            found += [os.path.join(folder, name) for name in listed if _NAME.fullmatch(name)]
    return found + [name for name in _FILES if os.path.lexists(os.path.join(directory, name))]


class _Taking:
    """What a number of old files say. `staying` holds those that are left alone, and why."""

    def __init__(self, directory: str, names: Collection[str]) -> None:
        self.staying: dict[str, str] = {}
        self._directory = directory
        self._contents: dict[str, bytes] = {}
        for name in names:
            self._read(name)
        kept = {_event_id(name) for name in self.staying} - {""}
        for name in names:
            if _event_id(name) in kept:
                self.staying.setdefault(name, "another file of the same event stays")
                self._contents.pop(name, None)

    def write(self, connection: Connection) -> None:
        """Write the rows, in a transaction of the caller's."""
        for event_id in {_event_id(name) for name in self._contents} - {""}:
            self._write_event(connection, event_id)
        if (data := self._contents.get("forgotten")) is not None:
            _write_forgotten(connection, data)
        if (data := self._contents.get("paused.json")) is not None:
            _write_pauses(connection, data)
        if (data := self._contents.get("cost.json")) is not None:
            _write_spending(connection, data)

    def _read(self, name: str) -> None:
        try:
            data = _content(os.path.join(self._directory, name))
        except OSError as error:
            self.staying[name] = atomic.why(error)
        except _Stays as reason:
            self.staying[name] = str(reason)
        else:
            self._contents[name] = data

    def _write_event(self, connection: Connection, event_id: str) -> None:
        """Decide where an event belongs. One that was being given up is dead, if the dead file is whole."""
        dead = _DEAD.read(self._contents.get(f"dead/{event_id}.dead"), event_id)
        event = _EVENT.read(self._contents.get(f"spool/{event_id}.event"), event_id)
        journal = self._contents.get(f"spool/{event_id}.documents")
        documents = _DOCUMENTS.read(journal, event_id)
        if dead is None and documents is None and (event is None or journal is not None):
            dead = self._lost(event_id, event)
        if dead is not None:
            row = dead_row(dead.event, dead.reason, dead.died_at, dead.documents)
            tables.put(connection, "dead", *row)
            return
        if event is not None:
            tables.put(connection, "events", event.id, encoded(event))
        if documents is not None:
            tables.put(connection, "journal", event_id, encoded(documents))

    def _lost(self, event_id: str, event: Event | None) -> _Dead:
        """What a person is told of an event that cannot be used as it is."""
        if event is not None:
            return _Dead(event, "its journal is unreadable", utc_now())
        reason = f"unreadable; its file is in {os.path.join(self._directory, BACKUP)} for 7 days"
        return _Dead(Event(id=event_id, received_at=""), reason, utc_now())


class _Form(Generic[T]):
    """One kind of old file: a line that says what it is, and a value in JSON."""

    def __init__(self, word: bytes, type_: type[T]) -> None:
        self._word = word
        self._decoder = msgspec.json.Decoder(type_)

    def read(self, data: bytes | None, event_id: str) -> T | None:
        """The value, None if there is no file or it is damaged."""
        header = None if data is None else _HEADER.match(data)
        if data is None or header is None or header[1] != self._word:
            return None
        try:
            value = self._decoder.decode(memoryview(data)[header.end() :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # An empty value is an event of a new id: the id says that this is the one that was stored.
        event = value.event if isinstance(value, _Dead) else value
        return None if isinstance(event, Event) and event.id != event_id else value


_EVENT = _Form(b"event", Event)
_DOCUMENTS: _Form[tuple[Document, ...]] = _Form(b"documents", tuple[Document, ...])
_DEAD = _Form(b"dead", _Dead)


def _write_forgotten(connection: Connection, data: bytes) -> None:
    for digest, at in _DIGEST.findall(data):
        tables.put(connection, "forgotten", digest.decode(), int(at))


def _write_pauses(connection: Connection, data: bytes) -> None:
    try:
        found = msgspec.json.decode(data, type=_Paused)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tables.put(connection, "meta", NOTE, _PAUSED_UNKNOWN)
        return
    for place in (*found.tops, *([EVERYWHERE] if found.everywhere else ())):
        tables.put(connection, "pauses", place)


def _write_spending(connection: Connection, data: bytes) -> None:
    try:
        found = msgspec.json.decode(data, type=_Cost)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        logger.warning("costs are counted anew, cost.json of 0.1.0 is damaged error=%s", error)
        return
    known = {spent[:2] for spent in all_spent(connection)}
    for spent in map(msgspec.structs.astuple, found.days):
        if spent[:2] not in known:
            put_spent(connection, spent)


def _event_id(name: str) -> str:
    """Id of the event that a file belongs to, or nothing."""
    match = _NAME.fullmatch(os.path.basename(name))
    return match[1] if match is not None and os.path.dirname(name) in _FOLDERS else ""


def _content(path: str) -> bytes:
    descriptor = os.open(path, _READ)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise _Stays("not a regular file of this user")
        data = file.read()
    if (header := _HEADER.match(data)) is not None and int(header[2]) > 1:
        raise _Stays(f"written by a newer forged (format {int(header[2])})")
    return data


def _move(directory: str, names: Sequence[str]) -> None:
    """Move old files, and leave nothing of the folders they were in but what is not ours."""
    for name in names:
        target = os.path.join(directory, BACKUP, name)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        os.rename(os.path.join(directory, name), target)
    for folder in _FOLDERS:
        path = os.path.join(directory, folder)
        atomic.sweep_at(path, float("inf"))  # of writers that were killed: nobody was told of these
        with contextlib.suppress(OSError):
            os.rmdir(path)
