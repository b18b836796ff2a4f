"""An embedding model's background: where everyday messages lie among its vectors.

Sentence models put all texts into a narrow cone, queries and passages into two places of it, and no two
models into the same: a cosine of 0.8 is next to nothing for one and a perfect match for another. So a fixed
list of messages that know nothing of any store is embedded once per model, on both sides. Its means are what
is subtracted before anything is compared, and the two directions in which it spreads most are dropped: with
multilingual-e5-small these are the writing system (r 0.94) and code against chat (r 0.70), and no subject.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.dense import DenseLeg, cosines_into
from forged.models import Vectors

# Own set, area under the curve of unrelated against related: 0.86, 0.91, 0.91 for 0, 1, 2; 3-6 are like 2.
_AXES = 2
# With fewer numbers than this two axes are half of everything, and no language model has so few.
LEAST_DIMENSION = 64
_SAME = 1e-6


class Background(msgspec.Struct, frozen=True, eq=False):
    """What was learned from the messages of `everyday`, for vectors of d numbers.

    `key` is the embedder's; `asked` and `noted` (d,) are the means on the query and on the passage side;
    `axes` (2, d) the unit directions that are dropped; `messages` (b, d) the messages as queries, prepared.
    """

    key: str
    asked: NDArray[np.float32]
    noted: NDArray[np.float32]
    axes: NDArray[np.float32]
    messages: Vectors

    @classmethod
    def of(cls, key: str, asked: Vectors, noted: Vectors) -> Background:
        """Learn from the same messages as queries and as passages, unit rows (b, d) each."""
        middle, other = asked.mean(axis=0), noted.mean(axis=0)
        spread = np.vstack([asked - middle, noted - other])
        values, directions = np.linalg.eigh(spread @ spread.T)  # (2b, 2b): a tenth of the work of an SVD
        lengths = np.sqrt(np.maximum(values[::-1][:_AXES, None], _SAME))
        axes = (directions[:, ::-1][:, :_AXES].T @ spread / lengths).astype(np.float32)
        return cls(key, middle, other, axes, _prepared(asked, middle, axes))

    def fits(self, leg: DenseLeg) -> bool:
        """Whether a leg is of the same model; one that was replaced behind its name has other vectors."""
        return self.key == leg.key and self.messages.shape[1] == leg.dimension

    def queries(self, vectors: Vectors) -> Vectors:
        """Queries (q, d) centred, without the axes, of unit length."""
        return _prepared(vectors, self.asked, self.axes)

    def scales(self, leg: DenseLeg) -> NDArray[np.float32]:
        """One over the length of each row of a leg after the same treatment, (n,); 0 where it has none."""
        products = np.empty((1 + len(self.axes), len(leg)), np.float32)
        cosines_into(products, leg, np.vstack([self.noted, self.axes]))
        scales = self._scales(products)
        scales[leg.missing] = 0
        return scales

    def scales_of(self, rows: Vectors) -> NDArray[np.float32]:
        """The same for some unit rows (c, d)."""
        return self._scales(np.vstack([self.noted, self.axes]) @ rows.T)

    def _scales(self, products: Vectors) -> NDArray[np.float32]:
        along = products[1:] - (self.axes @ self.noted)[:, None]
        square = 1 - 2 * products[0] + self.noted @ self.noted - np.einsum("ij,ij->j", along, along)
        scales: NDArray[np.float32] = np.where(square > _SAME, 1 / np.sqrt(np.maximum(square, _SAME)), 0)
        return scales.astype(np.float32)

    def centred(self, prepared: Vectors, cosines: Vectors, scales: NDArray[np.float32]) -> Vectors:
        """Raw products of prepared queries with rows, (q, n), to cosines of prepared queries and rows."""
        centred: Vectors = (cosines - (prepared @ self.noted)[:, None]) * scales
        return centred


def _prepared(vectors: Vectors, middle: NDArray[np.float32], axes: NDArray[np.float32]) -> Vectors:
    rest = vectors - middle
    rest -= rest @ axes.T @ axes
    unit: Vectors = rest / np.maximum(np.linalg.norm(rest, axis=1), _SAME)[:, None]
    return unit
