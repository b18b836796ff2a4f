"""What the searches of several scopes found, as one list: pure functions over values.

Each scope has been searched by itself, in files, in memory or on a server. No memory comes twice, of each
scope come so many as its limit says, and of the user's and the agent's together so many as another one says.
Where all rows have a vector of one model they are ordered by their distance to the query, the nearest first.
Where one has none, or vectors are of two models, distances say nothing of one another, and the places in the
lists decide (reciprocal rank fusion). Of equals the first list's come first, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from forged.memory import Scope
from forged.retrieval.rank import reciprocal
from forged.scopes import Ranked
from forged.text.cjk import is_cjk

# What outlives a session and is of somebody: at most so many of these together.
LONG_TERM = frozenset({Scope.USER, Scope.AGENT})
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a memory beside its text. Times are RFC 3339, "" where there is none.

    `chunk_index` is the place in the document `document_id`, -1 for what is no part of one.
    """

    memory_type: str = ""
    importance: float = 1.0
    access_count: int = 0
    last_accessed: str = ""
    expires_at: str = ""
    metadata: Mapping[str, Any] = _NOTHING
    agent_id: str = ""
    user_id: str = ""
    source: str = ""
    document_id: str = ""
    chunk_index: int = -1


class Recollection(msgspec.Struct, frozen=True):
    """One memory that was found, with what is known of it.

    `model` is what its vector was compared by; `score` orders the list that `combined` makes. `path` says
    over what a query led to it that it may share no word with.
    """

    ranked: Ranked
    facts: Facts = Facts()
    model: str = ""
    score: float = 0.0
    path: str = ""

    @property
    def distance(self) -> float | None:
        """Cosine distance to the query, smaller is nearer; None without a vector."""
        cosine = self.ranked.cosine
        return None if cosine is None else 1.0 - cosine

    @property
    def same(self) -> tuple[str, str]:
        """Equal for two finds of one memory, in a file and on a server."""
        return self.ranked.memory.scope, self.ranked.memory.id


def compared_by(key: str | None, content: str) -> str:
    """Equal for two texts whose distances to a query can be compared: one model, and one script."""
    return f"{key} {'cjk' if is_cjk(content) else 'other'}"


class Limits(msgspec.Struct, frozen=True):
    """How many memories of each scope a recall may hold, and of the user's and the agent's together."""

    of: Mapping[Scope, int]
    long_term: int = 10


def combined(
    lists: Sequence[Sequence[Recollection]], limits: Limits, reached: Sequence[Recollection] = ()
) -> tuple[Recollection, ...]:
    """One list of many, each of which has the best first; what was `reached` otherwise is merged by rank."""
    ordered = _as_one(lists)
    if reached:
        ordered = _merged(ordered, reached)
    return tuple(_within(ordered, limits))


def _merged(ordered: Sequence[Recollection], reached: Sequence[Recollection]) -> list[Recollection]:
    paths = {each.same: each.path for each in reached}
    scores = reciprocal([[each.same for each in rows] for rows in (ordered, reached)])
    found = {each.same: each for each in (*reached, *ordered)}.values()
    scored = [
        msgspec.structs.replace(each, score=scores[each.same], path=paths.get(each.same, ""))
        for each in found
    ]
    return sorted(scored, key=lambda each: -each.score)


def _as_one(lists: Sequence[Sequence[Recollection]]) -> list[Recollection]:
    single = _each_once(lists)
    found = [each for rows in single for each in rows]
    models = {each.model for each in found}
    if len(models) == 1 and all(each.distance is not None for each in found):
        scores = {each.same: each.ranked.cosine or 0.0 for each in found}
    else:
        scores = reciprocal([[each.same for each in rows] for rows in single])
    scored = (msgspec.structs.replace(each, score=scores[each.same]) for each in found)
    return sorted(scored, key=lambda each: -each.score)


def _each_once(lists: Sequence[Sequence[Recollection]]) -> list[list[Recollection]]:
    seen, single = set[tuple[str, str]](), list[list[Recollection]]()
    for rows in lists:
        fresh = [each for each in rows if each.same not in seen]
        seen.update(each.same for each in fresh)
        single.append(fresh)
    return single


def _within(ordered: Sequence[Recollection], limits: Limits) -> Iterator[Recollection]:
    left, long_term = dict(limits.of), limits.long_term
    for each in ordered:
        scope = Scope(each.ranked.memory.scope)
        is_long_term = scope in LONG_TERM
        if left.get(scope, 0) > 0 and (long_term > 0 or not is_long_term):
            left[scope] -= 1
            long_term -= is_long_term
            yield each


class Known(Protocol):
    """What filters look at of a memory."""

    @property
    def importance(self) -> float: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


def is_asked_for(facts: Known, filters: Mapping[str, Any], least_importance: float) -> bool:
    """Whether a memory has every one of these values in its metadata, and is important enough."""
    if facts.importance < least_importance:
        return False
    known = facts.metadata
    return all(key in known and _is_same(known[key], value) for key, value in filters.items())


def _is_same(one: object, other: object) -> bool:
    """JSON equality: 1 is 1.0, and true is not 1, at any depth."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other
