"""What sessions remember, as maps that are searched like those of files: by words at once, then by vectors.

`see` gives the view of one session, and never waits: whoever asks finds by words what has no vector yet.
`run` embeds beside all requests what sessions were given, by the model that answers for files as well, and
tries again after a minute what failed as a whole. Each text leaves by the door of that model, under the roots
that its session saw, and a secret that somebody insisted on leaves for nobody. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.map import DenseLeg, VectorMap, link
from forged.maps import EmbeddingRun, Indexer, RowMaker, text_hash
from forged.models import Purpose, Vectors, cleaned
from forged.scopes.session_memories import SessionMemories, SessionMemory
from forged.scopes.values import View

logger = logging.getLogger(__name__)

_AGAIN_S = 60.0


def root_of_session(session_id: str) -> str:
    """What stands for the root of a session's memories: no path, so that no file root is called like it."""
    return f"session:{session_id}"


class _Made(msgspec.Struct, frozen=True, eq=False):
    """The map of one session, and what it was made of."""

    moment: int
    vectors: int
    home: VectorMap


class SessionViews:
    """The maps of all sessions, each made when somebody asks for it. To be used on one event loop."""

    def __init__(
        self,
        memories: SessionMemories,
        indexer: Indexer,
        *,
        again_s: float = _AGAIN_S,
    ) -> None:
        self._memories = memories
        self._changed: Callable[[], None] = lambda: None
        self._indexer = indexer
        self._again_s = again_s
        self._maker = RowMaker(lexical=True, embedded=None, pause=lambda: None)
        self._vectors: dict[bytes, Vectors] = {}
        self._refused: set[bytes] = set()  # texts that the model takes on no account
        self._key = ""  # of the model that made the vectors
        self._moment = 0  # another number whenever there are other vectors
        self._maps: dict[str, _Made] = {}

    def view(self, session_id: str) -> View:
        """What a session can be answered from now."""
        identity = self._indexer.identity
        home = self._map(session_id)
        return View(
            maps=(home,) if home is not None else (),
            baseline=self._indexer.learner.baseline,
            is_uncalibrated=self._indexer.learner.is_wanting,
            key=identity.key if identity is not None else None,
        )

    def listen(self, changed: Callable[[], None]) -> None:
        """Have somebody told when something was added."""
        self._changed = changed

    def homes(self) -> Iterator[tuple[tuple[str, ...], VectorMap]]:
        """The maps of all sessions, each with the roots that the session saw."""
        tops: dict[str, set[str]] = {}
        for row in self._memories.all():
            tops.setdefault(row.session_id, set()).update(row.tops)
        for session_id, seen in tops.items():
            if (home := self._map(session_id)) is not None:
                yield tuple(sorted(seen)), home

    async def run(self) -> None:
        """Embed what comes, and sweep away what has expired."""
        while True:
            try:
                async with asyncio.timeout(self._again_s):
                    await self._memories.added.wait()
            except TimeoutError:
                self._memories.sweep()
            self._memories.added.clear()
            self._changed()
            await self._embed()

    def _map(self, session_id: str) -> VectorMap | None:
        """The map of a session; None for one that has nothing to remember."""
        moment, known = self._memories.moment(session_id), self._maps.get(session_id)
        if not moment:
            self._maps.pop(session_id, None)
            return None
        if known is None or (known.moment, known.vectors) != (moment, self._moment):
            home = self._made(session_id, self._memories.of(session_id), moment)
            known = self._maps[session_id] = _Made(moment, self._moment, home)
        return known.home

    def _made(self, session_id: str, rows: Iterable[SessionMemory], generation: int) -> VectorMap:
        memories = tuple(sorted((row.memory for row in rows), key=lambda each: each.id))
        vectors = [self._vectors.get(text_hash(each.content)) for each in memories]
        known = next((len(each) for each in vectors if each is not None), 0)
        dense = None
        if known:
            zero = np.zeros(known, np.float32)
            stacked = np.stack([zero if each is None else each for each in vectors])
            dense = DenseLeg.build(self._key, stacked)
        return VectorMap(
            root=root_of_session(session_id),
            scope="session",
            generation=generation,
            memories=memories,
            parts=(self._maker.rows(memories, None).with_vectors(dense),),
            chains=link(memories),
        )

    # --- vectors --------------------------------------------------------------------------------------

    async def _embed(self) -> None:
        """Get the vectors that are missing; what fails as a whole is tried again later."""
        identity = self._indexer.identity
        if identity is None:
            return
        self._of_this_model(identity.key)
        try:
            if lacking := self._lacking():
                await identity.begin()
                self._of_this_model(identity.key)
                lacking = self._lacking() if identity.refusal is None else {}
            for tops, texts in lacking.items():
                await self._embed_some(EmbeddingRun(identity, Purpose("build", tops), lambda _: None), texts)
        except ProviderError as error:
            logger.debug("memories of sessions have no vectors reason=%s", error.reason)
        self._forget_what_is_gone()

    async def _embed_some(self, run: EmbeddingRun, texts: dict[bytes, str]) -> None:
        """The texts of sessions that see the same roots. Raises ProviderError, unless that is their pause."""
        try:
            await run.run(texts)
        except ProviderError as error:
            if error.reason != "held":
                raise
        finally:
            self._vectors |= run.vectors
            self._refused |= run.culprits.keys()
            self._moment += bool(run.vectors)
        self._indexer.learner.learn()

    def _of_this_model(self, key: str) -> None:
        """Vectors of two models are never compared."""
        if key != self._key:
            self._key, self._vectors, self._refused = key, {}, set()
            self._moment += 1

    def _lacking(self) -> dict[tuple[str, ...], dict[bytes, str]]:
        """Texts without a vector by their hash, for each of the roots that they may leave for."""
        found: dict[tuple[str, ...], dict[bytes, str]] = {}
        for row in self._memories.all():
            key = text_hash(row.memory.content)
            known = key in self._vectors or key in self._refused
            if not known and row.memory.content.strip() and not self._indexer.routed(row.memory.content):
                found.setdefault(row.tops, {})[key] = cleaned(row.memory.content)
        return found

    def _forget_what_is_gone(self) -> None:
        there = {text_hash(row.memory.content) for row in self._memories.all()}
        self._vectors = {key: row for key, row in self._vectors.items() if key in there}
        self._refused &= there
        sessions = {row.session_id for row in self._memories.all()}
        self._maps = {name: made for name, made in self._maps.items() if name in sessions}
