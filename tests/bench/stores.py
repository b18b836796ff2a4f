"""Rows of a team's store of any size, for the engine's tables and for plain ones alike.

A quarter of the rows each is of sessions, users, agents and the organization. Owners have a hundred rows on
average and very unequal shares: the busiest has a tenth of a scope's rows in a store of 40,000. Twenty
pieces of the organization's have a mark for a filter.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import vectors
from numpy.typing import NDArray
from vectors import Vectors

DIMENSION = 384
SCOPES = ("session", "user", "agent", "org")
LIMITS = {"session": 10, "user": 5, "agent": 3, "org": 5}
RARE = 20
RARE_FILTER = {"mark": "rare"}
_A_ROWS_OWNER = 100
_CONTENT = (
    "A memory of about a hundred words is five to seven hundred bytes long, and this is one of them. " * 6
)


class Part(msgspec.Struct, frozen=True, eq=False):
    """The rows of one scope; the number of a row is its id."""

    scope: str
    owners: NDArray[np.int64]
    marked: frozenset[int]
    vectors: Vectors

    def rows(self) -> Iterator[tuple[str, str, str, dict[str, str], NDArray[np.float32]]]:
        """Yield owner, id, content, metadata, vector."""
        for number, (owner, vector) in enumerate(zip(self.owners.tolist(), self.vectors, strict=True)):
            yield self.owner(owner), self.id(number), _CONTENT, self.metadata(number), vector

    def nearest_of(self, owner: str, vector: NDArray[np.float32], most: int) -> list[str]:
        """Return ids of an owner's rows, nearest first, by an exact search."""
        own = self._of(owner)
        best = np.argsort(-(self.vectors[own] @ vector))[:most]
        return [self.id(number) for number in own[best].tolist()]

    def count_of(self, owner: str) -> int:
        return len(self._of(owner))

    def _of(self, owner: str) -> NDArray[np.int64]:
        return np.flatnonzero(self.owners == int(owner.rpartition("-")[2]))

    def owner(self, number: int) -> str:
        return "" if self.scope == "org" else f"{self.scope}-{number}"

    def id(self, number: int) -> str:
        return f"mem_{self.scope}_{number:09d}"

    def metadata(self, number: int) -> dict[str, str]:
        return RARE_FILTER if number in self.marked else {"topic": f"t{number % 97}"}


class Asked(msgspec.Struct, frozen=True, eq=False):
    """One recall: a vector, and an owner of each scope that has some."""

    vector: NDArray[np.float32]
    owners: dict[str, str]


class Store(msgspec.Struct, frozen=True, eq=False):
    """All rows, and recalls about them."""

    parts: tuple[Part, ...]
    asked: tuple[Asked, ...]


def store(count: int, asked: int = 64, seed: int = 6) -> Store:
    """Return so many rows in all, of generated vectors, and so many recalls about them."""
    source = np.random.default_rng(seed)
    rows = vectors.clustered(count, DIMENSION)
    parts = tuple(_part(scope, rows[at :: len(SCOPES)], source) for at, scope in enumerate(SCOPES))
    return Store(parts, tuple(_asked(parts, source) for _ in range(asked)))


def organization(rows: Vectors) -> Part:
    """Return these vectors as pieces of the organization's documents, none of them marked."""
    return Part("org", np.zeros(len(rows), np.int64), frozenset(), rows)


def _part(scope: str, rows: Vectors, source: np.random.Generator) -> Part:
    many = max(1, len(rows) // _A_ROWS_OWNER)
    owners = (many * source.random(len(rows)) ** 2).astype(np.int64)
    marked = np.linspace(0, len(rows) - 1, RARE).astype(int).tolist() if scope == "org" else ()
    return Part(scope, owners, frozenset(marked), rows)


def _asked(parts: tuple[Part, ...], source: np.random.Generator) -> Asked:
    org = parts[-1].vectors
    about = org[source.integers(len(org), size=1)]
    owners = {part.scope: part.owner(int(part.owners[source.integers(len(part.owners))])) for part in parts}
    return Asked(vectors.moved(about, 0.1, source)[0], owners)
