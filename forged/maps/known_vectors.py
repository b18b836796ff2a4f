"""Vectors of one root's texts, from one build to the next, and the dense leg that is laid out from them.

A text's vector is known from the current map, from a map before it, from the run that is embedding now, or
from a parcel that another daemon packed, if the model that answers is the one that the parcel names.
After `renew` the old ones serve until the last text is embedded anew: all vectors of a map are of one model
and one time. To be used by one build at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from forged.map import Baseline, DenseLeg, carried
from forged.maps.embed_batches import EmbeddingRun
from forged.maps.embed_line import Place
from forged.maps.identity import Identity
from forged.maps.parcel import Label, Parcel, Shelf, Stock, Unusable
from forged.maps.vector_cache import VectorCache
from forged.models import Purpose, Vectors

logger = logging.getLogger(__name__)

Known = Callable[[bytes], Vectors | None]
_NO_PLACES = np.empty(0, np.int64)


class KnownVectors:
    """Vectors of one model by text hash; b"" stands for a text that has none.

    `cut` are hashes of texts of which only the beginning was embedded. `starts_anew`: what the run under way
    brings is of no use any more.
    """

    def __init__(self, identity: Identity, top: str, parcel: Parcel | None = None) -> None:
        """Take the model, the top of the root that the texts are from, and what was packed of them."""
        self.cut = frozenset[bytes]()
        self.starts_anew = False
        self._identity = identity
        self._purpose = Purpose("build", (top,))
        self._cache = VectorCache(identity.kept)
        self._cues = VectorCache(identity.kept)
        self._older: tuple[VectorCache, VectorCache] | None = None  # both, from before `renew`
        self._run: EmbeddingRun | None = None
        self._parcel = parcel
        self._unpacked: Known | None = None  # what reads the parcel

    def get(self, key: bytes) -> Vectors | None:
        """The newest vector of a text, if there is one."""
        fresh = self._run.vectors.get(key) if self._run is not None else None
        if fresh is None:
            fresh = _held(key, (self._cache, self._cues))
        return self._packed(key) if fresh is None else fresh

    def missing(self, hashes: Sequence[bytes]) -> list[int]:
        """Rows of the texts that have to be embedded."""
        rows = np.flatnonzero(self._cache.places(hashes) < 0).tolist()
        return [row for row in rows if hashes[row] and self.get(hashes[row]) is None]

    @property
    def serves_older(self) -> bool:
        """Whether the vectors from before `renew` serve until the last new one is there."""
        return self._older is not None

    def are_outdated(self) -> bool:
        """Whether these are of another model than maps are to hold; where there are none they are of that."""
        if self._cache.is_empty and (self._run is None or not self._run.vectors):
            self._cache.key = self._cues.key = self._identity.kept
        return self._cache.key != self._identity.kept

    def renew(self) -> None:
        """Know nothing; what was known serves on until all texts of a map are embedded anew."""
        if self._older is None and not self._cache.is_empty:
            self._older = self._cache, self._cues
        self.starts_anew, self._run = self._run is not None, None
        self._cache, self._cues = VectorCache(self._identity.kept), VectorCache(self._identity.kept)
        self.cut = frozenset()
        self._parcel = self._unpacked = None

    def begin(self, progress: Callable[[int], None], place: Place | None = None) -> EmbeddingRun:
        """A new run, with what got through before an outage."""
        self.starts_anew = False
        before, self._run = self._run, EmbeddingRun(self._identity, self._purpose, progress, place)
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
        older = self._older
        return self.get if older is None or all_new else lambda key: _held(key, older)

    def _caches(self, *, all_new: bool) -> tuple[VectorCache, VectorCache]:
        return (self._cache, self._cues) if self._older is None or all_new else self._older

    def leg(self, hashes: Sequence[bytes], baseline: Baseline | None, *, all_new: bool) -> DenseLeg | None:
        """The dense leg of texts by hash, calibrated for the gate; None without any vector."""
        return self._leg(hashes, baseline, self._caches(all_new=all_new)[0], all_new=all_new)

    def cued(self, hashes: Sequence[bytes], *, all_new: bool) -> DenseLeg | None:
        """That of cues, which are no part of any statistics."""
        return self._leg(hashes, None, self._caches(all_new=all_new)[1], all_new=all_new)

    def _leg(
        self, hashes: Sequence[bytes], baseline: Baseline | None, cache: VectorCache, *, all_new: bool
    ) -> DenseLeg | None:
        places = cache.places(hashes)
        leg = self._laid_out(hashes, places, cache, self.of_one_time(all_new=all_new))
        if leg is not None:
            if baseline is not None:
                carried(cache.live, places, leg, baseline)
            if cache in (self._cache, self._cues):
                cache.adopt(hashes, leg)
        return leg

    def beside(self, hashes: Sequence[bytes], baseline: Baseline | None, *, all_new: bool) -> DenseLeg | None:
        """The dense leg of a few texts by hash, to stand beside the one that was laid out last."""
        return self._beside(hashes, baseline, self._caches(all_new=all_new)[0], all_new=all_new)

    def cued_beside(self, hashes: Sequence[bytes], *, all_new: bool) -> DenseLeg | None:
        """That of a few cues."""
        return self._beside(hashes, None, self._caches(all_new=all_new)[1], all_new=all_new)

    def _beside(
        self, hashes: Sequence[bytes], baseline: Baseline | None, cache: VectorCache, *, all_new: bool
    ) -> DenseLeg | None:
        known = self.of_one_time(all_new=all_new)
        vectors = [known(key) if key else None for key in hashes]
        dimension = cache.dimension or max((len(each) for each in vectors if each is not None), default=0)
        rows = np.zeros((len(hashes), dimension), np.float32)
        for row, vector in enumerate(vectors):
            if vector is not None and len(vector) == dimension:
                rows[row] = vector
        leg = DenseLeg.build(cache.key, rows) if rows.any() else None
        if leg is not None and cache in (self._cache, self._cues):
            cache.keep_beside(hashes, leg)
        if leg is not None and baseline is not None:
            carried(None, _NO_PLACES, leg, baseline)
        return leg

    def settle(self) -> None:
        """All vectors stand in the map now."""
        if self._run is not None:
            self.take(self._run)
        self._run = self._older = self._parcel = self._unpacked = None

    @property
    def waiting(self) -> int:
        """How many vectors are in no map yet."""
        return 0 if self._run is None else len(self._run.vectors)

    def stock(self, root: str, shelves: Sequence[Shelf]) -> Stock | Parcel | None:
        """What there is to be packed of a map's parts, or of a run that is to bring the first map.

        While nothing is known but what was packed, it is the parcel itself.
        """
        fresh = {} if self._run is None else self._run.vectors.copy()
        usable = tuple(map(self._without_older, shelves)) or (Shelf(tuple(fresh), None),)
        if not fresh and all(shelf.leg is None for shelf in usable):
            return self._parcel
        key = self._cache.key
        known = self._identity.remembered.told(self._identity.embedder.key, key)
        cut = self.cut if self._run is None else self.cut | self._run.cut
        return Stock(Label(root, key, known=known), usable, fresh, cut)

    def _without_older(self, shelf: Shelf) -> Shelf:
        """A part of a map without vectors that serve only until the new ones are there."""
        is_older = shelf.leg is not None and (shelf.leg.key != self._cache.key or self._older is not None)
        return Shelf(shelf.hashes, None) if is_older else shelf

    def _packed(self, key: bytes) -> Vectors | None:
        """The vector of a text as it was packed, once it is certain that the same model answers."""
        if self._parcel is not None and self._unpacked is None and self._identity.is_certain:
            self._unpack(self._parcel)
        return None if self._unpacked is None else self._unpacked(key)

    def _unpack(self, parcel: Parcel) -> None:
        try:
            self._unpacked, cut = parcel.read(self._identity.kept, self._identity.dimension)
            self.cut |= cut
        except Unusable as error:
            logger.warning("packed vectors not used, their texts are embedded anew error=%s", error)
            self._parcel = None

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


def _held(key: bytes, caches: Sequence[VectorCache]) -> Vectors | None:
    """The vector of a text in the first cache that has it."""
    return next((held for cache in caches if (held := cache.get(key)) is not None), None)
