"""How one root's map is made: from the files and the map before to the next map.

A build has three steps. `draft` (in a thread) scans the files and brings the lexical leg up to date; `embed`
(on the loop) gets vectors for texts that have none; `finish` (in a thread) lays the rows out and freezes
the map. `finish` may come twice: once without the vectors that are still on their way, once with them.
Long work in a thread is done at a pace that leaves the loop free to answer.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.errors import ProviderError
from forged.files.pace import Pace
from forged.files.scan import scan
from forged.files.snapshot import Snapshot
from forged.files.store import MemoryStore
from forged.map import chains, relevance
from forged.map.baseline import Baseline
from forged.map.chains import Chains
from forged.map.dense import DenseLeg
from forged.map.lexical import LexicalLeg
from forged.map.vector_map import Traits, VectorMap
from forged.maps.embed_batches import EmbeddingRun
from forged.maps.vector_cache import VectorMemo, text_hash
from forged.memory import Memory, Problem
from forged.models import Embedder, Vectors
from forged.text.terms import Terms, terms

_PAUSE_S = 0.0005
_QUARANTINE_S = 3600.0

Rows = NDArray[np.int32]
Known = Callable[[bytes], Vectors | None]


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A map without its dense leg. `hashes` are those of the texts, b"" for a blank one.

    `missing` are the texts, by hash, that have to be embedded.
    """

    memories: tuple[Memory, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalLeg | None
    chains: Chains
    traits: Traits
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
        self._older: VectorMemo | None = None  # serves until everything is embedded anew
        self._run: EmbeddingRun | None = None
        self._complete = False
        self._renew = self._retry = False  # asked for; heeded by the next draft

    @property
    def complete(self) -> bool:
        """Whether the last map shows all that the last scan found, but for what is quarantined."""
        return self._complete

    @property
    def unsettled(self) -> bool:
        """Whether the last scan met a file in the middle of being saved: look again soon."""
        return self.snapshot is not None and self.snapshot.unsettled

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories whose text was refused by the endpoint."""
        files = self.snapshot.problems if self.snapshot is not None else ()
        held = self.quarantined  # replaced, never changed, as a build in its thread looks at it too
        if self._map is None or not held:
            return files
        texts = tuple(
            Problem(memory.id, f"not embedded: {held[key][0]}")
            # Not strict: a build in its thread may be swapping the two just now.
            for memory, key in zip(self._map.memories, self._hashes, strict=False)
            if key in held
        )
        return files + texts

    def draft(self, files: frozenset[str] = frozenset()) -> Draft | None:
        """Scan and index; None when the map already shows what is on disk. Runs in a thread.

        With `files`, paths that are known to have changed, only these are looked at.
        """
        self._heed()
        before, now = self.snapshot, scan(self.store.root, self.snapshot, files, pause=self._pause)
        self.snapshot = now
        # A touched file gives a new snapshot of the same memories.
        if self._complete and (now is before or not now.changed):
            return None
        self._complete = False
        return self._drafted(now.memories)

    def _heed(self) -> None:
        """Do what was asked for since the last draft; not sooner, as a build may be under way."""
        if self._renew:
            self._older, self._memo, self._run = self._older or self._memo, VectorMemo(), None
            self._renew = self._complete = False
        now = time.monotonic()
        held = {} if self._retry else {k: v for k, v in self.quarantined.items() if v[1] > now}
        if len(held) < len(self.quarantined):
            self.quarantined, self._complete = held, False
        self._retry = False

    def _drafted(self, memories: tuple[Memory, ...]) -> Draft:
        old = self._map.memories if self._map is not None else ()
        kept_old, kept_new, added, redated = _compare(old, memories, Pace(self._pause))
        hashes = self._hash(memories, kept_old, kept_new, added)
        return Draft(
            memories,
            hashes,
            self._index(memories, kept_old, kept_new, added) if self._lexical else None,
            chains.link(memories),
            self._traits(memories, kept_old, kept_new, np.concatenate((added, redated))),
            self._missing(memories, hashes),
        )

    def _hash(
        self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, added: Rows
    ) -> tuple[bytes, ...]:
        if self._embedder is None:
            return (b"",) * len(memories)
        hashes = np.full(len(memories), b"", object)
        hashes[kept_new] = np.array(self._hashes, object)[kept_old]
        pace = Pace(self._pause)
        for new in added.tolist():
            text = memories[new].content
            hashes[new] = text_hash(text) if text.strip() else b""
            pace.yield_if_due()
        return tuple(hashes.tolist())

    def _index(self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, added: Rows) -> LexicalLeg:
        docs = self._tokenised([memories[row].content for row in added.tolist()])
        before = self._map.lexical if self._map is not None else None
        if before is None:
            return LexicalLeg.build(docs)
        return before.splice(
            kept_old=kept_old, kept_new=kept_new, added_new=added, added=docs, size=len(memories)
        )

    def _traits(self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, fresh: Rows) -> Traits:
        if self._map is None:
            return Traits.of(memories)
        return self._map.traits.edited(memories, kept_old, kept_new, fresh)

    def _tokenised(self, texts: Sequence[str]) -> list[Terms]:
        pace = Pace(self._pause)
        docs = []
        for text in texts:
            docs.append(terms(text))
            pace.yield_if_due()
        return docs

    def _missing(self, memories: Sequence[Memory], hashes: Sequence[bytes]) -> dict[bytes, str]:
        if self._embedder is None:
            return {}
        return {
            hashes[row]: memories[row].content
            for row in np.flatnonzero(self._memo.places(hashes) < 0).tolist()
            if hashes[row] and hashes[row] not in self.quarantined and self._vector(hashes[row]) is None
        }

    async def embed(self, draft: Draft, progress: Callable[[int], None]) -> ProviderError | None:
        """Get the missing vectors; what failed as a whole is returned: `finish` comes all the same."""
        assert self._embedder is not None, "without an embedder nothing is missing"
        run, before = EmbeddingRun(self._embedder, progress), self._run
        if before is not None:
            run.vectors.update(before.vectors)  # what got through before an outage
        self._run = run
        try:
            await run.run(draft.missing)
        except ProviderError as error:
            return error
        finally:
            until = time.monotonic() + _QUARANTINE_S
            self.quarantined = self.quarantined | {k: (why, until) for k, why in run.culprits.items()}
        return self._of_another_dimension(run)

    def finish(self, draft: Draft, generation: int, background: Baseline | None = None) -> VectorMap | None:
        """Freeze the next map from a draft and the vectors known by now. Runs in a thread.

        Without a lexical leg a memory that has no vector cannot be found, so its older text is kept (B43);
        None when there is no older map either.
        """
        unknown = self._unknown(draft, self._vector)
        # All vectors of a map are of one time: old ones until the last new one is there.
        memo = self._memo if self._older is None or not unknown else self._older
        known = self._vector if memo is self._memo else memo.get
        lost = self._unknown(draft, known)
        if lost and not self._lexical:
            if self._map is None:
                return None
            draft = self._with_older_texts(draft, lost)
        places = memo.places(draft.hashes)
        dense = self._dense(draft.hashes, places, memo, known)
        if dense is not None and background is not None:
            self._calibrate(dense, places, memo, background)
        new = VectorMap(
            root=self._top,
            scope=self._scope,
            generation=generation,
            memories=draft.memories,
            lexical=draft.lexical,
            dense=dense,
            chains=draft.chains,
            traits=draft.traits,
        )
        if dense is not None and memo is self._memo:
            memo.adopt(draft.hashes, dense)
        self._map, self._hashes = new, draft.hashes
        self._complete = not unknown
        if self._complete:
            self._run = self._older = None  # the vectors stand in the map now
        return new

    def _unknown(self, draft: Draft, known: Known) -> set[bytes]:
        return {key for key in draft.missing if known(key) is None} - set(self.quarantined)

    def _of_another_dimension(self, run: EmbeddingRun) -> ProviderError | None:
        """The model was replaced behind its name: what is known is worth nothing, so embed all anew."""
        fresh, dimension = next(iter(run.vectors.values()), None), self._memo.dimension
        if fresh is None or dimension in {0, len(fresh)}:
            return None
        self._renew = True
        run.vectors.clear()  # never two dimensions in one map
        message = f"vectors have {len(fresh)} numbers after {dimension}; all texts are embedded anew"
        return ProviderError(message, reason="bad_reply")

    def _with_older_texts(self, draft: Draft, unknown: set[bytes]) -> Draft:
        before = self._map
        assert before is not None
        kept = []
        for memory, key in zip(draft.memories, draft.hashes, strict=True):
            if key not in unknown:
                kept.append(memory)
            elif (older := before.find(memory.id)) is not None:
                kept.append(older)
        return self._drafted(tuple(kept))

    def _vector(self, key: bytes) -> Vectors | None:
        fresh = self._run.vectors.get(key) if self._run is not None else None
        return fresh if fresh is not None else self._memo.get(key)

    def _dense(
        self, hashes: Sequence[bytes], places: NDArray[np.int64], memo: VectorMemo, known: Known
    ) -> DenseLeg | None:
        """The dense leg of texts by hash: the memo's live rows and what else is known; None without any."""
        if self._embedder is None:
            return None
        live = memo.live
        fresh = {
            row: vector
            for row in np.flatnonzero(places < 0).tolist()
            if hashes[row] and (vector := known(hashes[row])) is not None
        }
        dimension = len(next(reversed(fresh.values()))) if fresh else memo.dimension
        fresh = {row: vector for row, vector in fresh.items() if len(vector) == dimension}
        if live is not None and live.dimension == dimension and (fresh or (places >= 0).any()):
            return live.edited(places, fresh)
        if not fresh:
            return None
        rows = np.zeros((len(hashes), dimension), np.float32)
        rows[list(fresh)] = list(fresh.values())
        return DenseLeg.build(self._embedder.key, rows)

    def _calibrate(
        self, dense: DenseLeg, places: NDArray[np.int64], memo: VectorMemo, background: Baseline
    ) -> None:
        """Have the gate's view of the new leg ready, so that no search has to wait for it."""
        if not dense.present or not background.fits(dense):
            return
        if memo.live is None:
            relevance.calibrated(dense, background)
        else:
            relevance.carried(memo.live, places, dense, background)

    def forget_vectors(self) -> None:
        """The next build embeds everything anew: `rebuild --full`. Until it has, the old vectors serve."""
        self._renew = True
        if self._embedder is not None:
            self._embedder.reset_dimension()

    def retry_quarantined(self) -> None:
        """The next build tries the refused texts again: any rebuild that a person asks for."""
        self._retry = True

    def _pause(self) -> None:
        """Be patient beside a map that serves; before the first one, someone is waiting for it."""
        if self._map is not None:
            time.sleep(_PAUSE_S)


def _compare(old: Sequence[Memory], new: Sequence[Memory], pace: Pace) -> tuple[Rows, Rows, Rows, Rows]:
    """Rows of texts that stay, in the old and in the new order, and new rows of texts that do not.

    At last those new rows whose text stays under other front matter.

    Both are ordered by id, so the rows that stay ascend in both. Most rebuilds are for one memory, and all
    others are the very same objects: what is before and behind the difference is not looked at one by one.
    """
    shorter = min(len(old), len(new))
    head = _alike(old, new, shorter)
    most = shorter - head
    tail = min(_alike(reversed(old), reversed(new), most), most)
    kept_old, kept_new, added, redated = [], [], [], []
    row_of = {old[row].id: row for row in range(head, len(old) - tail)}
    for row in range(head, len(new) - tail):
        memory, before = new[row], row_of.get(new[row].id)
        if before is not None and (old[before] is memory or old[before].content == memory.content):
            kept_old.append(before)
            kept_new.append(row)
            if old[before] is not memory:
                redated.append(row)
        else:
            added.append(row)
        pace.yield_if_due()
    return (
        _framed(head, kept_old, len(old), tail),
        _framed(head, kept_new, len(new), tail),
        _rows(added),
        _rows(redated),
    )


def _alike(old: Iterable[Memory], new: Iterable[Memory], most: int) -> int:
    """How many memories, from the front, are the same objects in both; `most` if all are."""
    try:
        return operator.indexOf(map(operator.is_, old, new), False)
    except ValueError:
        return most


def _framed(head: int, middle: list[int], size: int, tail: int) -> Rows:
    """The first `head` rows, those in the middle, and the last `tail` of `size`."""
    return np.concatenate((np.arange(head), _rows(middle), np.arange(size - tail, size)), dtype=np.int32)


def _rows(rows: list[int]) -> Rows:
    return np.array(rows, np.int32)
