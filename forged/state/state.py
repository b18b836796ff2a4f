"""The daemon's state: `state.db` opened, kept, copied once a day, and cleaned of what was forgotten.

`run` opens the file and keeps it; who needs what is in it awaits `opened`. A file that cannot be opened ends
nothing: `problem` says why, nothing is injected and captured if something may have been paused, what has to
be durable is refused with the reason, and every five seconds it is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.errors import StoreError
from forged.files import atomic
from forged.state import daily_copy, damage
from forged.state.absences import Absences
from forged.state.accesses import Accesses
from forged.state.agents import AgentRow, Agents, all_agents
from forged.state.database import Database, Registered, explained
from forged.state.details import Detail, Details, all_details
from forged.state.event_rows import Stored, stored
from forged.state.event_values import Document
from forged.state.events import Events
from forged.state.excludes import Exclude, Excludes, all_excludes
from forged.state.foreign import PAGE, foreign
from forged.state.forgotten import Forgotten
from forged.state.heard import Heard, Watermark, all_heard
from forged.state.injections import Injections, all_injections
from forged.state.injections import Row as InjectionRow
from forged.state.intents import Intent, Intents, all_intents
from forged.state.judged import Judged, all_judged
from forged.state.judged import Row as JudgedRow
from forged.state.learned import Learned, Progress, all_learned
from forged.state.outbound import DayOut, Outbound, all_left
from forged.state.outbox import Outbox, all_waiting
from forged.state.outbox import Write as OutWrite
from forged.state.parts import Parts, all_parts
from forged.state.parts import Row as PartRow
from forged.state.pauses import CHANGED, Pauses
from forged.state.replicas import Replica, Replicas, all_replicas
from forged.state.requests import Receipts, Requests
from forged.state.spending import Spending, Spent, all_spent
from forged.state.tables import rows, value_of
from forged.state.to_review import ToReview, all_to_review
from forged.state.told import Count, Told, all_told, all_uses
from forged.state.told import Row as ToldRow
from forged.state.trust import Kept, TrustRecords, all_kept

if TYPE_CHECKING:
    from sqlite3 import Connection

    from forged.models import Governor

logger = logging.getLogger(__name__)

_SAVE_EVERY_S = 5.0
_COPY_EVERY_S = 24 * 3600.0


class _Contents(msgspec.Struct, frozen=True):
    """All that is read when the file is opened."""

    events: Stored
    forgotten: tuple[tuple[str, int], ...]
    pauses: tuple[str, ...]
    spending: tuple[Spent, ...]
    trust: Kept
    outbound: tuple[DayOut, ...]
    intents: tuple[Intent, ...]
    heard: tuple[tuple[str, Watermark], ...]
    parts: tuple[PartRow, ...]
    told: tuple[ToldRow, ...]
    uses: tuple[Count, ...]
    to_review: tuple[Document, ...]
    judged: tuple[JudgedRow, ...]
    injections: tuple[InjectionRow, ...]
    agents: tuple[AgentRow, ...]
    learned: tuple[tuple[str, Progress], ...]
    outbox: tuple[tuple[int, OutWrite], ...]
    details: tuple[tuple[str, Detail], ...]
    tables: tuple[Callable[[], object], ...]
    replicas: tuple[tuple[str, Replica], ...]
    excludes: tuple[Exclude, ...]
    doubt: str
    pauses_changed_at: str


class State:
    """One for the daemon; lives in its event loop.

    `tried` is set when the file is open or is known not to open now; `problem` is why not, or nothing.
    """

    def __init__(self, directory: str, governor: Governor, address: str = "") -> None:
        """Take absolute paths of the state directory, which is made if it is missing, and of the socket."""
        self._directory = directory
        self._path = os.path.join(directory, "state.db")
        self._copy = os.path.join(directory, "state.copy")
        self._database = Database(self._path, address)
        self._opening: asyncio.Task[None] | None = None
        self.tried = asyncio.Event()
        self._copied_at = float("-inf")
        self.problem = ""
        self.events = Events(self._database)
        self.forgotten = Forgotten(self._database)
        self.pauses = Pauses(self._database)
        self.spending = Spending(self._database, governor)
        self.trust = TrustRecords(self._database, lambda: self.pauses.doubt)
        self.outbound = Outbound(self._database)
        self.intents = Intents(self._database)
        self.details = Details(self._database)
        self.requests = Requests(self._database, self.trust, self.details)
        self.receipts = Receipts(self._database)
        self.heard = Heard()
        self.parts = Parts(self._database)
        self.told = Told(self._database)
        self.to_review = ToReview(self._database)
        self.judged = Judged(self._database)
        self.injections = Injections(self._database)
        self.agents = Agents(self._database)
        self.learned = Learned()
        self.outbox = Outbox(self._database)
        self.accesses = Accesses(self._database)
        self.absences = Absences(self._database)
        self.replicas = Replicas(self._database)
        self.excludes = Excludes(self._database)

    # --- life -----------------------------------------------------------------------------------------

    async def opened(self, timeout_s: float | None = None) -> None:
        """Wait until the file is open, or is known not to open now, or the time is over."""
        if not self.tried.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.tried.wait()

    async def run(self) -> None:
        """Open the file, then write every five seconds what may wait so long, until cancelled."""
        while True:
            if self._database.is_open:
                await self._save()
                await self._keep_copy()
            else:
                await self._open()
            await asyncio.sleep(_SAVE_EVERY_S)

    async def close(self) -> None:
        """Write what is left and close the file."""
        self.events.stop()
        if self._database.is_open:
            await self._save()
        await self._database.close()

    async def _save(self) -> None:
        with contextlib.suppress(StoreError):
            await self._database.sign()
        await self.spending.save()
        await self.outbound.save()
        await self.told.save()
        await self.judged.save()
        await self.injections.save()
        await self.agents.save()
        for table in self._database.tables:
            await table.save()

    @property
    def trouble(self) -> str:
        """Why nothing is kept, or nothing is injected, wherever one looks; or nothing."""
        return (self.problem or self.pauses.doubt) if self.tried.is_set() else ""

    @property
    def silenced_at(self) -> float:
        """Time of the last forget, or start or end of a pause, in Unix seconds; 0 for never.

        Nothing that was said before is looked for afterwards.
        """
        return max(self.forgotten.newest, self.pauses.changed_at)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, for status and doctor."""
        told = [self.problem, self.pauses.doubt] if self.tried.is_set() else []
        if self._database.journal not in ("", "wal"):
            told.append(f"{self._path} has a rollback journal, as this file system cannot do better: slower")
        return tuple(dict.fromkeys(filter(None, told)))

    async def foreign(self) -> tuple[str, ...]:
        """What lies in the state directory and is not ours, for status and doctor."""
        return await asyncio.to_thread(foreign, self._directory)

    async def _open(self) -> None:
        try:
            found = await self._database.open(self._prepare, partial(_read, self._database.tables))
        except StoreError as error:
            if self.problem != str(error):
                logger.warning("state cannot be used error=%s", error)
            self.problem = str(error)
            self.pauses.doubt = self.problem if self._may_hold_pauses() else ""
        else:
            self.problem = ""
            self.heard.restore(found.heard)
            self.parts.restore(found.parts)
            self.events.restore(found.events)
            self.forgotten.restore(found.forgotten)
            self.pauses.restore(found.pauses, found.doubt, found.pauses_changed_at)
            self.spending.restore(found.spending)
            self.trust.restore(found.trust)
            self.outbound.restore(found.outbound)
            self.intents.restore(found.intents)
            self.told.restore(found.told, found.uses)
            self.to_review.restore(found.to_review)
            self.judged.restore(found.judged)
            self.injections.restore(found.injections)
            self.agents.restore(found.agents)
            self.learned.restore(found.learned)
            self.outbox.restore(found.outbox)
            self.details.restore(found.details)
            for take_over in found.tables:
                take_over()
            self.replicas.restore(found.replicas)
            self.excludes.restore(found.excludes)
        self.tried.set()

    def _may_hold_pauses(self) -> bool:
        """Whether an earlier daemon may have written down a pause."""
        return os.path.lexists(self._path) or os.path.lexists(self._copy)

    def _prepare(self, path: str) -> Connection:
        with explained(path):
            return damage.open_whole(path, self._copy)

    # --- what is kept beside the file ------------------------------------------------------------------

    async def _keep_copy(self) -> None:
        """Once a day: copy what must not be lost."""
        now = time.monotonic()
        if now - self._copied_at < _COPY_EVERY_S:
            return
        self._copied_at = now
        try:
            data = await self._database.run(daily_copy.contents)
            await asyncio.to_thread(daily_copy.write, self._copy, data)
        except StoreError as error:
            logger.warning("no copy of the state error=%s", error)

    async def erase_traces(self) -> None:
        """Leave no byte of what was removed: not in the file, nor in what was set aside or shown.

        Raises StoreError.
        """
        await self._database.erase_traces()
        page = os.path.join(self._directory, PAGE)
        await asyncio.to_thread(self._remove, (*damage.set_aside(self._path), page))

    def _remove(self, paths: Sequence[str]) -> None:
        with atomic.explained(f"cannot tidy {self._directory}"):
            for path in paths:
                if os.path.lexists(path):
                    os.unlink(path)


def _read(tables: Sequence[Registered], connection: Connection) -> _Contents:
    return _Contents(
        events=stored(connection),
        forgotten=tuple((str(key), int(at or 0)) for key, at in rows(connection, "forgotten")),
        pauses=tuple(str(place) for (place,) in rows(connection, "pauses")),
        spending=all_spent(connection),
        trust=all_kept(connection),
        outbound=all_left(connection),
        intents=all_intents(connection),
        heard=all_heard(connection),
        parts=all_parts(connection),
        told=all_told(connection),
        uses=all_uses(connection),
        to_review=all_to_review(connection),
        judged=all_judged(connection),
        injections=all_injections(connection),
        agents=all_agents(connection),
        learned=all_learned(connection),
        outbox=all_waiting(connection),
        details=all_details(connection),
        tables=tuple(table.load(connection) for table in tables),
        replicas=all_replicas(connection),
        excludes=all_excludes(connection),
        doubt=value_of(connection, damage.NOTE),
        pauses_changed_at=value_of(connection, CHANGED),
    )
