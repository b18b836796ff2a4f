"""Scores of a ranking against its labelled evidence, and how far their means can be trusted.

Recall is the share of a query's labels that the first k memories hold. nDCG@10 counts a memory as relevant or
not and compares with the best order that there is (at most 10 relevant ones). The reciprocal rank looks at
the ranked memories alone, as recall does; what hops added stands apart, because a hop has no rank of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import msgspec

from tests.evaluation.dataset import Item, Query, labels_of
from tests.evaluation.figures import bounds

NDCG_DEPTH = 10


class Score(msgspec.Struct, frozen=True):
    """What one query came to; all in 0-1 but `memories_at_10`, how many stood in the first ten places.

    A query that was not answered scores 0 everywhere.
    """

    query: str
    kind: str
    recall_at_5: float = 0.0
    recall_at_10: float = 0.0
    recall_at_20: float = 0.0
    ndcg_at_10: float = 0.0
    reciprocal_rank: float = 0.0
    recall_with_hops: float = 0.0
    memories_at_10: int = 0


Interval = tuple[float, float]


class Intervals(msgspec.Struct, frozen=True):
    """What holds each mean in 95 of 100 resamplings of the queries."""

    recall_at_5: Interval
    recall_at_10: Interval
    recall_at_20: Interval
    ndcg_at_10: Interval
    mrr: Interval
    recall_with_hops: Interval


class Summary(msgspec.Struct, frozen=True):
    """Means over the queries of one kind; `recall_at_10_interval` stands among the intervals, too."""

    kind: str
    queries: int
    recall_at_5: float
    recall_at_10: float
    recall_at_20: float
    ndcg_at_10: float
    mrr: float
    recall_with_hops: float
    memories_at_10: float
    recall_at_10_interval: Interval
    intervals: Intervals


def judge(query: Query, ranked: Sequence[Item], hopped: Sequence[Item], visible: Sequence[Item]) -> Score:
    """Score one answer: `ranked` best first, `hopped` what came along edges, `visible` all there was."""
    return Score(
        query=query.id,
        kind=query.kind,
        recall_at_5=recall(query, ranked[:5]),
        recall_at_10=recall(query, ranked[:10]),
        recall_at_20=recall(query, ranked[:20]),
        ndcg_at_10=ndcg(query, ranked, visible),
        reciprocal_rank=reciprocal_rank(query, ranked),
        recall_with_hops=recall(query, (*ranked, *hopped)),
        memories_at_10=len(ranked[:10]),
    )


def recall(query: Query, found: Sequence[Item]) -> float:
    return len(labels_of(found) & query.evidence) / len(query.evidence)


def ndcg(query: Query, ranked: Sequence[Item], visible: Sequence[Item]) -> float:
    """Binary nDCG at 10 over memories; 0 when nothing that is visible answers."""
    gained = sum(
        _discount(rank) for rank, item in enumerate(ranked[:NDCG_DEPTH]) if query.is_answered_by(item)
    )
    relevant = sum(map(query.is_answered_by, visible))
    best = sum(map(_discount, range(min(relevant, NDCG_DEPTH))))
    return gained / best if best else 0.0


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)


def reciprocal_rank(query: Query, ranked: Sequence[Item]) -> float:
    return next((1 / rank for rank, item in enumerate(ranked, 1) if query.is_answered_by(item)), 0.0)


def summary(kind: str, scores: Sequence[Score]) -> Summary:
    """Means of at least one score."""
    intervals = Intervals(
        recall_at_5=interval([score.recall_at_5 for score in scores]),
        recall_at_10=interval([score.recall_at_10 for score in scores]),
        recall_at_20=interval([score.recall_at_20 for score in scores]),
        ndcg_at_10=interval([score.ndcg_at_10 for score in scores]),
        mrr=interval([score.reciprocal_rank for score in scores]),
        recall_with_hops=interval([score.recall_with_hops for score in scores]),
    )
    return Summary(
        kind=kind,
        queries=len(scores),
        recall_at_5=fmean(score.recall_at_5 for score in scores),
        recall_at_10=fmean(score.recall_at_10 for score in scores),
        recall_at_20=fmean(score.recall_at_20 for score in scores),
        ndcg_at_10=fmean(score.ndcg_at_10 for score in scores),
        mrr=fmean(score.reciprocal_rank for score in scores),
        recall_with_hops=fmean(score.recall_with_hops for score in scores),
        memories_at_10=fmean(score.memories_at_10 for score in scores),
        recall_at_10_interval=intervals.recall_at_10,
        intervals=intervals,
    )


def by_kind(scores: Sequence[Score]) -> tuple[Summary, ...]:
    kinds = sorted({score.kind for score in scores})
    return tuple(summary(kind, [score for score in scores if score.kind == kind]) for kind in kinds)


def interval(values: Sequence[float]) -> Interval:
    """What holds the mean in 95 of 100 resamplings of the queries."""
    return bounds([(value, 1.0) for value in values])
