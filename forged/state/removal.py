"""Remove memories from all tables of `state.db`, for each way in which a memory goes.

*Forgotten*: its rows are erased. *Trashed*: its rows go with the file and come back with it. *Moved*: its
rows become those of its new memory. *Absent*: its file is missing, after an `rm`, a branch switch or a stash.
Days on which the root could be listed are counted, and `expired` names the memories to be forgotten. A root
is known by its path and by the identities under which its files may be recorded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.state.attributes import Access, Accesses, Attributes
from forged.state.capture_log import CaptureLog
from forged.state.database import Change, Database
from forged.state.ingested import IngestedFile
from forged.state.injected_sets import InjectedSets, Injections
from forged.state.outbox import Outbox
from forged.state.rows import MemoryRows, Rows, key_of
from forged.state.to_review import ToReview
from forged.state.trust import TrustRecords

# Days of absence after which rows are erased: where git may bring the file back, and elsewhere.
KEPT_DAYS, GONE_DAYS = 90, 7
_MOST_ROOTS, _MOST_ABSENT = 1 << 14, 1 << 17


class TrashedRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attributes and access count of a memory in the trash, and the `sessions` that found it by search.

    `file` is the ingested file of a document's piece.
    """

    facts: Facts = UNKNOWN
    access: Access = Access()
    sessions: int = 0
    file: IngestedFile | None = None


class RootIds(msgspec.Struct, frozen=True):
    """A root by its path, and the identities under which its files may be recorded, its own first."""

    top: str
    identities: tuple[str, ...] = ()


class MoveTarget(msgspec.Struct, frozen=True):
    """The memory that others were moved to: its id and version, and the root it is in."""

    id: str
    version: int
    top: str
    scope: str


class RootListing(msgspec.Struct, frozen=True):
    """Files found in all folders of a root on a `day` (UTC, YYYY-MM-DD), to count absent memories.

    `seen` are ids of memories with a file. `unread` are names (without ending) of unreadable files. `place`
    is the root's identity with the device of its folders.
    """

    root: RootIds
    place: str
    day: str
    seen: frozenset[str]
    unread: frozenset[str] = frozenset()


class Absence(msgspec.Struct, frozen=True):
    """First and last day on which a file was missing (UTC, YYYY-MM-DD), and the number of counted days."""

    first: str
    last: str
    days: int = 1


class Absences(MemoryRows[Absence]):
    """Table of memories whose file is missing, with counted days, durable; a seen memory loses its row."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "absences", Absence, durable=True, most=_MOST_ABSENT)

    def absence_change(self, root: str, memory_ids: Iterable[str], day: str) -> Change:
        """Return a change that counts a day on which the files of these memories are missing."""
        counted: dict[str, Absence | None] = {}
        for key in (key_of(root, each) for each in memory_ids):
            known = self.get(key)
            if known is None:
                counted[key] = Absence(day, day)
            elif known.last < day:
                counted[key] = Absence(known.first, day, known.days + 1)
        return self.change(counted, renew=False)


class Removal:
    """Erases, restores and moves the rows of memories in all tables; counts days without their file.

    Each change is durable on return, or raises StoreError.
    """

    def __init__(
        self,
        database: Database,
        *,
        attributes: Attributes,
        accesses: Accesses,
        injected_sets: InjectedSets,
        injections: Injections,
        capture_log: CaptureLog,
        to_review: ToReview,
        outbox: Outbox,
        trust: TrustRecords,
        absences: Absences,
    ) -> None:
        self._attributes, self._accesses, self._absences = attributes, accesses, absences
        self._injected_sets, self._injections, self._capture_log = injected_sets, injections, capture_log
        self._to_review, self._outbox, self._trust = to_review, outbox, trust
        self._database = database
        self._places = Rows(database, "places", str, durable=True, most=_MOST_ROOTS)
        self._seen: dict[str, set[str]] = {}

    async def forget(self, root: RootIds, ids: Collection[str], contents: Collection[str] = ()) -> None:
        """Erase the rows about these memories of a root, and their texts in the capture log."""
        await self._injections.forget(root.top, ids)
        await self._injected_sets.forget(root.top, ids)  # counts of uses, too
        await self._accesses.forget(root.top, ids)
        await self._capture_log.forget(ids, contents)
        await self._forget_other_rows(root, ids)

    def rows_for_trash(self, top: str, ids: Collection[str]) -> dict[str, TrashedRows]:
        """Return attributes and counts of memories by id, to be kept in the trash with their files."""
        facts, accesses = self._attributes.rows_of(top, ids), self._accesses.rows_of(top, ids)
        uses = self._injected_sets.uses.rows_of(top, ids)
        return {
            each: TrashedRows(facts.get(each, UNKNOWN), accesses.get(each, Access()), uses.get(each, 0))
            for each in ids
        }

    async def restore_rows(self, top: str, rows: Mapping[str, TrashedRows]) -> None:
        """Write attributes and counts from the trash back, by id; the memories are no longer absent."""
        await self._attributes.put(top, {each: row.facts for each, row in rows.items()})
        found = {each: row.access for each, row in rows.items() if row.access.count}
        uses = {each: row.sessions for each, row in rows.items() if row.sessions}
        await self._database.commit(
            self._accesses.restore_change(top, found),
            self._injected_sets.uses.restore_change(top, uses),
            self._absences.erase_change(top, rows),
        )

    async def copy_counts(self, top: str, ids: Mapping[str, str]) -> None:
        """Copy the counts of memories to others of the same root, by the old id and the new one."""
        rows = self.rows_for_trash(top, ids)
        await self.restore_rows(
            top, {ids[each]: TrashedRows(UNKNOWN, row.access, row.sessions) for each, row in rows.items()}
        )

    async def move_rows(self, root: RootIds, ids: Collection[str], became: MoveTarget) -> None:
        """Give the rows of moved memories, oldest first, to their new memory; erase those that cannot move.

        Its attributes moved with the text, because the new scope may lack its type.
        """
        await self._injections.replace_moved(root.top, ids, became.top, became.id, became.version)
        await self._injected_sets.replace_moved(root.top, ids, became.top, became.id, became.version)
        await self._database.commit(
            self._accesses.move_change(root.top, ids, became.top, became.id),
            self._injected_sets.uses.move_change(root.top, ids, became.top, became.id),
        )
        await self._capture_log.record_move(ids, became.id, became.top, became.scope)
        await self._forget_other_rows(root, ids)

    async def _forget_other_rows(self, root: RootIds, ids: Collection[str]) -> None:
        """Erase the rows of memories in attributes, outbox, proposals, trust records and absences."""
        await self._attributes.forget(root.top, ids)
        await self._outbox.forget(ids)
        await self._to_review.forget(root.top, ids)
        await self._trust.disown(root.identities, ids)
        await self._absences.forget(root.top, ids)

    def known_ids(self) -> dict[str, set[str]]:
        """Return ids of memories with attributes, counts, absences or injections, by root path.

        Records of files are kept by the root's identity; `own_file_ids` returns those.
        """
        found: dict[str, set[str]] = {each.top: set() for each in self._trust.roots()}
        for key in chain(self._attributes, self._accesses, self._injected_sets.uses, self._absences):
            top, _, memory_id = key.rpartition("\n")
            found.setdefault(top, set()).add(memory_id)
        for top, memory_id in chain(self._injected_sets.memories(), self._injections.memories()):
            found.setdefault(top, set()).add(memory_id)
        return {top: ids for top, ids in found.items() if os.path.isabs(top)}

    def own_file_ids(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of files that this daemon wrote into a root with these identities."""
        return set(chain(*map(self._trust.own, identities)))

    def note_seen(self, top: str, ids: Iterable[str]) -> None:
        """Note absent memories that have a file again: the next `count_absences` clears them."""
        if missing := self._absences.of_root(top).keys():
            self._seen.setdefault(top, set()).update(missing & set(ids))

    async def count_absences(self, look: RootListing, known: Collection[str]) -> None:
        """Count a day of absence for each known memory without a file; reset the count of the others.

        A listing counts only if the root is the one at which some of these memories were seen last.
        """
        top, there = look.root.top, look.seen | self._seen.pop(look.root.top, set())
        back = there & self._absences.of_root(top).keys()
        if back:
            await self._absences.forget(top, back)
        recorded = self._places.get(top)
        if look.place != recorded and (look.seen & set(known) or (recorded is None and self._is_own(look))):
            recorded = look.place
            await self._places.store({top: recorded})
        if look.place == recorded and (missing := [each for each in known if each not in there]):
            await self._database.commit(self._absences.absence_change(top, missing, look.day))

    def _is_own(self, look: RootListing) -> bool:
        """Return True if this daemon has records of files in the listed root."""
        return any(map(self._trust.own, look.root.identities))

    def expired(self, look: RootListing, tracked: Collection[str]) -> tuple[str, ...]:
        """Return ids of memories whose rows are to be erased, as their file was missing on too many days.

        `tracked` are those whose file git may bring back.
        """
        return tuple(
            each
            for each, days in self._missing(look)
            if days > KEPT_DAYS or (days > GONE_DAYS and each not in tracked and each not in look.unread)
        )

    def in_question(self, look: RootListing) -> tuple[str, ...]:
        """Return ids of memories missing long enough that `expired` must know if git tracks their file."""
        return tuple(each for each, days in self._missing(look) if GONE_DAYS < days <= KEPT_DAYS)

    def _missing(self, look: RootListing) -> Iterator[tuple[str, int]]:
        """Yield the memories without a file in a listed root, each with the number of counted days."""
        if self._places.get(look.root.top) == look.place:
            for memory_id, absence in self._absences.of_root(look.root.top).items():
                if memory_id not in look.seen:
                    yield memory_id, absence.days
