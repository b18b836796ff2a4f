"""Values of a search: the question, the limits of a recall, and the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from forged.map import Ranked
from forged.memory import Scope
from forged.models import Vectors

# Scopes that outlive a session and have an owner; they share one limit.
LONG_TERM = frozenset({Scope.USER, Scope.AGENT})

FIRST_BUILD = "the first index is still being built"
# Rejection of a fitting memory that the session has in context.
GIVEN = "given"


class Limits(msgspec.Struct, frozen=True):
    """Most memories in a recall's result by scope, and of the user's and the agent's together."""

    of: Mapping[str, int]
    long_term: int = 10

    def within(self, ordered: Iterable[Ranked]) -> Iterator[Ranked]:
        """Yield memories in order, up to the limit of each scope and that of user and agent."""
        left, long_term = dict(self.of), self.long_term
        for each in ordered:
            scope = each.memory.scope
            is_long_term = scope in LONG_TERM
            if left.get(scope, 0) > 0 and (long_term > 0 or not is_long_term):
                left[scope] -= 1
                long_term -= is_long_term
                yield each


class Question(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Input of one search: queries and their vectors, filters, limits, deadline, session's context.

    texts: the queries in words; `message` is the user's own, which may be one of them.
    vectors: the same queries as unit float32 rows (queries, dimension); with None only words count.
    top_k: number of wanted memories; linked ones are added, at most `top_k` more.
    hop_depth: steps along `related` from the memories found.
    deadline: `time.monotonic()` after which the answer is useless.
    continued: index of the query with the context that the message continues, None without context.
    turn: the number of a session's turn, from 1 on; 0 without a session.
    pinned: keys of memories that are injected anyway; they take no place of others.
    explains: rejected memories are wanted as well, at any cost.
    in_context: keys of memories in context, which take no place; fitting ones are rejected as GIVEN.
    strong: without a gate, the evidence of a strong memory; None if no label is wanted.
    admits: filter by root and id; None for no filter.
    generation: the number that the maps must have reached, 0 for any.
    key: the model that made `vectors`, if the caller knows it.
    limits: limits of a recall, which is ranked by distance if possible and also follows entities.

    `least_evidence` is the evidence of a strong request: a store returns memories with evidence of their own,
    the more the stronger the request. With -inf there is no gate.
    """

    texts: tuple[str, ...]
    message: str
    vectors: Vectors | None
    top_k: int
    hop_depth: int
    deadline: float
    least_evidence: float = float("-inf")
    continued: int | None = None
    turn: int = 0
    explains: bool = False
    pinned: frozenset[tuple[str, str]] = frozenset()
    in_context: frozenset[tuple[str, str]] = frozenset()
    strong: float | None = None
    admits: Callable[[str, str], bool] | None = None
    generation: int = 0
    key: str | None = None
    limits: Limits | None = None


class SearchResult(msgspec.Struct, frozen=True, eq=False):
    """Result of a search: memories found, best first, linked ones last; rejected ones; what is missing.

    `evidence` is that of the best above everyday messages, in standard deviations; infinite without a
    baseline. `rejected` were near the top and are held back by the gate. `missing` names for each store the
    reason why it did not take part; `indexes` are those that answered. In a recall `held` is the number of
    memories in the local stores; `unread`: a store is being read for the first time.
    """

    ranked: tuple[Ranked, ...] = ()
    rejected: tuple[Ranked, ...] = ()
    evidence: float = float("inf")
    missing: tuple[str, ...] = ()
    indexes: frozenset[str] = frozenset()
    held: int = 0
    unread: bool = False
