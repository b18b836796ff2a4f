"""The daemon's state: opens `state.db`, saves it, copies it daily, and erases forgotten data.

`run` opens the file and keeps it open; users of the file await `wait_until_open`. A file that cannot be
opened stops nothing. `problem` says why, injection and capture stop if something may have been paused,
durable writes are refused with the reason, and the open is repeated every five seconds.
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

from forged.attributes import Facts
from forged.errors import StoreError
from forged.files import atomic
from forged.memory import utc
from forged.state import daily_copy, damage
from forged.state.attributes import Accesses, Attributes
from forged.state.capture_log import CaptureLog
from forged.state.captures import CaptureCursors, CaptureParts, LearnedSessions
from forged.state.daily_counts import Agents, EgressCounts, Spending
from forged.state.database import Database, explained
from forged.state.events import EventStore
from forged.state.forgotten import ForgottenTexts
from forged.state.ingested import IngestedFiles
from forged.state.injected_sets import InjectedSets, Injections
from forged.state.intents import Intents
from forged.state.outbox import Outbox
from forged.state.pauses import Pauses
from forged.state.removal import Absences, Removal
from forged.state.replicas import OwnRemovalMarks, Replicas, ServerClock
from forged.state.requests import Receipts, Requests
from forged.state.to_review import ToReview
from forged.state.trust import Excludes, TrustRecords
from forged.state.unexpected_files import PAGE, unexpected_files

if TYPE_CHECKING:
    from sqlite3 import Connection

    from forged.models import Governor

logger = logging.getLogger(__name__)

_SAVE_EVERY_S = 5.0
_COPY_EVERY_S = 24 * 3600.0


class State:
    """State of the daemon: opens, saves and copies `state.db` and has all its tables; in the event loop.

    `tried` is set when the file is open or could not be opened; `problem` is the reason, or "".
    """

    def __init__(self, directory: str, governor: Governor, address: str = "") -> None:
        """Take absolute paths of the state directory, which is created if missing, and of the socket."""
        self._directory = directory
        self._path = os.path.join(directory, "state.db")
        self._copy = os.path.join(directory, "state.copy")
        self._database = Database(self._path, address)
        self._opening: asyncio.Task[None] | None = None
        self.tried = asyncio.Event()
        self._copied_at = float("-inf")
        self.problem = ""
        self.events = EventStore(self._database)
        self.forgotten = ForgottenTexts(self._database)
        self.pauses = Pauses(self._database)
        self.spending = Spending(self._database, governor)
        self.trust = TrustRecords(self._database, self.pauses)
        self.egress = EgressCounts(self._database)
        self.intents = Intents(self._database)
        self.attributes = Attributes(self._database)
        self.requests = Requests(self._database, self.trust, self.attributes)
        self.receipts = Receipts(self._database)
        self.capture_cursors = CaptureCursors(self._database)
        self.parts = CaptureParts(self._database)
        self.injected_sets = InjectedSets(self._database)
        self.to_review = ToReview(self._database)
        self.capture_log = CaptureLog(self._database)
        self.injections = Injections(self._database)
        self.agents = Agents(self._database)
        self.learned = LearnedSessions(self._database)
        self.outbox = Outbox(self._database)
        self.accesses = Accesses(self._database)
        self.absences = Absences(self._database)
        self.server_clock = ServerClock(self._database)
        self.replicas = Replicas(self._database, self.server_clock.now)
        self.removal_marks = OwnRemovalMarks(self.replicas)
        self.excludes = Excludes(self._database)
        self.ingested = IngestedFiles(self._database)
        self.removal = Removal(
            self._database,
            attributes=self.attributes,
            accesses=self.accesses,
            injected_sets=self.injected_sets,
            injections=self.injections,
            capture_log=self.capture_log,
            to_review=self.to_review,
            outbox=self.outbox,
            trust=self.trust,
            absences=self.absences,
        )

    def facts(self, root: str, memory_id: str) -> Facts:
        """Return the attributes of a memory of a root, with its access count and last access."""
        access = self.accesses.of(root, memory_id)
        return msgspec.structs.replace(
            self.attributes.of(root, memory_id),
            access_count=access.count,
            last_accessed=utc(access.last / 1000) if access.last else "",
        )

    async def wait_until_open(self, timeout_s: float | None = None) -> None:
        """Wait until the file is open, could not be opened, or the timeout is over."""
        if not self.tried.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.tried.wait()

    async def run(self) -> None:
        """Open the file, then save pending rows every five seconds and copy it daily, until cancelled."""
        while True:
            if self._database.is_open:
                await self._save()
                await self._copy_daily()
            else:
                await self._open()
            await asyncio.sleep(_SAVE_EVERY_S)

    async def close(self) -> None:
        """Stop retries, save pending rows, and close the file."""
        self.events.stop()
        if self._database.is_open:
            await self._save()
        await self._database.close()

    async def _save(self) -> None:
        """Write the holder's record and the write-behind rows of all tables to the file."""
        with contextlib.suppress(StoreError):
            await self._database.sign()
        for table in self._database.tables:
            await table.save()

    @property
    def trouble(self) -> str:
        """Return why nothing can be saved, or nothing is injected and captured anywhere; or ""."""
        return (self.problem or self.pauses.doubt) if self.tried.is_set() else ""

    @property
    def silenced_at(self) -> float:
        """Return the time of the last forget, or start or end of a pause, in Unix seconds; 0 for never.

        Older messages are not looked for after that time.
        """
        return max(self.forgotten.newest_at, self.pauses.changed_at)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return sentences for status and doctor: a problem, a doubt about pauses, a slow journal."""
        sentences = [self.problem, self.pauses.doubt] if self.tried.is_set() else []
        if self._database.journal not in ("", "wal"):
            sentences.append(
                f"{self._path} has a rollback journal, as this file system cannot do better: slower"
            )
        return tuple(dict.fromkeys(filter(None, sentences)))

    async def unexpected_files(self) -> tuple[str, ...]:
        """Return sentences about unexpected entries of the state directory, for status and doctor."""
        return await asyncio.to_thread(unexpected_files, self._directory)

    async def _open(self) -> None:
        """Try to open the file and take over all its tables; set `tried`, and `problem` if it fails."""
        try:
            loaded = await self._database.open(self._prepare, self._load_tables)
        except StoreError as error:
            if self.problem != str(error):
                logger.warning("state cannot be used error=%s", error)
            self.problem = str(error)
            self.pauses.doubt = self.problem if self._may_hold_pauses() else ""
        else:
            self.problem = ""
            for take_over in loaded:
                take_over()
        self.tried.set()

    def _may_hold_pauses(self) -> bool:
        """Return True if the file or its copy exists, and so may contain pauses."""
        return os.path.lexists(self._path) or os.path.lexists(self._copy)

    def _prepare(self, path: str) -> Connection:
        """Open the file at `path`, repaired if damaged, new if of an older format. Raises StoreError."""
        with explained(path):
            return damage.open_or_repair(path, self._copy, self._database.tables)

    def _load_tables(self, connection: Connection) -> list[Callable[[], object]]:
        """Read all tables; return the functions that take their rows over in the event loop."""
        return [table.load(connection) for table in self._database.tables]

    async def _copy_daily(self) -> None:
        """Write the daily copy of the tables that must survive damage, once a day. Raises nothing."""
        now = time.monotonic()
        if now - self._copied_at < _COPY_EVERY_S:
            return
        self._copied_at = now
        try:
            copied = [table.name for table in self._database.tables if table.is_copied]
            data = await self._database.run(partial(daily_copy.contents, copied))
            await asyncio.to_thread(daily_copy.write, self._copy, data)
        except StoreError as error:
            logger.warning("no copy of the state error=%s", error)

    async def erase_traces(self) -> None:
        """Rewrite the file without traces of removed rows; delete set-aside files and the ui page.

        Raises StoreError.
        """
        await self._database.erase_traces()
        page = os.path.join(self._directory, PAGE)
        await asyncio.to_thread(self._remove, (*damage.set_aside(self._path), page))

    def _remove(self, paths: Sequence[str]) -> None:
        """Delete those of these files that exist. Raises StoreError."""
        with atomic.explained(f"cannot tidy {self._directory}"):
            for path in paths:
                if os.path.lexists(path):
                    os.unlink(path)
