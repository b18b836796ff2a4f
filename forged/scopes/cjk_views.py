"""Memories in Chinese, Japanese and Korean under a model of their own: maps beside the maps that there are.

Where a second model is configured, texts in these languages (`forged.text.cjk`) are its to embed, and all
others the first one's: each has its own matrix, of its own dimension. `run` follows the maps of all roots and
sessions, embeds what is new in them and lays its vectors out, in a thread. `beside` gives what it knows of a
view, which may be a moment older: what is found there is shown as the view itself has it, and what the view
has no more is left out. A query goes to both models, and the two lists are merged by rank, as cosines of two
models say nothing of one another. Cues are found by their words alone, and no vector outlives the process.
Nothing is raised but by a search, which is a source like any other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from functools import partial

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.map import DenseLeg, VectorMap, link
from forged.maps import BaselineLearner, BuildEvent, EmbeddingRun, Identity, Remembered, RowMaker, text_hash
from forged.memory import Memory
from forged.models import Embedder, Health, Purpose, RetryBudget, Vectors, cleaned
from forged.scopes.file_search import FileSource
from forged.scopes.values import Question, Ranked, Rows, View

logger = logging.getLogger(__name__)

_AGAIN_S = 60.0
# A recall asks for one query in several scopes at once.
_QUERIES_KEPT = 16

Homes = Callable[[], Iterable[tuple[tuple[str, ...], VectorMap]]]
"""All maps that are in use, each with the roots that its texts come from."""


class _Made(msgspec.Struct, frozen=True, eq=False):
    """What became of a map: a map of its CJK memories, made of the vectors that were known at a moment.

    `texts` are the texts of all of them by hash, and of these `lacking` have no vector.
    """

    of: VectorMap
    moment: int
    home: VectorMap | None
    texts: Mapping[bytes, str]
    lacking: tuple[bytes, ...]


class CjkViews:
    """One for the daemon; lives on its event loop."""

    def __init__(
        self,
        embedder: Embedder,
        health: Health | None,
        homes: Homes,
        *,
        gated: bool,
        remembered: Remembered | None = None,
        again_s: float = _AGAIN_S,
    ) -> None:
        """`gated`: somebody needs the model's baseline; `remembered` is what is known of it from before."""
        self.identity = Identity(embedder, remembered, on_change=self.wake)
        self.learner = BaselineLearner(self.identity, health or Health(), needed=gated)
        self._embedder = embedder
        self._health = health or Health()
        self._homes = homes
        self._again_s = again_s
        self._maker = RowMaker(lexical=False, embedded=None, pause=lambda: time.sleep(0))
        self._wanted = asyncio.Event()
        self._key = ""
        self._vectors: dict[bytes, Vectors] = {}
        self._refused: set[bytes] = set()
        self._moment = 0
        self._made: dict[str, _Made] = {}
        self._asked: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    def heard(self, event: BuildEvent) -> None:
        """A root has another map."""
        if event.kind == "swapped":
            self.wake()

    def wake(self) -> None:
        """There may be other maps than before."""
        self._wanted.set()

    def beside(self, view: View) -> View | None:
        """What is known of the CJK memories of a view; None if it has none, or nothing is known yet."""
        made = (self._made.get(each.root) for each in view.maps)
        maps = tuple(each.home for each in made if each is not None and each.home is not None)
        if not maps:
            return None
        learner, key = self.learner, self.identity.key
        return View(maps=maps, baseline=learner.baseline, is_uncalibrated=learner.is_wanting, key=key)

    async def vector(self, text: str, tops: tuple[str, ...], waiting: RetryBudget) -> Vectors:
        """The unit row (d,) of a query; who asks for the same one shares it. Raises ProviderError."""
        task = self._asked.get(text)
        if task is None:
            self._health.admit(waiting)
            task = self._asked[text] = asyncio.create_task(self._query(text, tops, waiting))
            task.add_done_callback(partial(self._answered, text))
            while len(self._asked) > _QUERIES_KEPT:
                self._asked.popitem(last=False)
        return await asyncio.shield(task)

    def _answered(self, text: str, task: asyncio.Task[Vectors]) -> None:
        """Keep no failure: who asks next tries again, whether or not anybody still waits for this one."""
        is_failure = task.cancelled() or task.exception() is not None
        if is_failure and self._asked.get(text) is task:
            del self._asked[text]

    async def _query(self, text: str, tops: tuple[str, ...], waiting: RetryBudget) -> Vectors:
        purpose = Purpose("query", tops, waiting)
        rows = await self._embedder.embed([text], "query", purpose=purpose, deadline=waiting.until)
        self.identity.used(rows.shape[1])
        row: Vectors = rows[0]
        return row

    # --- keeping up -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the maps; what fails as a whole is tried again after a minute."""
        while True:
            try:
                async with asyncio.timeout(self._again_s):
                    await self._wanted.wait()
            except TimeoutError:
                self.identity.tick()
            self._wanted.clear()
            await self._follow()

    async def close(self) -> None:
        await self.learner.close()
        await self.identity.close()
        for task in tuple(self._asked.values()):
            task.cancel()

    async def _follow(self) -> None:
        """Have the vectors of all that is there, as far as they can be had, and maps of them."""
        self._of_this_model()
        homes = list(self._homes())
        for tops, home in homes:
            made = await self._lay_out(home)
            try:
                if made.lacking and await self._embed(tops, made):
                    await self._lay_out(home)
            except ProviderError as error:
                logger.debug("CJK texts have no vectors root=%s reason=%s", home.root, error.reason)
        self._forget_what_is_gone({home.root for _, home in homes})

    async def _embed(self, tops: tuple[str, ...], made: _Made) -> bool:
        """Get the vectors that a map lacks; whether there are others now. Raises ProviderError."""
        await self.identity.begin()
        self._of_this_model()
        if self.identity.refusal is not None:
            return False
        run = EmbeddingRun(self.identity, Purpose("build", tops), lambda _: None)
        wanted = [key for key in made.texts if key not in self._vectors and key not in self._refused]
        try:
            await run.run({key: cleaned(made.texts[key]) for key in wanted})
        finally:
            self._vectors |= run.vectors
            self._refused |= run.culprits.keys()
            self._moment += bool(run.vectors)
        self.learner.recall()
        self.learner.learn()
        return bool(run.vectors)

    def _of_this_model(self) -> None:
        """Vectors of two models are never compared."""
        if self.identity.key != self._key:
            self._key, self._vectors, self._refused = self.identity.key, {}, set()
            self._moment += 1

    async def _lay_out(self, home: VectorMap) -> _Made:
        known = self._made.get(home.root)
        if known is None or known.of is not home or known.moment != self._moment:
            moment, vectors, refused = self._moment, self._vectors, frozenset(self._refused)
            known = await asyncio.to_thread(self._laid_out, home, moment, vectors, refused)
            self._made[home.root] = known
        return known

    def _laid_out(
        self, home: VectorMap, moment: int, vectors: Mapping[bytes, Vectors], refused: frozenset[bytes]
    ) -> _Made:
        """Runs in a thread."""
        memories = _cjk_memories(home)
        hashes = {each.id: text_hash(each.content) for each in memories if each.content.strip()}
        texts = {hashes[each.id]: each.content for each in memories if each.id in hashes}
        known = {each: vectors[key] for each, key in hashes.items() if key in vectors}
        lacking = tuple(key for key in texts if key not in vectors and key not in refused)
        made = _map_of(home, known, self._key, self._maker) if known else None
        return _Made(home, moment, made, texts, lacking)

    def _forget_what_is_gone(self, roots: Collection[str]) -> None:
        self._made = {root: made for root, made in self._made.items() if root in roots}
        there = {key for made in self._made.values() for key in made.texts}
        self._vectors = {key: row for key, row in self._vectors.items() if key in there}
        self._refused &= there


class CjkSource:
    """What the second model finds of a view; `name` is "cjk"."""

    name = "cjk"

    def __init__(self, views: CjkViews, view: View, tops: tuple[str, ...], thread: Executor) -> None:
        self._views, self._view, self._tops, self._thread = views, view, tops, thread

    async def search(self, question: Question) -> Rows:
        """By vectors alone. Raises ProviderError."""
        beside = self._views.beside(self._view)
        is_gated = question.least_evidence > float("-inf")
        if beside is None or (is_gated and beside.is_uncalibrated):
            return Rows()
        waiting = RetryBudget(question.deadline)
        rows = [await self._views.vector(text, self._tops, waiting) for text in question.texts]
        wanted = msgspec.structs.replace(question, vectors=np.stack(rows))
        found = await FileSource(beside, lexical_weight=0.0, thread=self._thread).search(wanted)
        shown = filter(None, map(self._shown, found.ranked))
        return msgspec.structs.replace(found, ranked=tuple(shown))

    def _shown(self, ranked: Ranked) -> Ranked | None:
        """The memory as the view has it now; None where it has another, or an older version is the newest."""
        home = next((each for each in self._view.maps if each.root == ranked.root), None)
        there = home.find(ranked.memory.id) if home is not None else None
        is_same = there is not None and there.content == ranked.memory.content
        if home is None or there is None or not is_same or not home.chains.is_head(there.id):
            return None
        return msgspec.structs.replace(ranked, memory=there)


def _cjk_memories(home: VectorMap) -> list[Memory]:
    """The memories of a map that are the second model's."""
    found = []
    for part in home.parts:
        rows = part.traits.is_cjk if part.gone is None else part.traits.is_cjk & ~part.gone
        found += [part.memories[row] for row in np.flatnonzero(rows).tolist()]
    return found


def _map_of(home: VectorMap, known: Mapping[str, Vectors], key: str, maker: RowMaker) -> VectorMap:
    """The memories whose vectors are known, by id, and what is in a chain with one of them."""
    chained = {other for each in known for other in home.chains.chain(each)}
    found = (home.find(each) for each in sorted(known.keys() | chained))
    memories = tuple(each for each in found if each is not None)
    rows = np.zeros((len(memories), len(next(iter(known.values())))), np.float32)
    for number, memory in enumerate(memories):
        if memory.id in known:
            rows[number] = known[memory.id]
    part = maker.rows(memories, None).with_vectors(DenseLeg.build(key, rows))
    return VectorMap(home.root, home.scope, home.generation, memories, (part,), link(memories))
