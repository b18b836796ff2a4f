"""Search and write the team's server, and report its state.

Searches wait until a deadline, and raise SharedError at once while the server is away. `put` and `remove`
return when the data is on the server or queued in `state.db`. `run` sends queued writes, adds missing
vectors, and listens for writes of others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from forged.counters import EgressRecord
from forged.entities import possible_entity_ids
from forged.errors import ProviderError, SharedError
from forged.maps import EmbeddingQueue
from forged.memory import Scope
from forged.models import EgressGuard, Purpose, sendable
from forged.postgres import egress, spooling, statements
from forged.postgres.connecting import Connection, parameters
from forged.postgres.failures import wrong_dimension
from forged.postgres.filling import RowVectors, VectorFiller
from forged.postgres.listening import ChangeListener, OwnerChange
from forged.postgres.migrating import recorded_models
from forged.postgres.pool import Pool
from forged.postgres.relating import EntityTables, ReachedRow
from forged.postgres.replaying import WRITES, OutboxReplay, next_failure
from forged.postgres.roles import access_digest
from forged.postgres.schema import CJK, MAIN
from forged.postgres.tables import TABLES, OddRowError
from forged.postgres.values import EmbeddingModel, Settings, Stored, Vector
from forged.postgres.writing import RemovalBatch, RowWriter, without_vector
from forged.state import State, Write, WriteFailure
from forged_client.protocol import SharedReport


class RowQuery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Search for the rows nearest to a `model`'s vector with all `filters`; `vectors`: return theirs too.

    `limits`: number by scope, `least`: minimum importance; sessions that ended before `now` are left out.
    """

    vector: Vector
    limits: Mapping[Scope, int]
    now: datetime
    filters: Mapping[str, Any] = {}
    least: float = 0.0
    model: str = MAIN
    vectors: bool = False


async def recall(
    connection: Connection,
    owners: Mapping[Scope, str],
    wanted: RowQuery,
    on_odd: Callable[[str], object] = lambda _: None,
) -> dict[Scope, list[Stored]]:
    """Return the rows nearest to a query's vector by scope, in one round trip. Raises psycopg's errors.

    `on_odd` gets the id of each row that cannot be read and is left out.
    """
    cursors = {}
    async with connection.pipeline():
        for scope, owner in owners.items():
            cursors[scope] = connection.cursor(binary=True)
            await cursors[scope].execute(statement(scope, wanted), values(owner, wanted, scope))
    return {
        scope: _stored_rows(scope, await each.fetchall(), wanted, on_odd) for scope, each in cursors.items()
    }


def statement(scope: Scope, wanted: RowQuery) -> str:
    """Return the SQL that finds the rows nearest to a query's vector in one scope."""
    return statements.search(
        scope,
        wanted.model,
        dimension=len(wanted.vector),
        filters=bool(wanted.filters),
        nested=len(_nested(wanted.filters)),
        vectors=wanted.vectors,
    )


def values(owner: str, wanted: RowQuery, scope: Scope) -> dict[str, object]:
    """Return the SQL parameters for the text of `statement`: owner, vector, filters, limit, time."""
    given: dict[str, object] = {
        "owner": owner,
        "vector": wanted.vector,
        "filters": Jsonb(wanted.filters),
        "least": wanted.least,
        "now": wanted.now,
        "limit": wanted.limits[scope],
    }
    for at, (key, value) in enumerate(_nested(wanted.filters).items()):
        given |= {f"key{at}": key, f"value{at}": Jsonb(value)}
    return given


def _nested(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters with a list or an object as value, which must be equal as a whole."""
    return {key: value for key, value in filters.items() if isinstance(value, (dict, list, tuple))}


def _stored_rows(
    scope: Scope, found: list[Any], wanted: RowQuery, on_odd: Callable[[str], object]
) -> list[Stored]:
    """Convert database rows that a search found to `Stored` values; report those that cannot be."""
    columns, rows = statements.found_columns(scope, vectors=wanted.vectors), list[Stored]()
    for row in found:
        try:
            rows.append(TABLES[scope].stored(row, columns))
        except OddRowError as error:
            on_odd(str(error))
    return rows


logger = logging.getLogger(__name__)
Clock = Callable[[], datetime]

LIMITS: Mapping[Scope, int] = {Scope.SESSION: 10, Scope.USER: 5, Scope.AGENT: 3, Scope.ORG: 5}

_WRITE_S = 3.0  # a write that takes longer is queued here
_COUNT_EVERY_S, _SWEEP_EVERY_S = 5.0, 60.0
_REFUSED_SHOWN, _REASONS_SHOWN, _MOST_ODD, _MOST_HITS = 10, 3, 10, 10_000
PURPOSE = Purpose("shared")
_COUNTED = frozenset({Scope.USER, Scope.AGENT})  # rows of these scopes have counts of answers


class SharedServer:
    """Searches, durable writes and upkeep of the team's server, for the daemon; lives in the event loop."""

    name = "shared"

    def __init__(
        self,
        settings: Settings,
        *,
        state: State,
        egress: EgressGuard,
        queue: EmbeddingQueue | None = None,
        second: EmbeddingQueue | None = None,
        daemon: str = "",
        clock: Clock | None = None,
    ) -> None:
        """Take `queue`, which embeds rows, and `daemon`, the name that others see. Raises ConfigError.

        `second` embeds rows in Chinese, Japanese and Korean. `clock` gives the server's time; the default is
        `state.server_clock`.
        """
        self.scopes = settings.scopes
        self.settings = settings
        self.state = state
        self.outbox = state.outbox
        self.egress = egress
        self.vectors = RowVectors(settings, {MAIN: queue, CJK: second})
        self.daemon = daemon
        self._clock = clock
        self._pool = Pool(settings, state.server_clock.set, self._note_models)
        self.host = host_of(settings)
        self._problem = ""
        self._odd = set[str]()
        self._writers: dict[
            str, tuple[float, float]
        ] = {}  # seconds since the last write, when that was asked
        self._order = asyncio.Lock()
        self._hits: Counter[tuple[Scope, str, str]] = Counter()
        self.listening = ChangeListener(settings, self._pool.is_own)
        self.filling = VectorFiller(self._owners, writer=self.writer, vectors=self.vectors)
        self.replay = OutboxReplay(
            state,
            fitting=self.vectors.fitting,
            send=self._send,
            want_vectors=self.filling.want,
            answers=self.answers,
            access=self.access,
        )

    # --- lifecycle -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Listen, send queued writes and counts, and remove old sessions until cancelled; close the pool."""
        end = self.listen(self._on_change)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.listening.run())
                tasks.create_task(self.replay.run())
                tasks.create_task(self._upkeep())
                if self.vectors.has_models:
                    tasks.create_task(self.filling.run())
        finally:
            end()
            await self._pool.close()

    def _on_change(self, change: OwnerChange) -> None:
        """Send what waits, and missing vectors, after a lost connection: the server may be another one."""
        if not change.scope:
            self.replay.wake(ends_pauses=True)
            self.filling.want(0)
        elif self.vectors.is_usable(CJK):  # the writer may lack the second model
            self.filling.want(0)

    def condition(self) -> SharedReport:
        """Return the state of the server, for status, doctor and `degraded`."""
        replayed_s = self.replay.age_s
        refused = [
            f"{each.kind} {each.id}: {each.failure.reason}" for each in self.outbox.refused if each.failure
        ]
        reasons = sorted(self.outbox.troubles.items(), key=lambda each: -each[1])
        return msgspec.structs.replace(
            self._pool.health.condition(self.host),
            scopes=tuple(sorted(map(str, self.scopes))),
            problem=self._problem,
            waiting=self.outbox.count(WRITES),
            waits=tuple(f"{number}: {reason}" for reason, number in reasons[:_REASONS_SHOWN]),
            without_vector=self.filling.missing if self.vectors.has_models else 0,
            odd=tuple(sorted(self._odd)),
            refused=tuple(refused[:_REFUSED_SHOWN]),
            replayed_s=None if replayed_s is None else round(replayed_s, 1),
            listening=self.listening.is_connected,
            writers={
                name: round(age_s + time.monotonic() - at, 1) for name, (age_s, at) in self._writers.items()
            },
        )

    def now(self) -> datetime:
        """Return the server's time, also while it is away."""
        return (
            datetime.fromtimestamp(self.state.server_clock.now(), UTC)
            if self._clock is None
            else self._clock()
        )

    def listen(self, on_change: Callable[[OwnerChange], None]) -> Callable[[], None]:
        """Register a callback for changes by other daemons; return a function that removes it."""
        return self.listening.listen(on_change)

    @contextlib.asynccontextmanager
    async def writer(self, deadline: float) -> AsyncIterator[RowWriter]:
        """Lend a RowWriter with a connection of the pool. Raises SharedError."""
        async with self.connection(deadline) as connection:
            yield RowWriter(connection, self.daemon, self.vectors.fitting)

    @contextlib.asynccontextmanager
    async def connection(self, deadline: float) -> AsyncIterator[Connection]:
        """Lend a pooled connection; record why a server that answers is unusable. Raises SharedError."""
        is_made = False
        try:
            async with self._pool.connection(deadline) as connection:
                is_made, self._problem = True, ""
                yield connection
        except SharedError as error:
            if is_made or error.is_away:
                raise
            self._problem = str(error)
            raise SharedError(str(error), reason="unusable") from error

    @property
    def is_failing(self) -> bool:
        """True from a failure of the server until it answers again."""
        return self._pool.health.trouble is not None

    async def answers(self) -> bool:
        """Return True if the server takes a new connection after a failure; it is asked again then."""
        return await self._pool.recovers()

    async def access(self) -> str:
        """Return a digest of the rights and models that refused writes depend on. Raises SharedError."""
        async with self.connection(time.monotonic() + _WRITE_S) as connection:
            return f"{self.settings.models} {await access_digest(connection)}"

    # --- search ---------------------------------------------------------------------------------------

    async def recall(
        self,
        owners: Mapping[Scope, str],
        vector: Vector,
        filters: Mapping[str, Any] | None = None,
        limits: Mapping[Scope, int] = LIMITS,
        deadline: float = float("inf"),
        *,
        least: float = 0.0,
        model: str = MAIN,
        vectors: bool = False,
    ) -> Mapping[Scope, list[Stored]]:
        """Return by shared scope the owners' rows nearest to a model's vector that pass the filters."""
        owners = {scope: owner for scope, owner in owners.items() if scope in self.scopes}
        if not owners:
            return {}
        if len(vector) != (dimension := self.settings.models[model].dimension):
            raise wrong_dimension(dimension, len(vector))
        wanted = RowQuery(
            vector=vector,
            model=model,
            limits=limits,
            filters=filters or {},
            least=least,
            now=self.now(),
            vectors=vectors,
        )
        async with self.connection(deadline) as connection:
            return await recall(connection, owners, wanted, on_odd=self._note_odd)

    async def reached(
        self,
        owners: Mapping[Scope, str],
        query: str,
        filters: Mapping[str, Any] | None = None,
        deadline: float = float("inf"),
        *,
        least: float = 0.0,
        tops: tuple[str, ...] = (),
    ) -> list[ReachedRow]:
        """Return rows within two steps of entities that a query names, best first; record the egress.

        Possible names in the query leave this machine and count as egress. Raises SharedError, or
        ProviderError while nothing may leave.
        """
        owners = {scope: each for scope, each in owners.items() if scope in self.scopes - {Scope.SESSION}}
        names = possible_entity_ids(*await self.egress.cleared([sendable(query)])) if owners else ()
        if not names:
            return []
        await self.egress.check(Purpose("shared", tops), names)
        async with self.connection(deadline) as connection:
            characters = sum(map(len, names))
            self.egress.record(
                EgressRecord(self.host, "shared", calls=1, texts=len(names), characters=characters)
            )
            lists = [
                await EntityTables(connection, *whose).reached(names, filters, least)
                for whose in owners.items()
            ]
        found = [each for rows in lists for each in rows]
        return sorted(found, key=lambda each: (-each.strength, each.row.id))

    def _note_odd(self, memory_id: str) -> None:
        """Note a row that cannot be read, for status."""
        if len(self._odd) < _MOST_ODD:
            self._odd.add(memory_id)

    def count_used(self, rows: Sequence[Stored]) -> None:
        """Count rows as used in an answer; the server gets the counts within seconds, or never."""
        for row in rows:
            self.count_access(row.scope, row.owner, row.id)

    def count_access(self, scope: Scope, owner: str, memory_id: str) -> None:
        """Count a memory as used in an answer, also one that a file here answered."""
        if scope in _COUNTED & self.scopes and len(self._hits) < _MOST_HITS:
            self._hits[scope, owner, memory_id] += 1

    # --- writes ---------------------------------------------------------------------------------------

    async def put(self, rows: Sequence[Stored]) -> None:
        """Redact and embed rows, and write them to the server, or to the queue while it is away.

        Durable on return. Raises SharedError for rows never to be accepted, StoreError for a full queue.
        """
        await self.state.wait_until_open()
        clean = await egress.redacted_rows(rows, self.egress, self.settings.models, self.now())
        whole = await self.vectors.with_vectors(clean)
        async with self._order:
            texts = egress.egress_texts(whole)
            is_sent = await self._send_or_queue(
                lambda writer: writer.put(whole), texts, [*map(spooling.put, whole)]
            )
        if is_sent and (bare := without_vector(map(self.vectors.fitting, whole))):
            self.filling.want(len(bare))
        self.replay.wake()

    async def remove(
        self,
        scope: str,
        owner: str,
        ids: Sequence[str],
        kind: str = "chain",
        *,
        newest: datetime | None = None,
        at: datetime | None = None,
    ) -> None:
        """Remove memories from server and queue for good; queue the removal if the server is away.

        Durable on return; raises StoreError. `newest`: time of the newest, by a clock that may be ahead.
        `at`: time of the removal if it is not now; documents that were ingested again later stay.
        """
        await self.state.wait_until_open()
        at = at or max(self.now(), newest or datetime.min.replace(tzinfo=UTC))
        batch = RemovalBatch(scope=Scope(scope), owner=owner, ids=tuple(ids), at=at, kind=kind)
        await self.outbox.withdraw(spooling.removals(batch))
        async with self._order:
            await self._send_or_queue(lambda writer: writer.remove(batch), (), spooling.removals(batch))
        self.replay.wake()

    async def remove_document(self, document_id: str, *, newest: datetime | None = None) -> None:
        """Remove all pieces of a document for good; durable on return, as `remove` is."""
        await self.remove(Scope.ORG, "", (document_id,), kind="document", newest=newest)

    async def _send_or_queue(
        self, write: Callable[[RowWriter], Any], texts: Sequence[str], writes: Sequence[Write]
    ) -> bool:
        """Send a write; if it is not taken or follows others, queue it as `writes` and return False."""
        failure = None
        if not self.outbox.holds_up(writes):
            try:
                await self._send(write, texts)
            except ProviderError:  # paused
                self.filling.want(0)
            except SharedError as error:
                if error.kind == "final" and not writes[0].is_removal:
                    raise
                failure = await self._first_failure(error)
            else:
                return True
        await self.outbox.add([msgspec.structs.replace(each, failure=failure) for each in writes])
        return False

    async def _first_failure(self, error: SharedError) -> WriteFailure | None:
        """Return the failure to record for a refused write, None if the server is away."""
        if error.is_away:
            return None
        try:
            return next_failure(None, error, await self.access())
        except SharedError:
            return None

    async def _send(self, write: Callable[[RowWriter], Any], texts: Sequence[str]) -> None:
        """Write to the server and record the egress. Raises SharedError, or ProviderError while paused."""
        await self.egress.check(PURPOSE, texts)
        async with self.writer(time.monotonic() + _WRITE_S) as writer:
            characters = sum(map(len, texts))
            record = EgressRecord(self.host, "shared", calls=1, texts=len(texts), characters=characters)
            self.egress.record(record)
            await write(writer)

    # --- upkeep ---------------------------------------------------------------------------------------

    async def _upkeep(self) -> None:
        """Send counts of answers and remove expired session rows, with pauses, until cancelled."""
        swept_at = 0.0
        while True:
            await asyncio.sleep(_COUNT_EVERY_S)
            with contextlib.suppress(SharedError):
                await self.send_counts()
                await self._look_at_writers()
                if Scope.SESSION in self.scopes and time.monotonic() - swept_at > _SWEEP_EVERY_S:
                    await self.sweep()
                    swept_at = time.monotonic()

    def _note_models(self, recorded: Mapping[str, EmbeddingModel]) -> None:
        """Note the embedding models of the database; look for rows without a vector of a new one."""
        before, self.vectors.recorded = self.vectors.recorded, recorded
        if before is not None and before != recorded:
            self.filling.want(0)

    async def _look_at_writers(self) -> None:
        """Read which daemons have written rows that this one shares, and the models. Raises SharedError."""
        owners = self._owners()
        scopes, names = [str(scope) for scope, _ in owners], [name for _, name in owners]
        async with self.connection(time.monotonic() + _WRITE_S) as connection:
            values = {"scopes": scopes, "owners": names}
            found = await (await connection.execute(statements.WRITERS, values)).fetchall()
            self._note_models(await recorded_models(connection))
        now = time.monotonic()
        self._writers = {name: (max(age_s, 0.0), now) for name, age_s in found if name != self.daemon}

    def _owners(self) -> list[tuple[Scope, str]]:
        """Return the owners of the rows that this daemon writes: user, agents that it knows, organization."""
        owners = {Scope.USER: [self.settings.user_id], Scope.ORG: [""]}
        owners[Scope.AGENT] = sorted(self.state.replicas.agents())
        return [(scope, name) for scope in sorted(owners.keys() & self.scopes) for name in owners[scope]]

    async def send_counts(self) -> None:
        """Send the counts of answers to the server. Raises SharedError; these counts are lost then."""
        hits, self._hits = self._hits, Counter()
        if hits:
            async with self.writer(time.monotonic() + _WRITE_S) as writer:
                await writer.count(hits, self.now())

    async def sweep(self) -> int:
        """Remove expired rows of all sessions; return their number. Raises SharedError."""
        async with self.writer(time.monotonic() + _WRITE_S) as writer:
            return await writer.sweep(self.now())


def host_of(settings: Settings) -> str:
    """Return the displayable name of the server: host, port and database."""
    given = parameters(settings)
    host, port = given.get("host") or "localhost", given.get("port")
    return f"{host}{f':{port}' if port else ''}/{given.get('dbname') or ''}"
