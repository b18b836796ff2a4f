"""Vectors of one root's texts, kept from one build to the next, and the dense index made from them.

A vector comes from an earlier map, from the run that embeds now, or from a pack of another daemon if the same
model answers. With a `VectorCache` the cost of a map grows only with the change. After `renew` the old
vectors serve until the last text is embedded anew. Used by one build at a time.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import compress, filterfalse, repeat

import numpy as np
from numpy.typing import NDArray

from forged.map import Baseline, DenseIndex, build_dense, carry_calibration, edit_dense
from forged.maps.embedding import EmbeddingQueue, EmbeddingRun
from forged.maps.vector_pack import PackLabel, PackPart, PackSource, UnusablePack, VectorPack
from forged.models import Purpose, Vectors

logger = logging.getLogger(__name__)

Known = Callable[[bytes], Vectors | None]
_NO_PLACES = np.empty(0, np.int64)
# A small root may lose all its files to a `git checkout`; this many rows are kept even then (1.5 KB each).
_KEPT_AT_LEAST = 1024


class VectorCache:
    """Vectors of one root and model by text hash: the `live` index, recent rows, retired copies.

    As many retired rows are kept as are live, so that switching a branch back and forth costs nothing.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.live: DenseIndex | None = None
        self._row_of: dict[bytes, int] = {}
        self._recent: dict[bytes, Vectors] = {}
        self._retired: OrderedDict[bytes, Vectors] = OrderedDict()

    def get(self, key: bytes) -> Vectors | None:
        """Return the unit vector of a text hash, shape (dimension,); None if it is not known."""
        row = self._row_of.get(key)
        if row is not None and self.live is not None:
            return self.live.row(row)
        return self._recent.get(key, self._retired.get(key))

    @property
    def is_empty(self) -> bool:
        return self.live is None and not self._retired

    @property
    def dimension(self) -> int:
        """Dimension of the live rows, 0 if there are none."""
        return 0 if self.live is None else self.live.dimension

    def places(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the row of each text hash in `live`, -1 for a missing one."""
        return np.fromiter(map(self._row_of.get, keys, repeat(-1)), np.int64, len(keys))

    def adopt(self, keys: Sequence[bytes], index: DenseIndex) -> None:
        """Make `index` the live one, with a row for each of `keys`; retire older rows not in it."""
        known = ~index.missing
        live = dict(zip(compress(keys, known), np.flatnonzero(known).tolist(), strict=True))
        left = self._recent
        if self.live is not None:
            row = self.live.row
            left = left | {
                key: row(self._row_of[key]) for key in filterfalse(live.__contains__, self._row_of)
            }
        self.live, self._row_of, self._recent = index, live, {}
        self._retire(left)

    def keep_recent(self, keys: Sequence[bytes], index: DenseIndex) -> None:
        """Make the rows of `index`, one for each of `keys`, the recent ones; retire those before."""
        before, there = self._recent, np.flatnonzero(~index.missing).tolist()
        self._recent = {keys[row]: index.row(row) for row in there if keys[row] not in self._row_of}
        self._retire(before)

    def _retire(self, left: dict[bytes, Vectors]) -> None:
        """Keep copies of rows that left all indexes; drop copies of rows that are back, and the oldest."""
        for key, row in left.items():
            if key not in self._row_of and key not in self._recent:
                self._retired[key] = row.copy()
        for key in (self._retired.keys() & self._recent.keys()) | (
            self._retired.keys() & self._row_of.keys()
        ):
            del self._retired[key]
        while len(self._retired) > max(len(self._row_of), _KEPT_AT_LEAST):
            self._retired.popitem(last=False)


class KnownVectors:
    """All known vectors of one root's texts by one model, by text hash; builds the dense indexes.

    `cut` are hashes of texts embedded by their beginning. `starts_anew`: the run under way is useless.
    """

    def __init__(self, queue: EmbeddingQueue, top: str, vector_pack: VectorPack | None = None) -> None:
        self.cut = frozenset[bytes]()
        self.starts_anew = False
        self._queue = queue
        self._identity = identity = queue.identity
        self._purpose = Purpose("build", (top,))
        self._cache = VectorCache(identity.kept)
        self._cues = VectorCache(identity.kept)
        self._older: tuple[VectorCache, VectorCache] | None = None  # both, from before `renew`
        self._run: EmbeddingRun | None = None
        self._vector_pack = vector_pack
        self._unpacked: Known | None = None  # lookup in the pack

    def get(self, key: bytes) -> Vectors | None:
        """Return the newest vector of a text by hash: of the run, an index or the pack; else None."""
        fresh = self._run.vectors.get(key) if self._run is not None else None
        if fresh is None:
            fresh = _first_found(key, (self._cache, self._cues))
        return self._from_pack(key) if fresh is None else fresh

    def missing(self, hashes: Sequence[bytes]) -> list[int]:
        """Return the row numbers of those hashes that have no known vector; blank texts are left out."""
        rows = np.flatnonzero(self._cache.places(hashes) < 0).tolist()
        return [row for row in rows if hashes[row] and self.get(hashes[row]) is None]

    @property
    def serves_older(self) -> bool:
        """True if vectors from before `renew` serve until the last new one is there."""
        return self._older is not None

    def are_outdated(self) -> bool:
        """Return True if the vectors are of another model than maps hold; an empty store takes that model."""
        if self._cache.is_empty and (self._run is None or not self._run.vectors):
            self._cache.key = self._cues.key = self._identity.kept
        return self._cache.key != self._identity.kept

    def renew(self) -> None:
        """Forget all vectors; the old ones serve until all texts of a map are embedded anew."""
        if self._older is None and not self._cache.is_empty:
            self._older = self._cache, self._cues
        self.starts_anew, self._run = self._run is not None, None
        self._cache, self._cues = VectorCache(self._identity.kept), VectorCache(self._identity.kept)
        self.cut = frozenset()
        self._vector_pack = self._unpacked = None

    def begin(
        self, texts: int, used_at: Callable[[], float], progress: Callable[[int], None]
    ) -> EmbeddingRun:
        """Begin a new embedding run, which starts with the vectors of the run before, if any."""
        self.starts_anew = False
        run = self._queue.begin_run(self._purpose, texts=texts, used_at=used_at, progress=progress)
        before, self._run = self._run, run
        if before is not None:
            run.vectors.update(before.vectors)
            run.cut |= before.cut
        return run

    def add_cut(self, run: EmbeddingRun) -> None:
        """Add the texts that the current run embedded by their beginning to `cut`; ignore another run."""
        if run is self._run:
            self.cut |= run.cut

    def lookup(self, *, all_new: bool) -> Known:
        """Return a lookup by hash for the next map: of old vectors until all new ones are there."""
        older = self._older
        return self.get if older is None or all_new else lambda key: _first_found(key, older)

    def build_index(
        self,
        hashes: Sequence[bytes],
        baseline: Baseline | None,
        *,
        all_new: bool,
        recent: bool = False,
        cues: bool = False,
    ) -> DenseIndex | None:
        """Build and cache the dense index of texts by hash, calibrated for the gate; None without vectors.

        With `recent` the texts are added next to the index that was laid out last.
        """
        caches = (self._cache, self._cues)
        cache = (caches if self._older is None or all_new else self._older)[cues]
        known, places = self.lookup(all_new=all_new), _NO_PLACES
        if recent:
            index = self._build_recent(hashes, cache, known)
        else:
            places = cache.places(hashes)
            index = self._build_index(hashes, places, cache, known)
        if index is None:
            return None
        if baseline is not None:
            carry_calibration(None if recent else cache.live, places, index, baseline)
        if cache in caches:
            (cache.keep_recent if recent else cache.adopt)(hashes, index)
        return index

    def _build_recent(self, hashes: Sequence[bytes], cache: VectorCache, known: Known) -> DenseIndex | None:
        """Build a small index of recent texts with the cache's dimension; None without any vector."""
        vectors = [known(key) if key else None for key in hashes]
        dimension = cache.dimension or max((len(each) for each in vectors if each is not None), default=0)
        rows = np.zeros((len(hashes), dimension), np.float32)
        for row, vector in enumerate(vectors):
            if vector is not None and len(vector) == dimension:
                rows[row] = vector
        return build_dense(cache.key, rows) if rows.any() else None

    def settle(self) -> None:
        """Drop the run, the older vectors and the pack, as the map has all vectors now."""
        if self._run is not None:
            self.add_cut(self._run)
        self._run = self._older = self._vector_pack = self._unpacked = None

    @property
    def waiting(self) -> int:
        """Number of vectors of the current run that no map has yet."""
        return 0 if self._run is None else len(self._run.vectors)

    def pack_source(self, root: str, pack_parts: Sequence[PackPart]) -> PackSource | VectorPack | None:
        """Return the vectors to pack: of a map's parts, or of a run for the first map.

        While only packed vectors are known, this is the pack itself.
        """
        fresh = {} if self._run is None else self._run.vectors.copy()
        usable = tuple(map(self._without_older, pack_parts)) or (PackPart(tuple(fresh), None),)
        if not fresh and all(pack_part.dense is None for pack_part in usable):
            return self._vector_pack
        key = self._cache.key
        known = self._identity.model_cache.encode_model(self._identity.embedder.key, key)
        cut = self.cut if self._run is None else self.cut | self._run.cut
        return PackSource(PackLabel(root, key, known=known), usable, fresh, cut)

    def _without_older(self, pack_part: PackPart) -> PackPart:
        """Return a map part without vectors that only serve until the new ones are there."""
        is_older = pack_part.dense is not None and (
            pack_part.dense.key != self._cache.key or self._older is not None
        )
        return PackPart(pack_part.hashes, None) if is_older else pack_part

    def _from_pack(self, key: bytes) -> Vectors | None:
        """Return a text's vector in the pack; None until the same model is known to answer."""
        if self._vector_pack is not None and self._unpacked is None and self._identity.is_certain:
            self._open_pack(self._vector_pack)
        return None if self._unpacked is None else self._unpacked(key)

    def _open_pack(self, vector_pack: VectorPack) -> None:
        """Open the pack's lookup; drop an unusable pack with a warning."""
        try:
            self._unpacked, cut = vector_pack.read(self._identity.kept, self._identity.dimension)
            self.cut |= cut
        except UnusablePack as error:
            logger.warning("packed vectors not used, their texts are embedded anew error=%s", error)
            self._vector_pack = None

    def _build_index(
        self, hashes: Sequence[bytes], places: NDArray[np.int64], cache: VectorCache, known: Known
    ) -> DenseIndex | None:
        """Build the index of all texts by an edit of the live one; None without any vector."""
        fresh = {
            row: vector
            for row in np.flatnonzero(places < 0).tolist()
            if hashes[row] and (vector := known(hashes[row])) is not None
        }
        dimension = len(next(reversed(fresh.values()))) if fresh else cache.dimension
        if any(len(vector) != dimension for vector in fresh.values()):
            fresh = {row: vector for row, vector in fresh.items() if len(vector) == dimension}
        live = cache.live
        if live is not None and live.dimension == dimension and (fresh or (places >= 0).any()):
            return edit_dense(live, places, fresh)
        if not fresh:
            return None
        nothing = build_dense(cache.key, np.zeros((0, dimension), np.float32))
        return edit_dense(nothing, np.full(len(hashes), -1), fresh)


def _first_found(key: bytes, caches: Sequence[VectorCache]) -> Vectors | None:
    """Return the vector of a text by hash from the first cache that has it; else None."""
    return next((held for cache in caches if (held := cache.get(key)) is not None), None)
