"""Every way in which a memory goes from the tables of `state.db`, for all tables at once.

*Forgotten*: its rows are erased. *Trashed*: they go with its file and come back with it. *Moved*: they are
those of the memory that it became. *Absent*: its file is missing, after an `rm` by hand, a branch switch or a
stash; days are counted on which the root could be listed, and `due` names those to be forgotten. A root is
known by its path, and by the identities under which its files may be on record.
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
from forged.state.injected_sets import InjectedSets, Injections
from forged.state.outbox import Outbox
from forged.state.rows import MemoryRows, Rows, key_of
from forged.state.to_review import ToReview
from forged.state.trust import TrustRecords

# Days of absence that a row outlives: where git may bring the file back, and where nothing can.
KEPT_DAYS, GONE_DAYS = 90, 7
_MOST_ROOTS, _MOST_ABSENT = 1 << 14, 1 << 17


class TrashedRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rows of one memory that the trash holds; `sessions` is how many searched for it."""

    facts: Facts = UNKNOWN
    access: Access = Access()
    sessions: int = 0


class RootIds(msgspec.Struct, frozen=True):
    """A root by its path, and by the identities under which its files may be on record, its own first."""

    top: str
    identities: tuple[str, ...] = ()


class MoveTarget(msgspec.Struct, frozen=True):
    """The memory that others were moved to, and where it is."""

    id: str
    version: int
    top: str
    scope: str


class RootListing(msgspec.Struct, frozen=True):
    """Result of a look at a root of which every folder could be listed on a `day` (UTC, YYYY-MM-DD).

    `seen` are ids of memories with a file. `unread` are names, without an end, of files that no memory could
    be read from. `place` is the root's identity with the device that its folders lie on.
    """

    root: RootIds
    place: str
    day: str
    seen: frozenset[str]
    unread: frozenset[str] = frozenset()


class Absence(msgspec.Struct, frozen=True):
    """The first and the last day on which a file was missing (UTC, YYYY-MM-DD), and how many days counted."""

    first: str
    last: str
    days: int = 1


class Absences(MemoryRows[Absence]):
    """One for the daemon, durable. A memory that is seen again is `forgotten` here."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "absences", Absence, durable=True, most=_MOST_ABSENT)

    def absent(self, root: str, memory_ids: Iterable[str], day: str) -> Change:
        """Count a day on which the files of these memories are missing."""
        counted: dict[str, Absence | None] = {}
        for key in (key_of(root, each) for each in memory_ids):
            known = self.get(key)
            if known is None:
                counted[key] = Absence(day, day)
            elif known.last < day:
                counted[key] = Absence(known.first, day, known.days + 1)
        return self.change(counted, renew=False)


class Removal:
    """One for the daemon. What changes a table is durable on return, or raises StoreError."""

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

    async def forgotten(self, root: RootIds, ids: Collection[str], contents: Collection[str] = ()) -> None:
        """Erase all rows of memories, and the texts that nobody may keep."""
        await self._injections.forget(root.top, ids)
        await self._injected_sets.forget(root.top, ids)  # uses, too
        await self._accesses.forget(root.top, ids)
        await self._capture_log.forget(ids, contents)
        await self._rest_forgotten(root, ids)

    def trashed(self, top: str, ids: Collection[str]) -> dict[str, TrashedRows]:
        """Return the rows of memories by id, for the trash to hold; `forgotten` erases them then."""
        facts, accesses = self._attributes.trashed(top, ids), self._accesses.trashed(top, ids)
        uses = self._injected_sets.uses.trashed(top, ids)
        return {
            each: TrashedRows(facts.get(each, UNKNOWN), accesses.get(each, Access()), uses.get(each, 0))
            for each in ids
        }

    async def returned(self, top: str, rows: Mapping[str, TrashedRows]) -> None:
        """Give rows back that the trash held, by id."""
        await self._attributes.put(top, {each: row.facts for each, row in rows.items()})
        found = {each: row.access for each, row in rows.items() if row.access.count}
        uses = {each: row.sessions for each, row in rows.items() if row.sessions}
        await self._database.commit(
            self._accesses.returned(top, found),
            self._injected_sets.uses.returned(top, uses),
            self._absences.forgotten(top, rows),
        )

    async def moved(self, root: RootIds, ids: Collection[str], became: MoveTarget) -> None:
        """Give the rows of a chain, the oldest first, to the memory that it became.

        Its attributes went with its text, as its scope may have no such type.
        """
        await self._injections.moved(root.top, ids, became.top, became.id, became.version)
        await self._injected_sets.moved(root.top, ids, became.top, became.id, became.version)
        await self._database.commit(
            self._accesses.moved(root.top, ids, became.top, became.id),
            self._injected_sets.uses.moved(root.top, ids, became.top, became.id),
        )
        await self._capture_log.moved(ids, became.id, became.top, became.scope)
        await self._rest_forgotten(root, ids)

    async def _rest_forgotten(self, root: RootIds, ids: Collection[str]) -> None:
        await self._attributes.forget(root.top, ids)
        await self._outbox.forget(ids)
        await self._to_review.forget(root.top, ids)
        await self._trust.disown(root.identities, ids)
        await self._absences.forget(root.top, ids)

    def known(self) -> dict[str, set[str]]:
        """Return the ids of memories that a table has rows of, by the path of their root.

        What is on record of files alone is under the root's identity: `known_as` has these.
        """
        found: dict[str, set[str]] = {each.top: set() for each in self._trust.roots()}
        for key in chain(self._attributes, self._accesses, self._injected_sets.uses, self._absences):
            top, _, memory_id = key.rpartition("\n")
            found.setdefault(top, set()).add(memory_id)
        for top, memory_id in chain(self._injected_sets.memories(), self._injections.memories()):
            found.setdefault(top, set()).add(memory_id)
        return {top: ids for top, ids in found.items() if os.path.isabs(top)}

    def known_as(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the files that this daemon wrote into a root with these identities."""
        return set(chain(*map(self._trust.own, identities)))

    def seen(self, top: str, ids: Iterable[str]) -> None:
        """Take note of memories that are in a map: between two looks a file may come and go."""
        if missing := self._absences.of_root(top).keys():
            self._seen.setdefault(top, set()).update(missing & set(ids))

    async def noticed(self, look: RootListing, known: Collection[str]) -> None:
        """Count a day for each memory that is known and has no file, and none for the others.

        A look counts only where the root is the one at which these memories, or some of them, were seen last.
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
            await self._database.commit(self._absences.absent(top, missing, look.day))

    def _is_own(self, look: RootListing) -> bool:
        return any(map(self._trust.own, look.root.identities))

    def due(self, look: RootListing, tracked: Collection[str]) -> tuple[str, ...]:
        """Return the memories whose rows are to go: their files were missing on too many days.

        `tracked` are those whose file git may bring back.
        """
        return tuple(
            each
            for each, days in self._missing(look)
            if days > KEPT_DAYS or (days > GONE_DAYS and each not in tracked and each not in look.unread)
        )

    def in_question(self, look: RootListing) -> tuple[str, ...]:
        """Return the memories for which `due` has to know whether git tracked their file."""
        return tuple(each for each, days in self._missing(look) if GONE_DAYS < days <= KEPT_DAYS)

    def _missing(self, look: RootListing) -> Iterator[tuple[str, int]]:
        if self._places.get(look.root.top) == look.place:
            for memory_id, absence in self._absences.of_root(look.root.top).items():
                if memory_id not in look.seen:
                    yield memory_id, absence.days
