"""What shapes every retrieval of a daemon: a part of the configuration, and the models in use."""

from __future__ import annotations

import msgspec

from forged.models import ChatModel, Embedder, Health
from forged.scopes import CjkViews


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
    cjk: CjkViews | None = None
