"""Rows in the form of the queue in `state.db`, and groups of queued writes to send together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

import msgspec
import numpy as np

from forged.attributes import Facts
from forged.memory import Scope
from forged.postgres.values import Stored
from forged.postgres.writing import Owner, RemovalBatch
from forged.state import Write
from forged_client.typed import resolved

Waiting = Sequence[tuple[int, Write]]


def put(row: Stored) -> Write:
    """Return the queue entry that writes a row."""
    vector = None if row.vector is None else row.vector.astype("<f4").tobytes()
    data = msgspec.msgpack.encode(msgspec.structs.asdict(row) | {"vector": vector})
    return Write(kind="put", scope=row.scope, owner=row.owner, id=row.id, document=row.document_id, row=data)


def removals(batch: RemovalBatch) -> list[Write]:
    """Return the queue entries of a removal, one for each id."""
    return Write.removals(batch.kind, batch.scope, batch.owner, batch.ids, batch.at)


def row_of(write: Write) -> Stored:
    """Return the row that a queue entry of the kind "put" writes."""
    fields = msgspec.msgpack.decode(write.row)
    vector = fields["vector"]
    fields["vector"] = None if vector is None else np.frombuffer(vector, "<f4").astype(np.float32)
    facts = msgspec.convert(fields["facts"], resolved(Facts))
    return Stored(**fields | {"scope": Scope(fields["scope"]), "facts": facts})


def removal_batch(writes: Sequence[Write]) -> RemovalBatch:
    """Return one removal for queue entries with the same owner, kind and time."""
    kind, at = msgspec.msgpack.decode(writes[0].row, type=resolved(tuple[str, datetime]))
    ids = tuple(write.id for write in writes)
    first = writes[0]
    return RemovalBatch(
        scope=Scope(first.scope), owner=first.owner, ids=ids, at=at.astimezone(UTC), kind=kind
    )


def sendable_runs(waiting: Waiting) -> Iterator[Waiting]:
    """Yield runs of neighbouring queue entries that can be sent at once, in order."""
    for _, run in groupby(waiting, key=lambda each: _run_key(each[1])):
        yield list(run)


def _run_key(write: Write) -> tuple[object, ...]:
    """Return the key that queue entries of one run share."""
    return ("put",) if write.kind == "put" else (write.kind, owner_of(write), write.row)


def owner_of(write: Write) -> Owner:
    """Return scope and owner of a queue entry."""
    return Scope(write.scope), write.owner
