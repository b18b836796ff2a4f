"""A recall: the query's vector once, and one search of its stores, each with a limit of its own.

In go a query and the stores that may answer it; out come `Rows`, in which a store that could not take part as
it should is named: that delays no other, and is no error. A store is asked by distance alone where all that
it holds has a vector of the model that answers; where vectors are missing, or the query has none in time,
words decide in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from forged.errors import ProviderError
from forged.models import Purpose, RetryBudget, Vectors
from forged.retrieval.pipeline import queried, reason_of
from forged.retrieval.values import ModelsInUse, near
from forged.scopes import Limits, Question, Rows, SearchedStore, Store, StoreSearch

# A store that is there shows what it has within such a moment.
_MOMENT_S = 0.05


class Recaller:
    """Carries out recalls; one for the daemon."""

    def __init__(self, models: ModelsInUse, search: StoreSearch) -> None:
        self._models = models
        self._search = search

    async def recall(
        self,
        query: str,
        stores: Sequence[Store],
        limits: Limits,
        *,
        admits: Callable[[str, str], bool],
        deadline: float,
        tops: tuple[str, ...],
    ) -> tuple[Rows, float]:
        """Search all stores until `deadline`; also how long the query's vector took, in milliseconds.

        `tops` are the roots of whoever asks, and `admits` says by root and id what may be found.
        """
        began = time.monotonic()
        try:
            vectors, key = await self._vectors(query, stores, deadline, tops)
            lacks = ""
        except (ProviderError, TimeoutError) as error:
            vectors, key, lacks = (
                None,
                None,
                f"no vector of the query ({reason_of(error)}); answered by words",
            )
        embedding_ms = round((time.monotonic() - began) * 1000, 3)
        question = Question(
            texts=(query,),
            message=query,
            vectors=vectors,
            top_k=0,
            hop_depth=0,
            deadline=near(deadline),
            admits=admits,
            key=key,
            limits=limits,
        )
        rows = await self._search.search(stores, question, tops=tops, until=deadline)
        missing = tuple(filter(None, (lacks, *rows.missing)))
        return msgspec.structs.replace(rows, missing=missing), embedding_ms

    async def _vectors(
        self, query: str, stores: Sequence[Store], deadline: float, tops: tuple[str, ...]
    ) -> tuple[Vectors | None, str | None]:
        """The query's vector (1, d) if there is anything to compare it with, and its model's key.

        Raises ProviderError.
        """
        embedder = self._models.embedder
        if embedder is None:
            return None, None
        moment = min(time.monotonic() + _MOMENT_S, deadline)
        views = await asyncio.gather(*(each.view(0, moment) for each in stores))
        is_wanted = any("dense" in view.legs or view.waiting for view in views)
        if not is_wanted and not any(isinstance(each, SearchedStore) for each in stores):
            return None, None
        waiting = RetryBudget(deadline)
        self._models.embedding_health.admit(waiting)
        async with asyncio.timeout_at(near(deadline)):
            found = await queried(embedder, (query,), Purpose("query", tops, waiting), near(deadline))
        if found.vectors is not None:
            for view in views:
                view.used(found.vectors.shape[1])
        return found.vectors, next((view.key for view in views if view.key is not None), None)
