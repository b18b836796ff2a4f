"""What a retrieval is asked, what it may search and what it answers, and what shapes all retrievals."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property

import msgspec

from forged.conversation import Utterance
from forged.models import ChatModel, Embedder, Health
from forged.retrieval.continuing import only_goes_on, says_nothing
from forged.scopes import Ranked, SecondModel, Stayed, Store, View

# The part of the budget that `auto` keeps for its fallback, and the most that it keeps.
_RESERVE, _RESERVE_S = 0.25, 0.5
# Of that part, before the deadline, from when on the hypotheses and sources that are there have to do.
_NEAR = 1.5

See = Callable[[float], Awaitable[View]]
"""Yields what is visible of the file roots, after waiting for it until `time.monotonic()` is the argument."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One retrieval.

    window: what was said since the last summary.
    message: the last user message, of a very long one the end; it is the direct strategy's query.
    hypotheses: queries of the caller's own, in place of a model's.
    deadline: `time.monotonic()` seconds.
    min_generation: the number that the maps must have reached, 0 for any.
    before: what the message goes on from, as one text; "" for a message that stands alone.
    goes_on: whether something was said in the conversation before.
    turn: which of a session's turns it is since what stands came with the first, 0 without a session.
    beside: keys of memories that come to the session with this turn, whatever is found.
    explains: whether what stays out is wanted as well.
    rated: in a list of which nothing is held back a word says what speaks for each memory.
    heard: keys (root, id) of memories that the session has in context, with the turn that brought each;
        they are not found again.
    """

    window: tuple[Utterance, ...] = ()
    message: str
    hypotheses: tuple[str, ...] = ()
    top_k: int
    hop_depth: int
    deadline: float
    min_generation: int = 0
    before: str = ""
    goes_on: bool = False
    turn: int = 0
    explains: bool = False
    beside: frozenset[tuple[str, str]] = frozenset()
    heard: Mapping[tuple[str, str], str] = {}
    rated: bool = False

    @property
    def own_queries(self) -> tuple[str, ...]:
        """The caller's own hypotheses, and the message if it says something or there is nothing else."""
        said = dict.fromkeys(filter(str.strip, (*self.hypotheses, self.message)))
        return tuple(said) or (self.message,)

    @cached_property
    def says_nothing(self) -> bool:
        """Whether the message has no content that a memory could be about."""
        return says_nothing(self.message)

    @cached_property
    def is_idle(self) -> bool:
        """Whether that is so of the message and of all that it goes on from."""
        return self.says_nothing or (not self.goes_on and only_goes_on(self.message))


class Sources(msgspec.Struct, frozen=True, eq=False):
    """All that a request may search: the file roots at `tops`, seen by `see`, and other stores."""

    tops: tuple[str, ...]
    see: See
    others: tuple[Store, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, whatever of it has room in a prompt.

    `status` is ok, empty, not_ready, timeout or error. `degraded` marks a fallback of `auto`, or that a root
    or another source could not be searched. `ranked` holds everything found, best first. `stayed` was
    near the top and is not among them.
    `partial` says, as a sentence, why the model's hypotheses are fewer than it was about to write; such an
    answer is kept for its turn like a whole one.
    """

    status: str
    reason: str = ""
    ranked: tuple[Ranked, ...] = ()
    stayed: tuple[Stayed, ...] = ()
    strategy: str = ""
    legs: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    generation: int = 0
    degraded: bool = False
    partial: str = ""

    def __post_init__(self) -> None:
        """Let no memory be among `ranked` and `stayed` at once."""
        if self.stayed:
            came = {each.key for each in self.ranked}
            stayed = {(each.root, each.memory.id): each for each in reversed(self.stayed)}
            left = [each for key, each in reversed(stayed.items()) if key not in came]
            msgspec.structs.force_setattr(self, "stayed", tuple(left))


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that shapes a retrieval.

    `min_score` is the share of unrelated messages that the gate keeps out; 0 or less: there is no gate.
    """

    strategy: str
    hypothesis_count: int
    lexical_weight: float
    min_score: float

    @property
    def asks_for_the_message(self) -> bool:
        """Whether the message is one more query; ADR-0047 to the letter knows hypotheses alone."""
        return self.strategy != "hyde" or self.lexical_weight > 0


class ModelsInUse(msgspec.Struct, frozen=True, kw_only=True):
    """The models of a retrieval, each None where there is none, and how they fare.

    `cjk` has the memories that are in Chinese, Japanese or Korean, where these have a model of their own.
    """

    embedder: Embedder | None = None
    chat: ChatModel | None = None
    embedding_health: Health = msgspec.field(default_factory=Health)
    hyde_health: Health = msgspec.field(default_factory=Health)
    cjk: SecondModel | None = None


def near(deadline: float) -> float:
    """From when on a deadline is near: what is not there then is done without."""
    return deadline - _NEAR * reserve(deadline)


def reserve(deadline: float) -> float:
    """Seconds before a deadline that are kept for the next best answer."""
    return min(_RESERVE * left(deadline), _RESERVE_S)


def left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
