"""The file roots and other sources searched together, and what they found as one list.

Scores of different sources are in different units, so lists are merged by rank alone (reciprocal rank fusion:
a row counts 1 / (60 + rank) for each list that has it). A source that is late or fails is left out and named:
it neither delays an answer beyond the deadline nor fails it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Sequence
from typing import TypeVar

from forged.fair_queue import retrieved
from forged.map import room
from forged.scopes import NotRead, Question, Ranked, Rows, Source

logger = logging.getLogger(__name__)

# The usual constant: how little the first place is worth more than the tenth.
_K = 60
_Key = TypeVar("_Key", bound=Hashable)


async def search_all(
    files: Source, others: Sequence[Source], question: Question
) -> tuple[Rows, tuple[str, ...]]:
    """Rows of all sources, and a few words for each of the others that is missing.

    `files` is waited for without a limit, and what it raises is raised; the rest has until the deadline.
    """
    searches = [asyncio.ensure_future(other.search(question)) for other in others]
    for search in searches:
        search.add_done_callback(retrieved)
    try:
        own = await files.search(question)
        await asyncio.wait(searches, timeout=max(question.deadline - time.monotonic(), 0))
    finally:
        for search in searches:
            search.cancel()
    lacking = [missing(other, search) for other, search in zip(others, searches, strict=True)]
    found = [search.result() for search, why in zip(searches, lacking, strict=True) if not why]
    return _merged((own, *found), question), tuple(filter(None, lacking))


def missing(source: Source, search: asyncio.Future[Rows]) -> str:
    """Why a source has no rows to merge, or nothing."""
    if not search.done():
        logger.warning("source left out source=%s reason=late", source.name)
        return f"{source.name} was late"
    error = asyncio.CancelledError() if search.cancelled() else search.exception()
    if error is None:
        return ""
    if isinstance(error, NotRead):
        return f"{source.name} {error}"
    logger.warning("source left out source=%s reason=%s", source.name, type(error).__name__)
    return f"{source.name} failed"


def _merged(lists: Sequence[Rows], question: Question) -> Rows:
    """What all found; where a gate holds, no more than one source alone might give."""
    top_k = question.top_k
    if question.least_evidence != float("-inf"):
        top_k = room(turn=question.turn, most=top_k, by_vectors=question.vectors is not None)
    top_k += sum(each.key in question.beside for rows in lists for each in rows.ranked)  # these come anyhow
    best = fused([[each for each in rows.ranked if each.via == "search"] for rows in lists])[:top_k]
    keys = {each.key for each in best}
    hops = {each.key: each for rows in lists for each in rows.ranked if each.via != "search"}
    beside = [each for key, each in hops.items() if key not in keys]
    return Rows(
        ranked=(*best, *beside[:top_k]),
        stayed=tuple(each for rows in lists for each in rows.stayed),  # those that came leave the answer
        evidence=max((rows.evidence for rows in lists if rows.ranked), default=lists[0].evidence),
    )


def fused(lists: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """One list of many by rank, no memory twice; of equals, and of two rows of one, the earlier list's."""
    rows: dict[tuple[str, str], Ranked] = {}
    for ranked in lists:
        for row in ranked:
            rows.setdefault(row.key, row)
    worth = reciprocal([[row.key for row in ranked] for ranked in lists])
    return sorted(rows.values(), key=lambda row: -worth[row.key])


def reciprocal(lists: Sequence[Sequence[_Key]]) -> dict[_Key, float]:
    """What each key is worth by its places in lists, from 1 on: 1 / (60 + place) for each that has it."""
    worth: dict[_Key, float] = {}
    for keys in lists:
        for place, key in enumerate(keys, 1):
            worth[key] = worth.get(key, 0.0) + 1 / (_K + place)
    return worth
