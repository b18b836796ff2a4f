"""Injections for single messages, memory by memory, with the ranks of the best ones.

In go the memories of each reply, out come shares with their intervals over the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tests.evaluation.dataset import Item, Query
from tests.evaluation.figures import Figure, ratio
from tests.evaluation.injected_text import Parts
from tests.evaluation.scores import recall


class One(msgspec.Struct, frozen=True):
    """A memory that came: whether it answers, and whether it came with the session and without a search."""

    is_right: bool = False
    is_pinned: bool = False


class Brought(msgspec.Struct, frozen=True):
    """What one message brought, in its order, and the tokens of the block.

    `recall` is None of a message that nothing helps with.
    """

    memories: tuple[One, ...]
    parts: Parts
    kind: str = ""
    recall: float | None = None

    @property
    def searched(self) -> tuple[One, ...]:
        """Without those that came with the session."""
        return tuple(one for one in self.memories if not one.is_pinned)


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """Of queries: recall of all that came, the share of it that answers, whether the first one does.

    `muted` is the share of queries that got nothing; `beside_*` are of messages that nothing helps with, and
    their memories those that a search brought. The first one is the first that a search brought.
    """

    group: str
    recall: Figure
    share: Figure
    right_or_pinned: Figure
    first: Figure
    muted: Figure
    memories: Figure
    tokens: Figure
    tokens_pinned: Figure
    tokens_searched: Figure
    tokens_frame: Figure
    other_memories: Figure
    other_tokens: Figure


def of_query(query: Query, items: Sequence[Item], pinned: Sequence[bool], parts: Parts) -> Brought:
    """Judge what a query brought, in its order; `pinned` says of each whether it came with the session."""
    ones = (One(query.is_answered_by(item), came) for item, came in zip(items, pinned, strict=True))
    return Brought(tuple(ones), parts, query.kind, recall(query, items))


def by_kind(brought: Sequence[Brought]) -> tuple[Injected, ...]:
    """Figures of the queries of each kind."""
    kinds = sorted({each.kind for each in brought if each.recall is not None})
    return tuple(figures([each for each in brought if each.kind == kind], kind) for kind in kinds)


def figures(brought: Sequence[Brought], group: str = "all") -> Injected:
    asked = [each for each in brought if each.recall is not None]
    next_to = [each for each in brought if each.recall is None]
    return Injected(
        group=group,
        recall=ratio((each.recall, 1.0) for each in brought if each.recall is not None),
        share=ratio((_count(one.is_right for one in each.memories), len(each.memories)) for each in asked),
        right_or_pinned=ratio(
            (_count(one.is_right or one.is_pinned for one in each.memories), len(each.memories))
            for each in asked
        ),
        first=ratio((float(each.searched[0].is_right), 1.0) for each in asked if each.searched),
        muted=ratio((float(not each.memories), 1.0) for each in asked),
        memories=ratio((len(each.memories), 1.0) for each in asked),
        tokens=ratio((each.parts.total, 1.0) for each in asked),
        tokens_pinned=ratio((each.parts.pinned, 1.0) for each in asked),
        tokens_searched=ratio((each.parts.searched, 1.0) for each in asked),
        tokens_frame=ratio((each.parts.frame, 1.0) for each in asked),
        other_memories=ratio((len(each.searched), 1.0) for each in next_to),
        other_tokens=ratio((each.parts.total, 1.0) for each in next_to),
    )


def _count(verdicts: Iterable[bool]) -> float:
    return float(sum(verdicts))
