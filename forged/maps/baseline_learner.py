"""Embeds the everyday messages once for each model, beside other work: the baseline that the gate needs.

Until it is known, because it is being learned or the endpoint refused, the gate uses the lexical score alone;
the next build that embeds tries again, or the next scan.
"""

from __future__ import annotations

import asyncio
import logging

import numpy as np

from forged.errors import ProviderError
from forged.map import LEAST_DIMENSION, Baseline, DenseLeg
from forged.models import Embedder, Health, Purpose
from forged.text.everyday import MESSAGES

logger = logging.getLogger(__name__)

_GATE = Purpose("gate")
# In parts, so that a query that comes meanwhile waits for one of them and not for all.
_PARTS = tuple(list(MESSAGES[at : at + 4]) for at in range(0, len(MESSAGES), 4))


class BaselineLearner:
    """Learns one baseline for all roots; `baseline` is None until it is known."""

    def __init__(self, embedder: Embedder | None, health: Health, *, needed: bool) -> None:
        self.baseline: Baseline | None = None
        self._embedder = embedder
        self._health = health
        self._needed = needed
        self._outdated = False  # to be learned again; until then the old one serves
        self._learning: asyncio.Task[None] | None = None
        self._problem = ""

    @property
    def state(self) -> tuple[str, str]:
        """By what requests are judged: off, words, learning, vectors or failing; and why it is failing."""
        if not self._needed:
            return "off", ""
        if self.baseline is not None:
            return "vectors", ""
        if self._learning is None:
            return "words", ""
        return ("failing", self._problem) if self._learning.done() else ("learning", "")

    def renew(self) -> None:
        """Learn it again when texts are next embedded: the model may be another one."""
        self._outdated = True

    def check(self, leg: DenseLeg) -> None:
        """Learn it again at once if a leg shows that the model was replaced behind its name."""
        if self.baseline is not None and not self.baseline.fits(leg):
            self._outdated = True
            self.learn()

    def learn(self) -> None:
        """Start to learn what is not known, unless that is under way or the endpoint fails."""
        known = self.baseline is not None and not self._outdated
        if not self._needed or known or self._embedder is None or self._health.trouble() is not None:
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn(self._embedder), name="baseline")

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.gather(self._learning, return_exceptions=True)

    async def _learn(self, embedder: Embedder) -> None:
        try:
            queries = [await embedder.embed(part, "query", purpose=_GATE) for part in _PARTS]
            passages = [await embedder.embed(part, purpose=_GATE) for part in _PARTS]
        except ProviderError as error:
            if error.reason == "paused":  # no failure: asked again with the next texts that may leave
                self._learning = None
                return
            if error.reason != self._problem:  # once per change, not once per retry
                logger.warning("background not embedded, the gate goes by words reason=%s", error.reason)
            self._problem = error.reason
            return
        self._outdated, self._problem = False, ""
        if queries[0].shape[1] < LEAST_DIMENSION:
            self._needed = False  # there is nothing to learn, however often it is tried
            return
        self.baseline = await asyncio.to_thread(
            Baseline.of, embedder.key, np.concatenate(queries), np.concatenate(passages)
        )
