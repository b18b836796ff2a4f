"""Parts of a map: memories whose rows were laid out together, with words, vectors, traits and cues.

An edit copies nothing large: it marks rows as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.dense import DenseIndex
from forged.map.lexical import EMPTY_INDEX, Ints, LexicalIndex
from forged.memory import Memory, time_ns
from forged.text.dates import Seconds
from forged.text.terms import is_cjk

_NO_ROWS = np.empty(0, np.intp)


class Traits(msgspec.Struct, frozen=True, eq=False):
    """Creation times, and flags of CJK texts, of a map part's memories: two arrays (n,).

    `created` int64 are seconds since the epoch, 0 if unknown. `is_cjk` bool is True for Chinese, Japanese or
    Korean.
    """

    created: Seconds
    is_cjk: NDArray[np.bool_]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Traits:
        """Compute the creation times and the CJK flags of memories."""
        created = np.fromiter(
            (_epoch_seconds(memory.created_at) for memory in memories), np.int64, len(memories)
        )
        return cls(created, are_cjk(memory.content for memory in memories))

    def after_edit(self, memories: Sequence[Memory], kept_old: Ints, kept_new: Ints, fresh: Ints) -> Traits:
        """Return the traits after an edit: rows `kept_new` were `kept_old`, rows `fresh` are computed."""
        created, is_cjk = np.zeros(len(memories), np.int64), np.zeros(len(memories), np.bool_)
        created[kept_new], is_cjk[kept_new] = self.created[kept_old], self.is_cjk[kept_old]
        looked = Traits.of([memories[row] for row in fresh.tolist()])
        created[fresh], is_cjk[fresh] = looked.created, looked.is_cjk
        return Traits(created, is_cjk)


def _epoch_seconds(created_at: str) -> int:
    """Convert a creation time to whole seconds since the epoch, 0 if unknown."""
    return max(0, time_ns(created_at) // 1_000_000_000)


def are_cjk(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return a mask: True for each text that is over a fifth Chinese, Japanese or Korean."""
    return np.fromiter(map(is_cjk, texts), np.bool_)


class Cues(msgspec.Struct, frozen=True, eq=False):
    """Cues of a map part with their indexes: lines on when a memory is useful, as good as its text.

    `owners` intp (m,), ascending, are the rows of the memories with cues. `begins` intp (m,) are their first
    cues.
    """

    owners: NDArray[np.intp]
    begins: NDArray[np.intp]
    is_cjk: NDArray[np.bool_]
    lexical: LexicalIndex | None
    dense: DenseIndex | None = None

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row of the memory of each cue, (c,)."""
        return np.repeat(self.owners, np.diff(self.begins, append=len(self.is_cjk)))

    def without(self, gone: NDArray[np.bool_]) -> Cues:
        """Return the cues after memories are gone: theirs no longer count in either index."""
        lost = gone[self.rows]
        return msgspec.structs.replace(
            self,
            lexical=self.lexical.without(lost) if self.lexical is not None else None,
            dense=self.dense.without(lost) if self.dense is not None else None,
        )

    def lift(
        self, values: NDArray[np.float32], ours: NDArray[np.float32], fixed: NDArray[np.bool_] | None = None
    ) -> None:
        """Raise `values` of rows, except `fixed` ones, in place to the best of their cues' values `ours`.

        `values` are (queries, rows), `ours` (queries, c).
        """
        free = slice(None) if fixed is None else np.flatnonzero(~fixed[self.owners])
        best = np.maximum.reduceat(ours, self.begins, axis=1)[:, free]
        owners = self.owners[free]
        values[:, owners] = np.maximum(values[:, owners], best)


class MapPart(msgspec.Struct, frozen=True, eq=False):
    """Memories whose rows were laid out together, with indexes of words and vectors, traits and cues.

    `memories` are sorted by unique id. A memory's place among them is its row in both indexes and in the
    traits. An index is None until it is built. `gone` bool (n,) are rows that an edit replaced or removed
    since: the indexes neither find nor count them. None means no such row, and for `cues` no cues. `second`
    are vectors by another model than the map's own.
    """

    memories: tuple[Memory, ...]
    lexical: LexicalIndex | None
    dense: DenseIndex | None
    traits: Traits
    gone: NDArray[np.bool_] | None = None
    cues: Cues | None = None
    second: DenseIndex | None = None

    def without(self, gone: NDArray[np.bool_]) -> MapPart:
        """Return the part with exactly these rows gone; copies nothing large."""
        return MapPart(
            self.memories,
            self.lexical.without(gone) if self.lexical is not None else None,
            self.dense.without(gone) if self.dense is not None else None,
            self.traits,
            gone,
            self.cues.without(gone) if self.cues is not None else None,
            self.second.without(gone) if self.second is not None else None,
        )

    @property
    def cue_words(self) -> LexicalIndex:
        """Lexical index of the cues, empty without any."""
        return EMPTY_INDEX if self.cues is None or self.cues.lexical is None else self.cues.lexical

    @property
    def cue_owners(self) -> NDArray[np.intp]:
        """Row of the memory of each cue in `cue_words`."""
        return self.cues.rows if self.cues is not None and self.cues.lexical is not None else _NO_ROWS

    def numbered(self) -> Iterator[tuple[int, Memory]]:
        """Yield each row number of the part that is not gone, with its memory."""
        rows = enumerate(self.memories)
        return rows if self.gone is None else ((row, each) for row, each in rows if not self.gone[row])
