"""Vectors of one root's texts, from one build to the next, and the dense leg that is laid out from them.

A text's vector is known from the current map, from a map before it, or from the run that is embedding now.
After `renew` the old ones serve until the last text is embedded anew: all vectors of a map are of one model
and one time. To be used by one build at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from forged.map import Baseline, DenseLeg, carried
from forged.maps.embed_batches import EmbeddingRun
from forged.maps.identity import Identity
from forged.maps.vector_cache import VectorCache
from forged.models import Purpose, Vectors

Known = Callable[[bytes], Vectors | None]


class KnownVectors:
    """Vectors of one model by text hash; b"" stands for a text that has none.

    `cut` are hashes of texts of which only the beginning was embedded.
    """

    def __init__(self, identity: Identity, top: str) -> None:
        """Take the model, and the top of the root that the texts are from."""
        self.cut = frozenset[bytes]()
        self._identity = identity
        self._purpose = Purpose("build", (top,))
        self._cache = VectorCache(identity.kept)
        self._older: VectorCache | None = None
        self._run: EmbeddingRun | None = None

    def get(self, key: bytes) -> Vectors | None:
        """The newest vector of a text, if there is one."""
        fresh = self._run.vectors.get(key) if self._run is not None else None
        return fresh if fresh is not None else self._cache.get(key)

    def missing(self, hashes: Sequence[bytes]) -> list[int]:
        """Rows of the texts that have to be embedded."""
        rows = np.flatnonzero(self._cache.places(hashes) < 0).tolist()
        return [row for row in rows if hashes[row] and self.get(hashes[row]) is None]

    def are_outdated(self) -> bool:
        """Whether these are of another model than maps are to hold; where there are none they are of that."""
        if self._cache.is_empty and (self._run is None or not self._run.vectors):
            self._cache.key = self._identity.kept
        return self._cache.key != self._identity.kept

    def renew(self) -> None:
        """Know nothing; what was known serves on until all texts of a map are embedded anew."""
        self._older, self._run = self._older or self._cache, None
        self._cache, self.cut = VectorCache(self._identity.kept), frozenset()

    def begin(self, progress: Callable[[int], None]) -> EmbeddingRun:
        """A new run, with what got through before an outage."""
        before, self._run = self._run, EmbeddingRun(self._identity, self._purpose, progress)
        if before is not None:
            self._run.vectors.update(before.vectors)
            self._run.cut |= before.cut
        return self._run

    def take(self, run: EmbeddingRun) -> None:
        """Keep in mind what a run, which may have been given up, found out of its texts."""
        if run is self._run:
            self.cut |= run.cut

    def of_one_time(self, *, all_new: bool) -> Known:
        """What to ask for the vectors of the next map: the old ones until the last new one is there."""
        return self.get if self._older is None or all_new else self._older.get

    def leg(self, hashes: Sequence[bytes], baseline: Baseline | None, *, all_new: bool) -> DenseLeg | None:
        """The dense leg of texts by hash, calibrated for the gate; None without any vector."""
        cache = self._cache if self._older is None or all_new else self._older
        places = cache.places(hashes)
        leg = self._laid_out(hashes, places, cache, self.of_one_time(all_new=all_new))
        if leg is not None:
            if baseline is not None:
                carried(cache.live, places, leg, baseline)
            if cache is self._cache:
                cache.adopt(hashes, leg)
        return leg

    def settle(self) -> None:
        """All vectors stand in the map now."""
        self._run = self._older = None

    def _laid_out(
        self, hashes: Sequence[bytes], places: NDArray[np.int64], cache: VectorCache, known: Known
    ) -> DenseLeg | None:
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
            return live.edited(places, fresh)
        if not fresh:
            return None
        nothing = DenseLeg.build(cache.key, np.zeros((0, dimension), np.float32))
        return nothing.edited(np.full(len(hashes), -1), fresh)
