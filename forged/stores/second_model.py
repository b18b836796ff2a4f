"""Second embedding model, for memories in Chinese, Japanese and Korean.

Maps hold the vectors of both models (`MapPart.second`), and a query goes to both. Cues are found by words
alone, and no vector outlives the process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import Executor
from functools import partial

import msgspec
import numpy as np

from forged.maps import EmbeddingQueue
from forged.models import Purpose, RetryBudget, Vectors
from forged.stores.search import ViewSearcher
from forged.stores.store import View
from forged.stores.values import Question, SearchResult

# A recall asks for one query in several scopes at once.
_QUERIES_KEPT = 16


class SecondModel:
    """Second embedding model (CJK): gives views that use its vectors, and vectors of queries."""

    def __init__(self, queue: EmbeddingQueue) -> None:
        self.identity = queue.identity
        self.takes = queue.takes
        self._queue = queue
        self._asked: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    def second_view(self, view: View) -> View | None:
        """Return the same maps by this model's vectors; None if they have none."""
        if all(part.second is None for each in view.maps for part in each.parts):
            return None
        learner, key = self._queue.learner, self.identity.key
        return View(maps=view.maps, baseline=learner.baseline, is_uncalibrated=learner.is_wanting, key=key)

    async def vector(self, text: str, tops: tuple[str, ...], waiting: RetryBudget) -> Vectors:
        """Return the unit row (d,) of a query; equal queries share one request. Raises ProviderError."""
        task = self._asked.get(text)
        if task is None:
            if (health := self.identity.embedder.health) is not None:
                health.admit(waiting)
            task = self._asked[text] = asyncio.create_task(self._embed_query(text, tops, waiting))
            task.add_done_callback(partial(self._drop_failure, text))
            while len(self._asked) > _QUERIES_KEPT:
                self._asked.popitem(last=False)
        return await asyncio.shield(task)

    async def with_vectors(self, question: Question, tops: tuple[str, ...]) -> Question:
        """Return a question with vectors and key of this model. Raises ProviderError."""
        waiting = RetryBudget(question.deadline)
        rows = [await self.vector(text, tops, waiting) for text in question.texts]
        return msgspec.structs.replace(question, vectors=np.stack(rows), key=self.identity.key)

    def _drop_failure(self, text: str, task: asyncio.Task[Vectors]) -> None:
        """Forget a failed call for a query's vector, so that the next caller tries again."""
        is_failure = task.cancelled() or task.exception() is not None
        if is_failure and self._asked.get(text) is task:
            del self._asked[text]

    async def _embed_query(self, text: str, tops: tuple[str, ...], waiting: RetryBudget) -> Vectors:
        """Call the second model for the vector of a query."""
        purpose, embedder = Purpose("query", tops, waiting), self.identity.embedder
        rows = await embedder.embed([text], "query", purpose=purpose, deadline=waiting.until)
        self.identity.note_query(rows.shape[1])
        row: Vectors = rows[0]
        return row


class CjkSearcher:
    """Searches a view by the vectors of the second model (CJK); `name` is "cjk"."""

    name = "cjk"

    def __init__(self, model: SecondModel, view: View, tops: tuple[str, ...], thread: Executor) -> None:
        self._model, self._view, self._tops, self._thread = model, view, tops, thread

    async def search(self, question: Question) -> SearchResult:
        """Search by vectors alone, among memories with a CJK version. Raises ProviderError."""
        second_view = self._model.second_view(self._view)
        is_gated = question.least_evidence > float("-inf")
        if second_view is None or (is_gated and second_view.is_uncalibrated):
            return SearchResult()
        asked = await self._model.with_vectors(question, self._tops)
        homes = {each.root: each for each in self._view.maps}

        def admits(root: str, memory_id: str) -> bool:
            """Return True for a wanted memory with a version in this model's languages."""
            is_theirs = any(self._model.takes(each.content) for each in homes[root].chain(memory_id))
            return is_theirs and (question.admits is None or question.admits(root, memory_id))

        wanted = msgspec.structs.replace(asked, admits=admits)
        return await ViewSearcher(second_view, lexical_weight=0.0, thread=self._thread).search(wanted)
