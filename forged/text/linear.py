"""A linear function of a text, in nats: of a model's row, of signs of its form, and of its pieces.

Pure Python, for processes without numpy. Raises ValueError for a row of another size than trained with.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import mul

import msgspec

from forged.text.pieces import SIZE, weight


class Weights(msgspec.Struct, frozen=True):
    """One function as it is shipped: int16 for the row and int8 for the pieces, each by its step."""

    row: bytes
    row_step: float
    signs: tuple[float, ...]
    pieces: bytes = b""
    pieces_step: float = 0.0


class Linear:
    def __init__(self, weights: Weights) -> None:
        self._row = [number * weights.row_step for number in array("h", weights.row)]
        self._signs = weights.signs
        self._pieces = array("b", weights.pieces)
        self._step = weights.pieces_step

    def at(self, row: Sequence[float], places: Sequence[int], form: Sequence[float]) -> float:
        """Return its value for a text's row, the places of its pieces, and its signs."""
        if len(row) != len(self._row):
            raise ValueError(f"a row of {len(row)} numbers for one of {len(self._row)}")
        found: float = sum(map(mul, self._row, row)) + sum(map(mul, self._signs, form))
        if self._pieces and places:
            found += sum(map(self._pieces.__getitem__, self._own(places))) * self._step * weight(len(places))
        return found

    def _own(self, places: Sequence[int]) -> Sequence[int]:
        """Places of a table that may be smaller."""
        size = len(self._pieces)
        return places if size == SIZE else [place % size for place in places]
