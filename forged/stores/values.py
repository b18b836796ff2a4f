"""Values of a search: the question, the limits of a recall, and the memories that are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from forged.map import Ranked
from forged.memory import Scope
from forged.models import Vectors

# What outlives a session and is of somebody: at most so many of these together.
LONG_TERM = frozenset({Scope.USER, Scope.AGENT})

FIRST_BUILD = "the first index is still being built"
# Why a memory that fits stays out: the session has it in context.
GIVEN = "given"


class Limits(msgspec.Struct, frozen=True):
    """Most memories that a recall may hold, of each scope, and of the user's and the agent's together."""

    of: Mapping[str, int]
    long_term: int = 10

    def within(self, ordered: Iterable[Ranked]) -> Iterator[Ranked]:
        """The first of each scope, as many as may come."""
        left, long_term = dict(self.of), self.long_term
        for each in ordered:
            scope = each.memory.scope
            is_long_term = scope in LONG_TERM
            if left.get(scope, 0) > 0 and (long_term > 0 or not is_long_term):
                left[scope] -= 1
                long_term -= is_long_term
                yield each


class Question(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One search's queries, filters and limits.

    texts: the queries in words; `message` is the user's own, be it among them or not.
    vectors: the same queries as unit float32 rows (queries, dimension), or None: then words decide alone.
    top_k: memories wanted; those that hops reach come on top, at most `top_k` more.
    hop_depth: steps along `related` from what was found.
    deadline: `time.monotonic()` until which the answer is of use.
    continued: index of the query that says what the message goes on from, None if it stands alone.
    turn: the number of a session's turn, from 1 on; 0 without a session.
    pinned: keys of memories that come anyhow; they are found, and take no place of others.
    explains: what stays out is wanted as well, whatever that costs.
    in_context: keys of memories in context, which take no place; those that fit stay out as GIVEN.
    strong: without a gate, the evidence that is called strong; None if no word is wanted.
    admits: whether a memory, by root and id, may come at all; None: any.
    generation: the number that the maps must have reached, 0 for any.
    key: the model that made `vectors`, where the asker knows it.
    limits: a recall: so many of each scope, by distance where that can be, and over what memories speak of.

    `least_evidence` is what makes a request strong: a source gives what has evidence of its own, the more the
    stronger the request is. With -inf there is no gate.
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
    """Memories that were found, best first, hops last.

    `evidence` is how far the best is above what everyday messages reach, in standard deviations; infinite
    without a yardstick. `rejected` was near the top and is held back. `missing` says for each store why it
    did not take part as it should; `indexes` are those that did. Of a recall `held` is the number of memories
    in the stores here; `unread`: one is being read for the first time.
    """

    ranked: tuple[Ranked, ...] = ()
    rejected: tuple[Ranked, ...] = ()
    evidence: float = float("inf")
    missing: tuple[str, ...] = ()
    indexes: frozenset[str] = frozenset()
    held: int = 0
    unread: bool = False
