"""Searches that wait for their turn at the same time and see the same maps are compared with them together.

`joined` puts a question among those that wait. Whoever has its turn first asks for `cosines`, and with its
own come those of the others, up to a limit; they find theirs done. Who gives up takes no further part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from forged.map import Cosines, VectorMap, compared
from forged.models import Vectors

# Queries of one product: with more the next ping would wait longer, and little more is saved.
_MOST = 16


class Waiting:
    """One question's vectors, and what they were found to be like."""

    def __init__(
        self, among: list[Waiting], maps: tuple[VectorMap, ...], vectors: Vectors, key: str | None
    ) -> None:
        self.vectors = vectors
        self.found: tuple[Cosines | None] | None = None
        self._among = among
        self._maps = maps
        self._key = key

    def cosines(self) -> Cosines | None:
        """Compared now, with those that wait and ask the same maps, unless somebody has done it."""
        if self.found is None:
            group = self._group()
            results = compared(self._maps, [each.vectors for each in group], self._key)
            for each, result in zip(group, results, strict=True):
                each.found = (result,)
        assert self.found is not None, "its own is in the group"
        return self.found[0]

    def _group(self) -> list[Waiting]:
        group, queries = [self], len(self.vectors)
        for other in self._among:
            alike = other is not self and other.found is None and self._is_alike(other)
            if alike and queries + len(other.vectors) <= _MOST:
                group.append(other)
                queries += len(other.vectors)
        return group

    def _is_alike(self, other: Waiting) -> bool:
        same = len(self._maps) == len(other._maps) and all(map(_is, self._maps, other._maps))
        return same and self._key == other._key and self.vectors.shape[1] == other.vectors.shape[1]


def _is(one: VectorMap, other: VectorMap) -> bool:
    return one is other


@contextlib.contextmanager
def joined(
    among: list[Waiting], maps: tuple[VectorMap, ...], vectors: Vectors, key: str | None
) -> Iterator[Waiting]:
    """Wait among others until the end of the block."""
    waiting = Waiting(among, maps, vectors, key)
    among.append(waiting)
    try:
        yield waiting
    finally:
        among.remove(waiting)
