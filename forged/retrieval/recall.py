"""Search the stores of a recall, by the models of a retrieval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from forged.errors import ProviderError
from forged.models import Purpose, RetryBudget, Vectors
from forged.retrieval.pipeline import MOMENT_S, Pipeline, cutoff_before, embed_queries
from forged.retrieval.reasons import reason_code
from forged.stores import Limits, Question, RemoteStore, SearchResult, Store


async def recall(
    pipeline: Pipeline,
    query: str,
    stores: Sequence[Store],
    limits: Limits,
    *,
    admits: Callable[[str, str], bool],
    deadline: float,
    tops: tuple[str, ...],
) -> tuple[SearchResult, float]:
    """Search stores for a query until `deadline`; return the result and the embedding's milliseconds.

    A store that could not take part is named, which is no error. Distance alone decides if all memories have
    a vector of the answering model; otherwise words do. `tops` are the caller's roots. `admits` filters by
    root and id.
    """
    began = time.monotonic()
    vectors, key, lacks = None, None, ""
    try:
        vectors, key = await _vector_of(pipeline, query, stores, deadline, tops)
    except (ProviderError, TimeoutError) as error:
        lacks = f"keyword results only: no embedding of the query ({reason_code(error)})"
    embedding_ms = round((time.monotonic() - began) * 1000, 3)
    question = Question(
        texts=(query,),
        message=query,
        vectors=vectors,
        top_k=0,
        hop_depth=0,
        deadline=cutoff_before(deadline),
        admits=admits,
        key=key,
        limits=limits,
    )
    rows = await pipeline.recalls.search(stores, question, tops=tops, until=deadline)
    missing = tuple(filter(None, (lacks, *rows.missing)))
    return msgspec.structs.replace(rows, missing=missing), embedding_ms


async def _vector_of(
    pipeline: Pipeline, query: str, stores: Sequence[Store], deadline: float, tops: tuple[str, ...]
) -> tuple[Vectors | None, str | None]:
    """Return the query's vector (1, d) and model key; (None, None) if no store needs them."""
    if pipeline.embedder is None:
        return None, None
    moment = min(time.monotonic() + MOMENT_S, deadline)
    views = await asyncio.gather(*(each.view(0, moment) for each in stores))
    is_wanted = any("dense" in view.indexes or view.waiting for view in views)
    if not is_wanted and not any(isinstance(each, RemoteStore) for each in stores):
        return None, None
    until, purpose = cutoff_before(deadline), Purpose("query", tops, RetryBudget(deadline))
    async with asyncio.timeout_at(until):
        found = await embed_queries(pipeline.embedder, (query,), purpose, until, views)
    return found.vectors, next((view.key for view in views if view.key is not None), None)
