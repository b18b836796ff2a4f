"""How one root's map is made: from the files and the map before to the next map.

A build has three steps. `draft` (in a thread) scans the files and brings the lexical leg up to date; `embed`
(on the loop) gets vectors for texts that have none; `finish` (in a thread) lays the rows out and freezes
the map. `finish` may come twice: once without the vectors that are still on their way, once with them.
Long work in a thread pauses after each slice of about 0.25 ms: a tight loop would hold the interpreter lock
and make every ping wait (performance-anchors.md 1c: p99 x 94).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged import graph, lexical
from forged.dense import DenseLeg
from forged.embedding import EmbeddingRun
from forged.errors import ProviderError
from forged.graph import Chains
from forged.lexical import LexicalLeg, Terms
from forged.memo import VectorMemo, text_hash
from forged.memory import Memory, Problem
from forged.providers import Embedder, Vectors
from forged.store import MemoryStore, Snapshot
from forged.vector_map import VectorMap

_TEXTS_A_SLICE = 8
# Beside a map that serves, a build is patient; before the first map, someone is waiting for it.
_PAUSE_S, _FIRST_PAUSE_S = 0.0005, 0.00005
_QUARANTINE_S = 3600.0

Rows = NDArray[np.int32]


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A map without its dense leg. `hashes` are those of the texts, b"" for a blank one.

    `missing` are the texts, by hash, that have to be embedded.
    """

    memories: tuple[Memory, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalLeg | None
    chains: Chains
    missing: dict[bytes, str]


class Builder:
    """State of one root between builds. Used by one build at a time."""

    def __init__(
        self, top: str, scope: str, store: MemoryStore, embedder: Embedder | None, *, lexical: bool
    ) -> None:
        self.store = store
        self.quarantined: dict[bytes, tuple[str, float]] = {}
        self._top = top
        self._scope = scope
        self._embedder = embedder
        self._lexical = lexical
        self.snapshot: Snapshot | None = None  # the files as last scanned
        self._map: VectorMap | None = None
        self._hashes: tuple[bytes, ...] = ()
        self._memo = VectorMemo()
        self._run: EmbeddingRun | None = None
        self._complete = False

    @property
    def unsettled(self) -> bool:
        """Whether the last scan met a file in the middle of being saved: look again soon."""
        return self.snapshot is not None and self.snapshot.unsettled

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories whose text was refused by the endpoint."""
        files = self.snapshot.problems if self.snapshot is not None else ()
        if self._map is None or not self.quarantined:
            return files
        texts = tuple(
            Problem(memory.id, f"not embedded: {self.quarantined[key][0]}")
            for memory, key in zip(self._map.memories, self._hashes, strict=True)
            if key in self.quarantined
        )
        return files + texts

    def draft(self) -> Draft | None:
        """Scan and index; None when the map already shows what is on disk. Runs in a thread."""
        before, scan = self.snapshot, self.store.scan(self.snapshot, self._pause)
        self.snapshot = scan
        # A touched file gives a new snapshot of the same memories.
        if self._complete and (scan is before or not scan.changed):
            return None
        self._complete = False
        return self._drafted(scan.memories)

    def _drafted(self, memories: tuple[Memory, ...]) -> Draft:
        old = self._map.memories if self._map is not None else ()
        kept_old, kept_new, added = _compare(old, memories)
        hashes = self._hash(memories, kept_old, kept_new, added)
        return Draft(
            memories,
            hashes,
            self._index(memories, kept_old, kept_new, added) if self._lexical else None,
            graph.link(memories),
            self._missing(memories, hashes),
        )

    def _hash(
        self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, added: Rows
    ) -> tuple[bytes, ...]:
        if self._embedder is None:
            return (b"",) * len(memories)
        hashes = [b""] * len(memories)
        for old, new in zip(kept_old.tolist(), kept_new.tolist(), strict=True):
            hashes[new] = self._hashes[old]
        for new in added.tolist():
            text = memories[new].content
            hashes[new] = text_hash(text) if text.strip() else b""
        return tuple(hashes)

    def _index(
        self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, added: Rows
    ) -> LexicalLeg:
        docs = self._tokenised([memories[row].content for row in added.tolist()])
        before = self._map.lexical if self._map is not None else None
        if before is None:
            return LexicalLeg.build(docs)
        return before.splice(
            kept_old=kept_old, kept_new=kept_new, added_new=added, added=docs, size=len(memories)
        )

    def _tokenised(self, texts: Sequence[str]) -> list[Terms]:
        docs = []
        for count, text in enumerate(texts, 1):
            docs.append(lexical.terms(text))
            if count % _TEXTS_A_SLICE == 0:
                self._pause()
        return docs

    def _missing(self, memories: Sequence[Memory], hashes: Sequence[bytes]) -> dict[bytes, str]:
        if self._embedder is None:
            return {}
        now = time.monotonic()
        held = {key for key, (_, until) in self.quarantined.items() if until > now}
        return {
            key: memory.content
            for memory, key in zip(memories, hashes, strict=True)
            if key and key not in held and self._memo.get(key) is None
        }

    async def embed(self, draft: Draft, progress: Callable[[int], None]) -> ProviderError | None:
        """Get the missing vectors; what failed as a whole is returned, because `finish` comes all the same."""
        assert self._embedder is not None, "without an embedder nothing is missing"
        self._run = EmbeddingRun(self._embedder, progress)
        try:
            await self._run.run(draft.missing)
        except ProviderError as error:
            return error
        finally:
            until = time.monotonic() + _QUARANTINE_S
            self.quarantined.update((k, (why, until)) for k, why in self._run.culprits.items())
        return None

    def finish(self, draft: Draft, generation: int) -> VectorMap | None:
        """Freeze the next map from a draft and the vectors known by now. Runs in a thread.

        Without a lexical leg a memory that has no vector cannot be found, so its older text is kept (B43);
        None when there is no older map either.
        """
        unknown = {key for key in draft.missing if self._vector(key) is None} - set(self.quarantined)
        if unknown and not self._lexical:
            if self._map is None:
                return None
            draft = self._with_older_texts(draft, unknown)
        rows = self._rows(draft.hashes) if self._embedder is not None else None
        new = VectorMap(
            root=self._top,
            scope=self._scope,
            generation=generation,
            memories=draft.memories,
            row_of={memory.id: row for row, memory in enumerate(draft.memories)},
            lexical=draft.lexical,
            dense=DenseLeg.build(self._embedder.key, rows) if self._embedder and rows is not None else None,
            chains=draft.chains,
        )
        if rows is not None:
            self._memo.adopt(draft.hashes, rows)
        self._map, self._hashes = new, draft.hashes
        self._complete = not unknown
        if self._complete:
            self._run = None  # its vectors stand in the map now
        return new

    def _with_older_texts(self, draft: Draft, unknown: set[bytes]) -> Draft:
        before = self._map
        assert before is not None
        kept = []
        for memory, key in zip(draft.memories, draft.hashes, strict=True):
            if key not in unknown:
                kept.append(memory)
            elif memory.id in before.row_of:
                kept.append(before.memories[before.row_of[memory.id]])
        return self._drafted(tuple(kept))

    def _vector(self, key: bytes) -> Vectors | None:
        fresh = self._run.vectors.get(key) if self._run is not None else None
        return fresh if fresh is not None else self._memo.get(key)

    def _rows(self, hashes: Sequence[bytes]) -> Vectors | None:
        """Unit rows in the order of `hashes`, zero where there is no vector; None if there is none at all."""
        vectors = [self._vector(key) if key else None for key in hashes]
        dimension = next((len(vector) for vector in reversed(vectors) if vector is not None), 0)
        if dimension == 0:
            return None
        rows = np.zeros((len(hashes), dimension), np.float32)
        for row, vector in enumerate(vectors):
            if vector is not None and len(vector) == dimension:
                rows[row] = vector
            if row % 256 == 0:
                self._pause()
        return rows

    def forget_vectors(self) -> None:
        """The next build embeds everything anew: `rebuild --full`."""
        self._memo.clear()
        self._run = None
        self._complete = False

    def retry_quarantined(self) -> None:
        """The next build tries the refused texts again: any rebuild that a person asks for."""
        if self.quarantined:
            self.quarantined.clear()
            self._complete = False

    def _pause(self) -> None:
        time.sleep(_FIRST_PAUSE_S if self._map is None else _PAUSE_S)


def _compare(old: Sequence[Memory], new: Sequence[Memory]) -> tuple[Rows, Rows, Rows]:
    """Rows of texts that stay, in the old and in the new order, and new rows of texts that do not.

    Both are ordered by id, so the rows that stay ascend in both.
    """
    row_of = {memory.id: row for row, memory in enumerate(old)}
    kept_old, kept_new, added = [], [], []
    for row, memory in enumerate(new):
        before = row_of.get(memory.id)
        if before is not None and (old[before] is memory or old[before].content == memory.content):
            kept_old.append(before)
            kept_new.append(row)
        else:
            added.append(row)
    return np.array(kept_old, np.int32), np.array(kept_new, np.int32), np.array(added, np.int32)
