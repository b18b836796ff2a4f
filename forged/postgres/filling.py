"""Choose the embedding model of rows on the server, and add vectors to those of this daemon's owners.

Rows come without a vector while the embedding model is away, and a vector can be lost. `VectorFiller` looks
when it is asked, soon after a failure, and once an hour. Several daemons may add the same vector. Rows in
Chinese, Japanese and Korean (CJK) have vectors of the second model where a database has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from forged.errors import ProviderError, SharedError
from forged.maps import EmbeddingQueue
from forged.memory import Scope
from forged.models import Vectors
from forged.postgres.failures import wrong_dimension
from forged.postgres.migrating import require_model
from forged.postgres.schema import CJK, MAIN
from forged.postgres.values import EmbeddingModel, Settings, Stored
from forged.postgres.writing import Owner, RowWriter, without_vector
from forged.text.terms import is_cjk

_AT_ONCE, _WRITE_S = 32, 3.0
_EMBED_S = 5.0
_FIRST_S, _LATEST_S = 5.0, 3600.0

Lend = Callable[[float], contextlib.AbstractAsyncContextManager[RowWriter]]
"""Lends a RowWriter until a deadline."""


class RowVectors:
    """Embedding models of one server's rows, and the vectors that this machine can make for them."""

    def __init__(self, settings: Settings, queues: Mapping[str, EmbeddingQueue | None]) -> None:
        """Take the queues of this machine's models, main and second."""
        self.recorded: Mapping[str, EmbeddingModel] | None = None  # models of the database, once known
        self._models = settings.models
        self.queues = {name: queue for name, queue in queues.items() if queue is not None}

    @property
    def has_models(self) -> bool:
        """Return True if this machine has any embedding model."""
        return bool(self.queues)

    @property
    def problem(self) -> str:
        """Return why rows here get no vectors of this machine's second model, "" if they do."""
        if self.recorded is None or CJK not in self._models:
            return ""
        ours, theirs = self._models[CJK], self.recorded.get(CJK)
        if theirs is None:
            return (
                f"the shared PostgreSQL has no vectors of {ours.name} for Chinese, Japanese and Korean:"
                " its administrator runs `forgectl shared migrate` with memory.cjk_embedding_model"
            )
        try:
            require_model(CJK, ours, theirs)
        except SharedError as error:
            return str(error)
        return ""

    def model_of(self, text: str) -> str:
        """Return the name of the model that embeds a text in this database, main or second."""
        there = self._models if self.recorded is None else self.recorded
        return CJK if CJK in there and is_cjk(text) else MAIN

    def is_usable(self, model: str) -> bool:
        """Return True if this machine's vectors of a model can be compared with those of the database."""
        ours = self._models.get(model)
        if ours is None or self.recorded is None:
            return ours is not None
        return self.recorded.get(model, ours if model == MAIN else None) == ours

    def can_embed(self, text: str) -> bool:
        """Return True if this machine has the model that embeds a text in this database."""
        model = self.model_of(text)
        return model in self.queues and self.is_usable(model)

    def fitting(self, row: Stored) -> Stored:
        """Return the row, without its vector if the database has another model or length for the row."""
        model = self.model_of(row.content)
        length = 0 if row.vector is None else len(row.vector)
        if row.model == model and self.is_usable(model) and length == self._models[model].dimension:
            return row
        return msgspec.structs.replace(row, vector=None, model=MAIN)

    async def with_vectors(self, rows: Sequence[Stored]) -> list[Stored]:
        """Embed the rows that lack vectors, within five seconds; return all rows, some perhaps without."""
        made = dict[int, tuple[Vectors | None, str]]()
        for model, queue in self.queues.items():
            lacking = [
                row
                for row in rows
                if row.vector is None and self.model_of(row.content) == model and self.is_usable(model)
            ]
            if not lacking:
                continue
            found = await queue.embed_now([row.content for row in lacking], time.monotonic() + _EMBED_S)
            dimension = self._models[model].dimension
            for vector in found:
                if vector is not None and len(vector) != dimension:
                    raise wrong_dimension(dimension, len(vector))
            made |= {id(row): (vector, model) for row, vector in zip(lacking, found, strict=True)}
        whole = []
        for row in rows:
            vector, model = made.get(id(row), (row.vector, row.model))
            whole.append(msgspec.structs.replace(row, vector=vector, model=MAIN if vector is None else model))
        return whole


class VectorFiller:
    """Finds rows without a vector and adds it, in the background; `missing` is their last number."""

    def __init__(
        self,
        owners: Callable[[], Collection[Owner]],
        *,
        writer: Lend,
        vectors: RowVectors,
    ) -> None:
        """Take `owners`, which returns those to look for."""
        self.missing = 0
        self._owners = owners
        self._writer, self._vectors = writer, vectors
        self._wanted = asyncio.Event()

    def want(self, rows: int = 1) -> None:
        """Make `run` look now, as so many rows may lack a vector."""
        self.missing += rows
        self._wanted.set()

    async def run(self) -> None:
        """Look for rows without a vector until cancelled."""
        pause_s = 0.0
        while True:
            self._wanted.clear()
            try:
                is_done = await self._fill_all()
            except (SharedError, ProviderError):
                is_done = False
            pause_s = _LATEST_S if is_done else min(max(2 * pause_s, _FIRST_S), _LATEST_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()
                    pause_s = 0.0

    async def _fill_all(self) -> bool:
        """Add the vectors of all owners' rows that can be had; return True if none is missing."""
        missing = 0
        for scope, owner in self._owners():
            missing += await self._fill_owner(scope, owner)
        self.missing = missing
        return not missing

    async def _fill_owner(self, scope: Scope, owner: str) -> int:
        """Add the vectors of one owner's rows; return how many that this machine can embed have none."""
        left = await self._fill_rows(scope, owner)
        if self._vectors.is_usable(CJK):  # known as the server was asked just now
            left += await self._fill_rows(scope, owner, crossed=True)
        return left

    async def _fill_rows(self, scope: Scope, owner: str, *, crossed: bool = False) -> int:
        """Add the vectors of one owner's bare or `crossed` rows; return how many still have none."""
        after, left = "", 0
        while True:
            async with self._writer(time.monotonic() + _WRITE_S) as writer:
                rows = await writer.rows_without_vector(scope, owner, after, _AT_ONCE, crossed=crossed)
            if not rows:
                return left
            wanted = [row for row in rows if self._is_wanted(row, crossed=crossed)]
            whole = await self._vectors.with_vectors(wanted)
            async with self._writer(time.monotonic() + _WRITE_S) as writer:
                filled = [await writer.fill(row) for row in whole if row.vector is not None]
            if filled and not any(filled):  # the role may not write these rows
                return left
            left += len(without_vector(whole))
            after = rows[-1].id

    def _is_wanted(self, row: Stored, *, crossed: bool) -> bool:
        """Return True if this machine can embed a row, and by the second model if it is `crossed`."""
        is_due = not crossed or self._vectors.model_of(row.content) == CJK
        return is_due and self._vectors.can_embed(row.content)
