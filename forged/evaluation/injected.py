"""What single messages brought, memory by memory, beside how the best ones were ranked.

In go the memories of each reply, out come shares with their intervals over the messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.evaluation.dataset import Item, Query, labels_of
from forged.evaluation.figures import Figure, ratio


class Brought(msgspec.Struct, frozen=True):
    """What one message brought: for each memory in its order whether it answers; tokens of the block.

    `recall` is None of a message that nothing helps with.
    """

    right: tuple[bool, ...]
    tokens: float
    recall: float | None = None


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """Of queries: recall of all that came, the share of it that answers, whether the first one does.

    `muted` is the share of queries that got nothing; `beside_*` are of messages that nothing helps with.
    """

    recall: Figure
    share: Figure
    first: Figure
    muted: Figure
    memories: Figure
    tokens: Figure
    beside_memories: Figure
    beside_tokens: Figure


def of_query(query: Query, items: Sequence[Item], tokens: float) -> Brought:
    """Judge what a query brought, in its order."""
    recall = len(labels_of(items) & query.evidence) / len(query.evidence)
    return Brought(tuple(map(query.is_answered_by, items)), tokens, recall)


def figures(brought: Sequence[Brought]) -> Injected:
    wanting = [(each, each.recall) for each in brought if each.recall is not None]
    beside = [each for each in brought if each.recall is None]
    return Injected(
        recall=ratio((recall, 1.0) for _, recall in wanting),
        share=ratio((float(sum(each.right)), float(len(each.right))) for each, _ in wanting),
        first=ratio((float(each.right[0]), 1.0) for each, _ in wanting if each.right),
        muted=ratio((float(not each.right), 1.0) for each, _ in wanting),
        memories=ratio((float(len(each.right)), 1.0) for each, _ in wanting),
        tokens=ratio((each.tokens, 1.0) for each, _ in wanting),
        beside_memories=ratio((float(len(each.right)), 1.0) for each in beside),
        beside_tokens=ratio((each.tokens, 1.0) for each in beside),
    )
