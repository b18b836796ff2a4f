"""What a retrieval is asked and what it answers: the two values of the pipeline."""

from __future__ import annotations

import hashlib

import msgspec

from forged.conversation import WINDOW_LIMIT, Utterance, last_user_text
from forged.memory import Memory


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One retrieval. `window` is already cut to what counts; `deadline` is `time.monotonic()` seconds.

    `min_generation` is the number that the maps must have reached, 0 for any.
    """

    session_id: str
    turn_id: str
    window: tuple[Utterance, ...]
    hypotheses: tuple[str, ...]
    top_k: int
    hop_depth: int
    budget_tokens: int
    deadline: float
    min_generation: int = 0

    @property
    def message(self) -> str:
        """The last user message, of a very long one the end: the direct strategy's query."""
        return last_user_text(self.window)[-WINDOW_LIMIT:]

    @property
    def plain_queries(self) -> tuple[str, ...]:
        """What is looked for without a model's help: the message, else the caller's own hypotheses."""
        return (self.message,) if self.message.strip() else self.hypotheses

    def digest(self) -> bytes:
        """Tells two requests of one turn apart."""
        parts = [*(f"{u.role}\0{u.text}" for u in self.window), "\1", *self.hypotheses]
        parts.append(f"{self.top_k}:{self.hop_depth}:{self.budget_tokens}")
        return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


class Ranked(msgspec.Struct, frozen=True):
    """One memory of an answer: a chain's head with its older versions, newest first."""

    memory: Memory
    score: float
    cosine: float | None = None
    lexical: float | None = None
    via: str = "search"
    older: tuple[Memory, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    `status` is one of design.md D8; `degraded` marks a fallback of `auto` (D5), or that a root could not be
    seen. `ranked` holds everything found, best first; the first `included` of them are in `text`. `far` are
    ids that would have been among them but for lying far below the best (`gate.near_best`).
    """

    status: str
    reason: str = ""
    ranked: tuple[Ranked, ...] = ()
    far: tuple[str, ...] = ()
    text: str = ""
    digest: str = ""
    included: int = 0
    omitted: int = 0
    strategy: str = ""
    legs: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    generation: int = 0
    degraded: bool = False
    elapsed_ms: float = 0.0
