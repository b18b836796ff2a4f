"""Rows of the server as memories, and as a source that is searched and gated like any other.

The server finds the nearest rows; they come with their vectors, so that what is let in of them is decided
here, by the words and the yardstick that decide of files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from forged import memory
from forged.map import DenseLeg, VectorMap, link
from forged.maps import RowMaker
from forged.memory import Memory, Origin, Piece, Scope, Trigger
from forged.postgres.values import Stored, Vector
from forged.scopes import FileSource, Question, Rows, View

if TYPE_CHECKING:
    from forged.postgres.shared import Shared

# So many rows are looked at for each that may come, and so many queries of one request.
_POOL, _MOST_QUERIES = 4, 8

ROOT = "shared"
"""What stands for the root of what is on the server: no path, so that no file root is called like it."""


def root_of(scope: Scope) -> str:
    return f"{ROOT}:{scope}"


def as_memory(row: Stored) -> Memory:
    """A row as what it is elsewhere; which rows it replaces, the server has looked at already."""
    piece = Piece(row.document_id, row.chunk_index, 0, row.source) if row.document_id else None
    created_at = _text(row.created_at)
    return Memory(
        id=row.id,
        content=row.content,
        created_at=created_at,
        updated_at=_text(row.updated_at) or created_at,
        version=row.version,
        scope=row.scope,
        category=row.category or memory.default_category(row.scope),
        session_id=row.owner if row.scope == Scope.SESSION else "",
        trigger=Trigger.EXPLICIT,
        origin=Origin.AGENT if row.scope == Scope.SESSION else Origin.FILE,
        piece=piece,
        entities=row.entities,
        relations=row.relations,
    )


def _text(moment: datetime | None) -> str:
    return "" if moment is None else memory.utc(moment.timestamp())


class SharedSource:
    """What the server holds for one owner. `name` is "shared".

    `frame` is a view without maps: the model that answers, and its yardstick. Of a memory that is `known`
    there is a file here, which is searched with the other files; `least` is the importance of any other.
    """

    name = "shared"

    def __init__(
        self,
        shared: Shared,
        scope: Scope,
        owner: str,
        *,
        frame: Callable[[], View],
        lexical_weight: float,
        thread: Executor,
        known: Callable[[str], bool] = lambda _: False,
        least: float = 0.0,
    ) -> None:
        self._shared = shared
        self._scope, self._owner = scope, owner
        self._frame = frame
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._known = known
        self._least = least
        self._maker = RowMaker(lexical=True, embedded=None, pause=lambda: None)

    async def search(self, question: Question) -> Rows:
        """The best of what is nearest to any of the queries. Raises SharedError."""
        if question.vectors is None:
            return Rows()
        searches = (self._nearest(vector, question) for vector in question.vectors[:_MOST_QUERIES])
        lists = await asyncio.gather(*searches)
        found = [each for rows in lists for each in rows if not self._known(each.id)]
        if not found:
            return Rows()
        frame = self._frame()
        view = msgspec.structs.replace(frame, maps=(self._map(found, frame.key or ""),))
        files = FileSource(view, lexical_weight=self._lexical_weight, thread=self._thread)
        return await files.search(question)

    async def _nearest(self, vector: Vector, question: Question) -> Sequence[Stored]:
        found = await self._shared.recall(
            {self._scope: self._owner},
            vector,
            limits={self._scope: _POOL * question.top_k + len(question.heard)},
            deadline=question.deadline,
            least=self._least,
            vectors=True,
        )
        return found.get(self._scope, ())

    def _map(self, found: Sequence[Stored], key: str) -> VectorMap:
        rows = sorted({each.id: each for each in found}.values(), key=lambda each: each.id)
        memories = tuple(map(as_memory, rows))
        dense = DenseLeg.build(key, np.stack([each.vector for each in rows if each.vector is not None]))
        return VectorMap(
            root=root_of(self._scope),
            scope=self._scope,
            generation=0,
            memories=memories,
            parts=(self._maker.rows(memories, None).with_vectors(dense),),
            chains=link(memories),
        )
