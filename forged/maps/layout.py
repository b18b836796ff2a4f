"""How the rows of a map are laid out: many together, and beside them the few that were edited since.

In go memories that went and memories that came; out comes the next layout, which shares the large rows with
the one before, so that an edit costs what it changes. When the edits have become many, everything is laid out
anew: `edited` returns None then. Nothing is raised.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.maps.rows import RowMaker, Rows
from forged.memory import Memory

# Fewer rows are laid out anew in less than a millisecond.
_WORTH_KEEPING = 256
# With so many rows beside the large ones an edit takes a millisecond more, and all are laid out anew.
_MOST_BESIDE = 512
# One over the share of the large rows that may be gone.
_MOST_GONE = 4
_ID = operator.attrgetter("id")


class Layout(msgspec.Struct, frozen=True, eq=False):
    """The large rows, `base`, of which `gone` bool (n,) count no more, and `beside` the rows that came since.

    A base that nothing was edited of has neither.
    """

    base: Rows
    gone: NDArray[np.bool_] | None = None
    beside: Rows | None = None

    @property
    def newest(self) -> Rows:
        """The rows that were made last: those beside, else the base."""
        return self.base if self.beside is None else self.beside

    @property
    def hashes(self) -> tuple[tuple[bytes, ...], ...]:
        """Those of the rows of each part of the map, also of rows that count no more."""
        return tuple(rows.hashes for rows in (self.base, self.beside) if rows is not None)

    @property
    def cue_hashes(self) -> tuple[tuple[bytes, ...], ...]:
        """The same of the cues in each part."""
        laid = (rows.cues for rows in (self.base, self.beside) if rows is not None)
        return tuple(cues.hashes if cues is not None else () for cues in laid)

    def hashed(self) -> Iterator[tuple[Memory, bytes]]:
        """The memories that count, with the hashes of their texts and cues."""
        gone = self.gone.tolist() if self.gone is not None else (False,) * len(self.base.memories)
        for memory, key, is_gone in zip(self.base.memories, self.base.hashes, gone, strict=True):
            if not is_gone:
                yield memory, key
        if self.base.cues is not None:
            yield from (pair for pair in self.base.cues.hashed() if not self._is_gone(pair[0].id))
        if self.beside is not None:
            yield from zip(self.beside.memories, self.beside.hashes, strict=True)
            yield from self.beside.cues.hashed() if self.beside.cues is not None else ()

    def _is_gone(self, memory_id: str) -> bool:
        row = self.base.row_of(memory_id)
        return row is None or (self.gone is not None and bool(self.gone[row]))

    def edited(self, went: Sequence[Memory], came: Sequence[Memory], maker: RowMaker) -> Layout | None:
        """The layout after an edit; a memory that changed went and came."""
        beside = self.beside if self.beside is not None else maker.rows((), None)
        ids = {memory.id for memory in went}
        kept = [memory for memory in beside.memories if memory.id not in ids]
        if len(self.base.memories) < _WORTH_KEEPING or len(kept) + len(came) > _MOST_BESIDE:
            return None
        gone = self._gone_with(ids)
        if _MOST_GONE * np.count_nonzero(gone) > len(gone):
            return None
        return Layout(self.base, gone, maker.rows(tuple(sorted((*kept, *came), key=_ID)), beside))

    def _gone_with(self, ids: set[str]) -> NDArray[np.bool_]:
        gone = np.zeros(len(self.base.memories), np.bool_) if self.gone is None else self.gone.copy()
        for row in map(self.base.row_of, ids):
            if row is not None:
                gone[row] = True
        return gone
