"""Values of a search: the question, the view that it sees, and the memories that it finds.

A memory is told from the others by its map and its id: links lead to memories of the same map only, so
nothing in a repository replaces, hides or relates what is the user's. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from forged.attributes import Facts
from forged.map import Baseline, VectorMap
from forged.memory import Memory, Scope
from forged.models import Vectors
from forged.text.terms import is_cjk

# What outlives a session and is of somebody: at most so many of these together.
LONG_TERM = frozenset({Scope.USER, Scope.AGENT})

Key = tuple[int, str]
"""A memory of a view: the place of its map, and its id there."""


def nobody(_: int) -> None:
    """Ignore the dimension of a query's vectors: there is no model."""


class View(msgspec.Struct, frozen=True, eq=False):
    """Maps that a request may use.

    `waiting`: a root has nothing to search before its first build. `problem` says in a word or two why a
    root's map is missing or older than asked for, `unembedded` why a built map has no dense leg, `held` why
    texts of a root may not leave for vectors. `baseline` is None while unknown, and `is_uncalibrated` while
    it is wanted. `key` names the model that answers now, with whose vectors alone queries can be compared;
    `used` takes their dimension. `left_out` counts in words the files that are in no map, or says nothing.
    """

    maps: tuple[VectorMap, ...]
    generation: int = 0
    waiting: bool = False
    problem: str = ""
    baseline: Baseline | None = None
    held: str = ""
    unembedded: str = ""
    is_uncalibrated: bool = False
    key: str | None = None
    used: Callable[[int], None] = nobody
    left_out: Callable[[], str] = lambda: ""

    @property
    def legs(self) -> tuple[str, ...]:
        """Legs that can answer in at least one map."""
        lexical = any(m.has_words for m in self.maps)
        dense = any(m.dense for m in self.maps)
        return tuple(name for name, there in (("lexical", lexical), ("dense", dense)) if there)

    def __len__(self) -> int:
        return sum(len(m.memories) for m in self.maps)

    @property
    def scripts(self) -> tuple[str, ...]:
        """The scripts of its memories: distances are compared within one, as a model keeps scripts apart."""
        are = [part.traits.is_cjk for home in self.maps for part in home.parts]
        there = (("other", not all(each.all() for each in are)), ("cjk", any(each.any() for each in are)))
        return tuple(script for script, is_there in there if is_there)

    def of_script(self, script: str, admits: Callable[[str, str], bool] | None) -> Callable[[str, str], bool]:
        """Return a filter for memories of one script that `admits` lets come."""
        homes = {home.root: home for home in self.maps}

        def may_come(root: str, memory_id: str) -> bool:
            memory = homes[root].find(memory_id)
            is_meant = memory is not None and is_cjk(memory.content) is (script == "cjk")
            return is_meant and (admits is None or admits(root, memory_id))

        return may_come

    def find(self, memory_id: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
        """The memories of this id, of one scope or of all: each scope may have one, of its first map."""
        homes = (each for each in self.maps if scope in {"", each.scope})
        found = ((home, home.find(memory_id)) for home in homes)
        firsts: dict[str, tuple[VectorMap, Memory]] = {}
        for home, memory in found:
            if memory is not None:
                firsts.setdefault(home.scope, (home, memory))
        return tuple(firsts.values())

    def heads_led_to(self, key: Key) -> Iterator[Key]:
        """Heads that a memory's `related` edges lead to in its own map; edges into nothing are left out."""
        place, memory_id = key
        home = self.maps[place]
        found = home.find(memory_id)
        for edge in found.related if found is not None else ():
            if home.find(edge.id) is not None:
                yield place, home.chains.head(edge.id)

    def chain(self, vector_map: VectorMap, memory_id: str) -> tuple[Memory, ...]:
        """The chain of a memory, oldest first."""
        found = map(vector_map.find, vector_map.chains.chain(memory_id))
        return tuple(memory for memory in found if memory is not None)


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
    beside: keys of memories that come anyhow; they are found, and take no place of others.
    explains: what stays out is wanted as well, whatever that costs.
    heard: keys of memories in context, which take no place; those that fit stay out as GIVEN.
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
    beside: frozenset[tuple[str, str]] = frozenset()
    heard: frozenset[tuple[str, str]] = frozenset()
    strong: float | None = None
    admits: Callable[[str, str], bool] | None = None
    generation: int = 0
    key: str | None = None
    limits: Limits | None = None


class Ranked(msgspec.Struct, frozen=True):
    """One memory of an answer: a chain's head with its older versions, newest first.

    `rivals` are heads of the same chain that stand beside it: nobody has said which replaces which.

    `via` is how it was found: "search" or "hop" (or, in a session, "standing", "heard", "correction"). `came`
    is why it was let in: strong, near the best, weak (the best of a weak request), hop (a link leads to it)
    or standing (it is in every session); "" where nothing was decided. Scores of two sources are in different
    units. `root` is the top of its file root: an id means something there only.
    """

    memory: Memory
    score: float
    cosine: float | None = None
    lexical: float | None = None
    via: str = "search"
    older: tuple[Memory, ...] = ()
    root: str = ""
    rivals: tuple[Memory, ...] = ()
    came: str = ""
    model: str = ""
    path: str = ""

    @property
    def distance(self) -> float | None:
        """Cosine distance to the query, smaller is nearer; None without a vector."""
        return None if self.cosine is None else 1.0 - self.cosine

    @property
    def same(self) -> tuple[str, str]:
        """Equal for two finds of one memory, in a file and on a server."""
        return self.memory.scope, self.memory.id

    @property
    def key(self) -> tuple[str, str]:
        """Tells this memory from any other: two roots may hold one id."""
        return self.root, self.memory.id


# Why a memory that fits stays out: the session has it in context.
GIVEN = "given"


class Stayed(msgspec.Struct, frozen=True):
    """A memory near the top that stayed out; `why` is as in a `Verdict` of the gate, or GIVEN."""

    memory: Memory
    root: str
    why: str
    evidence: float


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Memories that were found, best first, hops last.

    `evidence` is how far the best is above what everyday messages reach, in standard deviations; infinite
    without a yardstick. `stayed` was near the top and is held back. `missing` says for each store why it did
    not take part as it should; `legs` are those that did. Of a recall `held` is the number of memories in the
    stores here; `unread`: one is being read for the first time.
    """

    ranked: tuple[Ranked, ...] = ()
    stayed: tuple[Stayed, ...] = ()
    evidence: float = float("inf")
    missing: tuple[str, ...] = ()
    legs: frozenset[str] = frozenset()
    held: int = 0
    unread: bool = False


def is_asked_for(facts: Facts, filters: Mapping[str, Any], least_importance: float) -> bool:
    """Tell whether a memory has all of these values in its metadata, and is important enough."""
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


def compared_by(key: str | None, content: str) -> str:
    """Equal for two texts whose distances to a query can be compared: one model, and one script."""
    return f"{key} {'cjk' if is_cjk(content) else 'other'}"
