"""Documents on a team's server: list them, find removed ones, and read the newest for copies.

Used when documents are ingested, listed, removed or copied, never by a search. Raises SharedError, also while
nothing may leave: the name of a document is text of this machine.
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from forged.errors import NotAsked, ProviderError, SharedError
from forged.fair_queue import ignore_failure
from forged.memory import Scope
from forged.models import Purpose, Vectors
from forged.postgres.schema import VECTORS, table
from forged.postgres.shared import PURPOSE, SharedServer
from forged.postgres.tables import TABLES, OddRowError
from forged.postgres.values import Stored, Vector

_ASK_S, _READ_S = 3.0, 10.0
_MOST = 10_000
# A turn's search of documents on the server: rows, seconds that a turn and the server have, and pauses.
_NEAREST, _PATIENCE_S, _ASK_S = 20, 0.15, 1.0
_MOST_MISSES, _SKIPPED_S = 2, 60.0
_ROWS = table(Scope.ORG)

_DOCUMENTS = f"""
    SELECT document_id, min(source), count(*), min(created_at), max(created_at), min(agent_id),
        (array_agg(metadata ORDER BY chunk_index))[1]
    FROM {_ROWS}"""
_OF = "GROUP BY document_id ORDER BY 2, 1 LIMIT %(most)s"
_ALL = f"{_DOCUMENTS} {_OF}"
_NAMED = f"""{_DOCUMENTS}
    WHERE document_id IN (SELECT document_id FROM {_ROWS} WHERE source = ANY(%(names)s))
        OR document_id = ANY(%(names)s)
    {_OF}"""
_PIECES = f"SELECT id FROM {_ROWS} WHERE document_id = %(document)s"
_BOTH = ", ".join(VECTORS.values())
_VECTORS = f"SELECT content, {_BOTH} FROM {_ROWS} WHERE document_id = ANY(%(ids)s)"
# Newest pieces within a size, with the transaction that wrote each. Attributes have about so many bytes.
_PIECE_BYTES, _LONGEST = 512, 262_144
_NEWEST = f"""
    WITH newest AS (
        SELECT id, xmin::text AS version, created_at, octet_length(content) + {_PIECE_BYTES} AS size
        FROM {_ROWS}
        WHERE document_id <> ALL(%(without)s::text[]) AND octet_length(content) <= {_LONGEST}
        ORDER BY created_at DESC, id LIMIT %(bytes)s / {_PIECE_BYTES} + 1),
    summed AS (
        SELECT id, version, sum(size) OVER (ORDER BY created_at DESC, id) AS total FROM newest)"""
_NEWEST_DIGEST = f"""{_NEWEST}
    SELECT coalesce(md5(string_agg(id || ' ' || version, ',' ORDER BY total)
        FILTER (WHERE total <= %(bytes)s)), ''), coalesce(max(total) > %(bytes)s, false)
    FROM summed"""
_NEWEST_VERSIONS = f"{_NEWEST} SELECT id, version FROM summed WHERE total <= %(bytes)s ORDER BY total"
_COLUMNS = (*TABLES[Scope.ORG].read, *VECTORS.values())
_READ = ", ".join(map(TABLES[Scope.ORG].read_as, _COLUMNS))
_ROWS_OF = f"SELECT xmin::text, {_READ} FROM {_ROWS} WHERE id = ANY(%(ids)s)"
_GONE = "SELECT id, at FROM forged.tombstones WHERE scope = 'org' AND owner = '' AND id = ANY(%(ids)s)"


class ServerDocument(msgspec.Struct, frozen=True):
    """Document on the server with its number of pieces, metadata, and times of first and newest piece."""

    document_id: str
    source: str
    pieces: int
    created_at: datetime
    newest: datetime
    agent_id: str
    metadata: Mapping[str, Any]


class ServerDocuments:
    """Queries of the documents on the team's server: all, by name, newest pieces, and removals."""

    def __init__(self, shared: SharedServer) -> None:
        self._shared = shared

    async def all(self) -> list[ServerDocument]:
        """Return all documents on the server, sorted by source, at most 10,000."""
        return [ServerDocument(*found) for found in await self._fetch_rows(_ALL)]

    async def named(self, names: Collection[str]) -> list[ServerDocument]:
        """Return the documents that have one of these sources or ids."""
        return [ServerDocument(*found) for found in await self._fetch_rows(_NAMED, names=list(names))]

    async def piece_ids(self, document_id: str) -> frozenset[str]:
        """Return the ids of a document's pieces."""
        return frozenset(found[0] for found in await self._fetch_rows(_PIECES, document=document_id))

    async def vectors(self, ids: Collection[str]) -> dict[str, tuple[Vector, str]]:
        """Return vector and model of the pieces of documents by their texts, for the same texts in others."""
        found = await self._fetch_rows(_VECTORS, ids=list(ids)) if ids else []
        return {
            content: (np.asarray(vector.to_numpy(), np.float32), model)
            for content, *vectors in found
            for model, vector in zip(VECTORS, vectors, strict=True)
            if vector is not None
        }

    async def gone(self, ids: Sequence[str]) -> dict[str, datetime]:
        """Return those of these document and piece ids that were removed, with the time of removal."""
        return dict(await self._fetch_rows(_GONE, ids=list(ids))) if ids else {}

    async def newest_digest(self, without: Collection[str], most_bytes: int) -> tuple[str, bool]:
        """Return a digest of the newest pieces within a size, and True if there are more.

        `without` are ids of documents to leave out. The digest changes with every write of these pieces.
        """
        values = {"without": list(without), "bytes": most_bytes}
        ((digest, has_more),) = await self._fetch_rows(_NEWEST_DIGEST, within_s=_READ_S, **values)
        return digest, has_more

    async def newest_versions(self, without: Collection[str], most_bytes: int) -> dict[str, str]:
        """Return the ids of the newest pieces within a size, newest first, each with a version."""
        values = {"without": list(without), "bytes": most_bytes}
        return dict(await self._fetch_rows(_NEWEST_VERSIONS, within_s=_READ_S, **values))

    async def pieces(self, ids: Collection[str]) -> dict[str, tuple[str, Stored]]:
        """Return version and row of pieces, with vectors, by id; those that cannot be read are left out."""
        found = {}
        for version, *row in await self._fetch_rows(_ROWS_OF, within_s=_READ_S, ids=list(ids)):
            with contextlib.suppress(OddRowError):
                stored = TABLES[Scope.ORG].stored(row, _COLUMNS)
                found[stored.id] = (version, stored)
        return found

    async def _fetch_rows(self, statement: str, *, within_s: float = _ASK_S, **values: object) -> list[Any]:
        """Return the rows of a query in time. Raises SharedError, also while egress is paused."""
        try:
            await self._shared.egress.check(PURPOSE, ())
        except ProviderError as error:
            raise SharedError(str(error), reason="unreachable") from error
        async with self._shared.connection(time.monotonic() + within_s) as connection:
            return await (await connection.execute(statement, {"most": _MOST} | values)).fetchall()


class ServerAsking:
    """Asks the server for the rows of documents nearest to a turn's queries, while it answers in time."""

    def __init__(self, shared: SharedServer, clock: Callable[[], float] = time.monotonic) -> None:
        """Take `clock`, which gives seconds that never go back."""
        self._shared, self._clock = shared, clock
        self._misses = 0
        self._again_at = -math.inf

    async def rows(self, vectors: Vectors, deadline: float, tops: tuple[str, ...]) -> Sequence[Stored]:
        """Return the rows nearest to query vectors; none if the server is late, fails, or is not asked."""
        now = self._clock()
        wait_s = min(_PATIENCE_S, deadline - now)
        if now < self._again_at or wait_s <= 0:
            return ()
        task = asyncio.create_task(self._ask(vectors, tops))
        task.add_done_callback(ignore_failure)
        await asyncio.wait({task}, timeout=wait_s)  # a late answer keeps the connection
        error = task.exception() if task.done() and not task.cancelled() else None
        if task.done() and error is None:
            self._misses = 0
            return task.result()
        if not isinstance(error, (NotAsked, ProviderError)):
            self._misses += 1
            if self._misses >= _MOST_MISSES:
                self._misses, self._again_at = 0, now + _SKIPPED_S
        return ()

    async def _ask(self, vectors: Vectors, tops: tuple[str, ...]) -> Sequence[Stored]:
        """Ask for the rows nearest to the mean of query vectors. Raises SharedError, ProviderError."""
        await self._shared.egress.check(Purpose("shared", tops), ())
        mean = vectors.mean(axis=0)
        vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        found = await self._shared.recall(
            {Scope.ORG: ""},
            vector,
            limits={Scope.ORG: _NEAREST},
            deadline=time.monotonic() + _ASK_S,
            vectors=True,
        )
        return found.get(Scope.ORG, ())
