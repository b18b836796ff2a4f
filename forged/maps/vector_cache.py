"""Vectors that are already known, by the hash of their text, so that a rebuild embeds only what changed.

Embeddings are never on the disk and a map always covers the full root; the cache makes the cost of that grow
with the change. It points into the rows of the current map and keeps copies of rows that have left it, as
many as there are rows, so that a branch switched away and back costs nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress, filterfalse, repeat

import numpy as np
from numpy.typing import NDArray

from forged.map import DenseLeg
from forged.models import Vectors

# A small root may lose all its files to a `git checkout`; this many rows are kept even then (1.5 KB each).
_KEPT_AT_LEAST = 1024


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorCache:
    """Rows of one root by one model, `key`: live ones and those beside by reference, retired ones by copy.

    `live` is the leg whose rows `places` tells of.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.live: DenseLeg | None = None
        self._row_of: dict[bytes, int] = {}
        self._beside: dict[bytes, Vectors] = {}
        self._retired: OrderedDict[bytes, Vectors] = OrderedDict()

    def get(self, key: bytes) -> Vectors | None:
        """The unit row of a text hash, shape (dimension,), if it is known."""
        row = self._row_of.get(key)
        if row is not None and self.live is not None:
            return self.live.row(row)
        return self._beside.get(key, self._retired.get(key))

    @property
    def is_empty(self) -> bool:
        return self.live is None and not self._retired

    @property
    def dimension(self) -> int:
        """Length of the live rows, 0 if there are none."""
        return 0 if self.live is None else self.live.dimension

    def places(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Where in `live` the row of each text hash is, -1 where it is not."""
        return np.fromiter(map(self._row_of.get, keys, repeat(-1)), np.int64, len(keys))

    def adopt(self, keys: Sequence[bytes], leg: DenseLeg) -> None:
        """Make the rows of `leg`, one for each of `keys`, the live ones; zero rows are unknown texts."""
        known = ~leg.missing
        live = dict(zip(compress(keys, known), np.flatnonzero(known).tolist(), strict=True))
        left = self._beside
        if self.live is not None:
            row = self.live.row
            left = left | {
                key: row(self._row_of[key]) for key in filterfalse(live.__contains__, self._row_of)
            }
        self.live, self._row_of, self._beside = leg, live, {}
        self._retire(left)

    def keep_beside(self, keys: Sequence[bytes], leg: DenseLeg) -> None:
        """Make the rows of `leg`, one for each of `keys`, those that stand beside the live ones."""
        before, there = self._beside, np.flatnonzero(~leg.missing).tolist()
        self._beside = {keys[row]: leg.row(row) for row in there if keys[row] not in self._row_of}
        self._retire(before)

    def _retire(self, left: dict[bytes, Vectors]) -> None:
        """Copy rows that have left and stand nowhere else; those that are back are not retired any more."""
        for key, row in left.items():
            if key not in self._row_of and key not in self._beside:
                self._retired[key] = row.copy()
        for key in (self._retired.keys() & self._beside.keys()) | (
            self._retired.keys() & self._row_of.keys()
        ):
            del self._retired[key]
        while len(self._retired) > max(len(self._row_of), _KEPT_AT_LEAST):
            self._retired.popitem(last=False)
