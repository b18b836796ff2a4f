"""The layout of a map's rows, with their vectors, from one map to the next.

A large store has a base of rows and beside it a few that came since, so that an edit copies nothing large. A
`Layer` holds the memories of a root that one model embeds. To be used by one build at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map import DenseLeg, Part, thinned
from forged.maps.embedding import EmbeddingQueue
from forged.maps.parcel import Parcel, Shelf, Stock
from forged.maps.rows import Embedded, RowMaker, Rows
from forged.maps.vectors import KnownVectors
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
        """The hashes of each part of the map, also of rows that count no more."""
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
        if len(self.base.memories) < _WORTH_KEEPING:
            return None
        beside = self.beside if self.beside is not None else maker.rows((), None)
        ids = {memory.id for memory in went}
        kept = [memory for memory in beside.memories if memory.id not in ids]
        if len(kept) + len(came) > _MOST_BESIDE:
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


class Sheet(msgspec.Struct, frozen=True, eq=False):
    """The rows of a layer's next part of the map; `missing` are the texts, by hash, that lack a vector.

    `large` is the layout's base with its vectors where rows are to stand beside it.
    """

    memories: tuple[Memory, ...]
    layout: Layout
    large: Part | None
    missing: dict[bytes, str]


class Layer:
    """The memories of a root whose texts one model embeds, or that have no vectors at all.

    A layer of a `second` model has vectors beside those of the map's own, and none of cues.
    """

    def __init__(
        self,
        maker: RowMaker,
        queue: EmbeddingQueue | None,
        embedded: Embedded,
        *,
        top: str,
        parcel: Parcel | None = None,
        second: bool = False,
    ) -> None:
        """`embedded` is a text of a memory as it is embedded; `parcel` holds vectors of these texts."""
        self.queue = queue
        self.vectors = KnownVectors(queue, top, parcel) if queue is not None else None
        self.parts: tuple[Part, ...] = ()
        self._maker = maker
        self._embedded = embedded
        self._second = second
        self._sheet: Sheet | None = None  # of the parts
        self._shown: tuple[tuple[Part, ...], Layout] | None = None  # both of one moment
        self._large: Part | None = None  # its base, if that lacks no vector: edits may stand beside it
        self._is_complete = False  # the parts lack no vector that is to be had
        self._left_out = frozenset[bytes]()  # texts that the parts lack as the model refuses them

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories of the parts."""
        return self._sheet.memories if self._sheet is not None else ()

    def hashed(self) -> Iterator[tuple[Memory, bytes]]:
        """The memories of the parts, with the hashes of their texts and cues."""
        shown = self._shown  # a build in its thread may be swapping it just now
        return shown[1].hashed() if shown is not None else iter(())

    @property
    def set_aside(self) -> Mapping[bytes, tuple[str, float]]:
        """Texts of this layer that the model refuses: why, and until when."""
        if self.queue is None or not self._left_out:
            return {}
        held = self.queue.set_aside
        return {key: held[key] for key in self._left_out if key in held}

    def is_outdated(self, *, renew: bool, retry: bool) -> bool:
        """Forget vectors that are to be made again; true if there are any."""
        if self.vectors is None or self.queue is None:
            return False
        if retry:
            self.queue.retry(self._left_out)
        is_renewed = renew or self.vectors.are_outdated()
        if is_renewed:
            self.vectors.renew()
        if is_renewed or not self._left_out <= self.queue.set_aside.keys():
            self._large, self._left_out, self._is_complete = None, frozenset(), False
            return True
        return False

    def draft(self, memories: tuple[Memory, ...], went: Sequence[Memory], came: Sequence[Memory]) -> Sheet:
        """The rows of `memories`, of which some came and others went since the last map."""
        before, large = self._sheet, self._large
        if before is not None and self._is_complete and not went and not came:
            return before
        layout = None
        if before is not None and large is not None:
            layout = before.layout.edited(went, came, self._maker)
        if layout is None:
            base = before.layout.base if before is not None else None
            layout, large = Layout(self._maker.rows(memories, base)), None
        return Sheet(memories, layout, large, self._missing(layout.newest))

    def _missing(self, rows: Rows) -> dict[bytes, str]:
        """The texts that have to be embedded, the newest first, and then cues."""
        if self.vectors is None or self.queue is None:
            return {}
        memories, hashes, held = rows.memories, rows.hashes, self.queue.set_aside
        wanted = [row for row in self.vectors.missing(hashes) if hashes[row] not in held]
        wanted.sort(key=lambda row: memories[row].updated_at or memories[row].created_at, reverse=True)
        texts = {hashes[row]: self._embedded(memories[row], memories[row].content) for row in wanted}
        if (cues := rows.cues) is not None:
            missing = (row for row in self.vectors.missing(cues.hashes) if cues.hashes[row] not in held)
            texts |= {cues.hashes[row]: cues.texts[row] for row in missing}
        return texts

    def unknown(self, sheet: Sheet) -> set[bytes]:
        """The missing texts that have no vector by now, but for those that the model refuses."""
        if self.vectors is None or self.queue is None:
            return set()
        found = {key for key in sheet.missing if self.vectors.get(key) is None}
        return found - self.queue.set_aside.keys()

    def lost(self, sheet: Sheet) -> set[bytes]:
        """Texts of memories that the next map would have no vector of."""
        if self.vectors is None or self.queue is None:
            return set()
        known = self.vectors.of_one_time(all_new=not self.unknown(sheet))
        lost = {key for key in sheet.missing if known(key) is None} - self.queue.set_aside.keys()
        return lost.intersection(sheet.layout.newest.hashes)

    def left(self, sheet: Sheet) -> dict[bytes, str]:
        """The texts still missing once the model is known; none if it is another one."""
        if self.vectors is None or self.vectors.are_outdated():
            return {}
        return {key: text for key, text in sheet.missing.items() if self.vectors.get(key) is None}

    def finish(self, sheet: Sheet, *, is_complete: bool) -> None:
        """Lay the rows out with the vectors that are known: all, or all but some that are on their way."""
        if sheet is self._sheet:
            return  # the edit was another layer's
        parts = self._laid_out(sheet, all_new=is_complete)
        if sheet.large is None:
            self._large = parts[0] if is_complete else None
        held = self.queue.set_aside if self.queue is not None else {}
        left_out = (key for _, key in sheet.layout.hashed() if key in held) if held else ()
        self._left_out = frozenset(left_out)
        self.parts, self._is_complete = parts, is_complete
        self._sheet = Sheet(sheet.memories, sheet.layout, None, {})
        self._shown = parts, sheet.layout
        if is_complete and self.vectors is not None:
            self.vectors.settle()

    def _laid_out(self, sheet: Sheet, *, all_new: bool) -> tuple[Part, ...]:
        """All rows, or a few next to those that are there."""
        rows, gone = sheet.layout.newest, sheet.layout.gone
        large = sheet.large.without(gone) if sheet.large is not None and gone is not None else None
        if self.vectors is None or self.queue is None:
            part = rows.with_vectors(None)
            return (part,) if large is None else (large, part)
        baseline, cues = self.queue.learner.baseline, rows.cues.hashes if rows.cues is not None else ()
        leg = partial(self.vectors.leg, all_new=all_new, beside=large is not None)
        cued = leg(cues, None, cues=True)
        dense = leg(rows.hashes, baseline)
        part = rows.with_vectors(None, second=dense) if self._second else rows.with_vectors(dense, cued)
        if large is None:
            return (part,)
        if (kept := self._leg(large)) is not None and baseline is not None:
            thinned(self._leg(self.parts[0]), kept, baseline)
        return large, part

    def _leg(self, part: Part) -> DenseLeg | None:
        return part.second if self._second else part.dense

    def stock(self, name: str) -> Stock | Parcel | None:
        """Vectors of the parts, to be packed under a name while builds go on."""
        if self.vectors is None:
            return None
        shelves: list[Shelf] = []
        if self._shown is not None:
            parts, layout = self._shown
            rows = zip(layout.hashes, parts, strict=True)
            shelves = [Shelf(hashes, part.dense) for hashes, part in rows]
            cued = zip(layout.cue_hashes, parts, strict=True)
            shelves += [Shelf(own, part.cues.dense) for own, part in cued if part.cues is not None]
        return self.vectors.stock(name, shelves)
