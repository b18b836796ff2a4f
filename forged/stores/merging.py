"""Merge the lists that several stores and models found into one.

If all rows have a vector of one model, the nearest comes first. Otherwise scores are in different units, and
reciprocal rank fusion decides: a row counts 1 / (60 + place) for each list that has it. A second model has
Chinese, Japanese and Korean. Each language is then one list, so that a row found by words and vectors does
not count twice against the other language.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec

from forged.map import Ranked, admission_limit
from forged.stores.values import Question, SearchResult
from forged.text.terms import is_cjk

# Most memories that are reached through entities.
MOST_REACHED = 10
# The usual constant of reciprocal rank fusion: the greater, the flatter.
_K = 60
_SAME, _KEY = attrgetter("same"), attrgetter("key")
_Key = TypeVar("_Key", bound=Hashable)


def without_linked(rows: SearchResult) -> list[Ranked]:
    """Return the rows that were found by the search itself and not by links."""
    return [each for each in rows.ranked if each.found_by == "search"]


def merge_ranked(
    lists: Sequence[Sequence[Ranked]], same: Callable[[Ranked], _Key], *, by_rank: bool = False
) -> list[tuple[Ranked, float]]:
    """Merge lists; return rows with scores: by distance if all have one model's vectors, else by rank.

    Nothing comes twice; of equal rows, and of two rows of one memory, that of the earlier list comes.
    """
    rows: dict[_Key, Ranked] = {}
    for ranked in lists:
        for row in ranked:
            rows.setdefault(same(row), row)
    models = {row.model for row in rows.values()}
    is_near = not by_rank and len(models) == 1 and "" not in models
    if is_near and all(row.cosine is not None for row in rows.values()):
        worth = {key: row.cosine or 0.0 for key, row in rows.items()}
    else:
        worth = dict.fromkeys(rows, 0.0)
        for ranked in lists:
            for place, row in enumerate(ranked, 1):
                worth[same(row)] += 1 / (_K + place)
    return sorted(((row, worth[key]) for key, row in rows.items()), key=lambda each: -each[1])


def merge_models(own: SearchResult, second: SearchResult | None, question: Question) -> SearchResult:
    """Merge the results of two models, each in its own languages; of equals the query's language leads."""
    if second is None:
        return own
    found = without_linked(own)
    in_cjk = _fuse([without_linked(second), [each for each in found if is_cjk(each.memory.content)]])
    others = [each for each in found if not is_cjk(each.memory.content)]
    lists = [in_cjk, others] if is_cjk(question.message) else [others, in_cjk]
    return _merge((own, second), lists, question.top_k + len(question.pinned), question.top_k)


def merge_stores(found: Sequence[SearchResult], question: Question) -> SearchResult:
    """Merge the results of all stores; with a gate no more are admitted than from one store."""
    most = question.top_k
    if question.least_evidence != float("-inf"):
        most = admission_limit(turn=question.turn, most=most, by_vectors=question.vectors is not None)
    most += sum(
        each.key in question.pinned for rows in found for each in rows.ranked
    )  # pinned memories come anyway
    return _merge(found, list(map(without_linked, found)), most, most)


def _merge(
    found: Sequence[SearchResult], lists: Sequence[Sequence[Ranked]], most: int, most_hops: int
) -> SearchResult:
    """Merge lists of memories up to `most`, then add linked and rejected ones of all results."""
    best = _fuse(lists)[:most]
    keys = {each.key for each in best}
    led = {each.key: each for rows in found for each in rows.ranked if each.found_by != "search"}
    linked = [each for key, each in led.items() if key not in keys]
    return SearchResult(
        ranked=(*best, *linked[:most_hops]),
        rejected=tuple(
            each for rows in found for each in rows.rejected
        ),  # an `Answer` drops those that are admitted
        evidence=max((rows.evidence for rows in found if rows.ranked), default=found[0].evidence),
    )


def _fuse(lists: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Return the memories of several lists as one, best first, each once."""
    return [row for row, _ in merge_ranked(lists, _KEY)]


def merge_recalled(lists: Sequence[Sequence[Ranked]], led: Sequence[Ranked], query: str) -> list[Ranked]:
    """Merge a recall's lists, on ties the query's script first, and memories of entities (`led`).

    Lists in the script of the query precede those in another script: of equal places they come first.
    """
    asked = is_cjk(query)
    some = sorted(filter(None, lists), key=lambda rows: is_cjk(rows[0].memory.content) is not asked)
    seen, single = set[tuple[str, str]](), list[list[Ranked]]()
    for rows in some:
        single.append([each for each in rows if each.same not in seen])
        seen.update(each.same for each in single[-1])
    ordered = _with_scores(merge_ranked(single, _SAME))
    if not led:
        return ordered
    there = {each.same: each for each in ordered}
    known = [msgspec.structs.replace(there.get(each.same, each), path=each.path) for each in led]
    return _with_scores(merge_ranked([known, ordered], _SAME, by_rank=True))


def _with_scores(rows: Iterable[tuple[Ranked, float]]) -> list[Ranked]:
    return [msgspec.structs.replace(row, score=worth) for row, worth in rows]


def merge_reached(lists: Iterable[Sequence[Ranked]]) -> list[Ranked]:
    """Merge memories reached through entities here and on a server, each once; at most 10."""
    best = dict[tuple[str, str], Ranked]()
    for each in (each for rows in lists for each in rows):
        if each.same not in best or each.score > best[each.same].score:
            best[each.same] = each
    return sorted(best.values(), key=lambda each: -each.score)[:MOST_REACHED]
