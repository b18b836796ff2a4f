"""Embeds the everyday messages once for each model, beside other work: the baseline that the gate needs.

A model is known by its identity, so neither a full rebuild nor a new configuration asks for them again.
Until the baseline is known, because it is being learned or the endpoint refused, the gate uses the lexical
score alone. It is tried again by the next build that embeds, by the next scan, and, where the reason was one
that passes, as a build ends whose texts were answered.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from forged.errors import ProviderError
from forged.fair_queue import logged
from forged.map import LEAST_DIMENSION, Baseline
from forged.maps.identity import Identity
from forged.models import Health, Kind, Purpose, Vectors
from forged.text.everyday import MESSAGES

logger = logging.getLogger(__name__)

_GATE = Purpose("gate")
# In parts, so that a query that comes meanwhile waits for one of them and not for all.
_PART = 32
_PASSES = frozenset({"timeout", "unreachable", "server"})


class BaselineLearner:
    """Learns one baseline for all roots; `baseline` is None until one is known, maybe of a model before."""

    def __init__(self, identity: Identity | None, health: Health, *, needed: bool) -> None:
        self.baseline: Baseline | None = None
        self._identity = identity
        self._health = health
        self._needed = needed
        self._learning: asyncio.Task[None] | None = None
        self._problem = ""

    @property
    def state(self) -> tuple[str, str]:
        """By what requests are judged: off, words, learning, vectors or failing; and why it is failing."""
        if not self._needed:
            return "off", ""
        if self._is_known:
            return "vectors", ""
        if self._learning is None:
            return "words", ""
        return ("failing", self._problem) if self._learning.done() else ("learning", "")

    @property
    def is_wanting(self) -> bool:
        """True while the yardstick is missing, so that vectors say nothing of a message."""
        return self._needed and self._identity is not None and not self._is_known

    @property
    def _is_known(self) -> bool:
        return (
            self.baseline is not None
            and self._identity is not None
            and self.baseline.key == self._identity.key
        )

    def recall(self) -> None:
        """Take what is remembered of the model, so that not even the first map waits for a learned one."""
        identity = self._identity
        if self.is_wanting and identity is not None and identity.is_certain:
            self.baseline = identity.remembered.baselines.get(identity.key, self.baseline)

    def learn(self) -> None:
        """Start to learn what is not known, unless that is under way or the endpoint fails."""
        trouble = self._health.trouble()
        if not self.is_wanting or self._identity is None or (trouble is not None and trouble.wait_s > 0):
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn(self._identity), name="baseline")
            self._learning.add_done_callback(logged)

    def try_again(self) -> None:
        """The endpoint answers: what came to nothing for a reason that passes is asked for once more."""
        if self._problem in _PASSES:
            self.learn()

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)

    async def _learn(self, identity: Identity) -> None:
        try:
            await identity.begin()
            key = identity.key
            if (known := identity.remembered.baselines.get(key)) is not None:
                self.baseline = known
                return
            queries, passages = await _embedded(identity, "query"), await _embedded(identity, "passage")
        except ProviderError as error:
            if error.reason == "held":  # no failure: asked again with the next texts that may leave
                self._learning = None
                return
            if error.reason != self._problem:  # once per change, not once per retry
                logger.warning("background not embedded, the gate goes by words reason=%s", error.reason)
            self._problem = error.reason
            return
        self._problem = ""
        if queries.shape[1] < LEAST_DIMENSION:
            self._needed = False  # there is nothing to learn, however often it is tried
            return
        self.baseline = await asyncio.to_thread(Baseline.of, key, queries, passages)
        identity.remembered.baselines[key] = self.baseline


async def _embedded(identity: Identity, kind: Kind) -> Vectors:
    parts = (list(MESSAGES[at : at + _PART]) for at in range(0, len(MESSAGES), _PART))
    return np.concatenate([await identity.embedder.embed(part, kind, purpose=_GATE) for part in parts])
