"""The interface of a source of memories, and the values that go in and out of one.

A `Source` holds memories and finds those that answer a `Question`. All file roots of a request are one source
(`FileSource`), because words and vectors are weighed over all of their rows together. Any other source is
asked beside it, by a deadline, and what it returns is merged by rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from forged.memory import Memory
from forged.models import Vectors


class Question(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is looked for.

    texts: the queries in words; `message` is the user's own, be it among them or not.
    vectors: the same queries as unit float32 rows (queries, dimension), or None: then words decide alone.
    top_k: memories wanted; those that hops reach come on top, at most `top_k` more.
    hop_depth: steps along `related` from what was found.
    deadline: `time.monotonic()` until which the answer is of use.
    continued: index of the query that says what the message goes on from, None if it stands alone.
    turn: which of a session's turns it is, from 1 on; 0 for a message that is no part of a session.
    beside: keys of memories that come anyhow; they are found, and take no place of others.
    explains: what stays out is wanted as well, whatever that costs.
    heard: keys of memories that the session has in context already; they take no place, and those that fit
        stay out as GIVEN.
    strong: where nothing is held back, the evidence that is called strong; None if no word is wanted of it.
    admits: whether a memory, by root and id, may come at all: as many are found of those that may. None: any.

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


class Ranked(msgspec.Struct, frozen=True):
    """One memory of an answer: a chain's head with its older versions, newest first.

    `rivals` are heads of the same chain that stand beside it: nobody has said which replaces which.

    `via` is how it was found: "search" or "hop" (or, in a session, "standing", "heard", "correction"). `came`
    is why it was let in: much speaks for it ("strong"), it is near the best ("near") or the best that a weak
    request has ("weak"), a link leads to it ("hop") or it stands in every session ("standing"); "" where
    nothing was decided. Scores of two sources are in different units. `root` is the top of the file root that
    it lies in: an id means something there only.
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
    """What a source found, best first, hops last.

    `evidence` is how far the best stands above what everyday messages reach, in standard deviations, and
    infinite where there is no yardstick. `stayed` was near the top and is held back.
    """

    ranked: tuple[Ranked, ...] = ()
    stayed: tuple[Stayed, ...] = ()
    evidence: float = float("inf")


class Source(Protocol):
    """Something that holds memories. `name` is what a reply calls it when it is missing."""

    @property
    def name(self) -> str: ...

    async def search(self, question: Question) -> Rows:
        """The best rows for a question. May raise anything and may be cancelled at the deadline."""
        ...
