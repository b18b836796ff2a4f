"""Rows of a map without their vectors, built from memories and reusing unchanged older rows.

In: memories sorted by id and the rows before. Out: rows equal to those made from scratch, of the memories and
of their cues. New texts are read at a pace that leaves the event loop free. Nothing is raised.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.files import Pace
from forged.map import Cues, DenseIndex, LexicalIndex, MapPart, Traits, are_cjk, build_lexical, splice_lexical
from forged.maps.embedding import text_hash
from forged.memory import Memory, unchanged_ends
from forged.text.terms import Terms, terms

_ID = operator.attrgetter("id")

Numbers = NDArray[np.int32]
Embedded = Callable[[Memory, str], str]


class RowChanges(msgspec.Struct, frozen=True, eq=False):
    """Differences between the rows of one map and those of the next, as row numbers.

    `kept_old` and `kept_new` are rows of unchanged texts, in the old and in the new order, both ascending.
    `added` are rows of new texts. `redated` are rows of unchanged texts with other front matter.
    """

    kept_old: Numbers
    kept_new: Numbers
    added: Numbers
    redated: Numbers


def compare_rows(old: tuple[Memory, ...], new: tuple[Memory, ...], pace: Pace) -> RowChanges:
    """Compare memories `old` and `new`, both ordered by id; return rows kept, added or redated."""
    head, tail = unchanged_ends(old, new)
    kept_old, kept_new, added, redated = [], [], [], []
    row_of = {old[row].id: row for row in range(head, len(old) - tail)}
    for row in range(head, len(new) - tail):
        memory, before = new[row], row_of.get(new[row].id)
        if before is not None and (old[before] is memory or old[before].content == memory.content):
            kept_old.append(before)
            kept_new.append(row)
            if old[before] is not memory:
                redated.append(row)
        else:
            added.append(row)
        pace.yield_if_due()
    return RowChanges(
        _with_ends(head, kept_old, len(old), tail),
        _with_ends(head, kept_new, len(new), tail),
        _as_array(added),
        _as_array(redated),
    )


def changed_memories(old: tuple[Memory, ...], new: tuple[Memory, ...]) -> tuple[list[Memory], list[Memory]]:
    """Return the memories that only `old` and that only `new` has; changed ones are in both."""
    head, tail = unchanged_ends(old, new)
    removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    before, after = set(map(id, removed)), set(map(id, added))
    return [each for each in removed if id(each) not in after], [
        each for each in added if id(each) not in before
    ]


def _with_ends(head: int, middle: list[int], size: int, tail: int) -> Numbers:
    """Return row numbers: the first `head`, those in `middle`, and the last `tail` of `size`."""
    return np.concatenate((np.arange(head), _as_array(middle), np.arange(size - tail, size)), dtype=np.int32)


def _as_array(rows: list[int]) -> Numbers:
    return np.array(rows, np.int32)


class CueRows(msgspec.Struct, frozen=True, eq=False):
    """Cues of memories as rows with texts, hashes and lexical index, but without vectors.

    `owners` and `begins` are as in a map's `Cues`. `texts` are as they are embedded. `hashes` are of them,
    b"" without an embedder.
    """

    memories: tuple[Memory, ...]
    owners: NDArray[np.intp]
    begins: NDArray[np.intp]
    texts: tuple[str, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalIndex | None

    def with_vectors(self, dense: DenseIndex | None) -> Cues:
        return Cues(self.owners, self.begins, are_cjk(self.texts), self.lexical, dense)

    def memory_hashes(self) -> Iterator[tuple[Memory, bytes]]:
        """Yield each memory once for each of its cues, with the hash of the cue."""
        ends = (*self.begins[1:].tolist(), len(self.texts))
        for memory, first, last in zip(self.memories, self.begins.tolist(), ends, strict=True):
            for key in self.hashes[first:last]:
                yield memory, key


def cue_rows(
    memories: Sequence[Memory],
    before: CueRows | None,
    *,
    lexical: bool,
    embedded: Embedded | None,
    pace: Pace,
) -> CueRows | None:
    """Build the rows of the cues of `memories`, reusing unchanged ones of `before`; None without cues.

    `embedded` returns the text of a cue as it is embedded.
    """
    owners = [row for row, memory in enumerate(memories) if memory.cues and memory.search_cues]
    if not owners:
        return None
    having = tuple(memories[row] for row in owners)
    cues = [memory.search_cues for memory in having]
    texts = tuple(
        cue if embedded is None else embedded(memory, cue)
        for memory, own in zip(having, cues, strict=True)
        for cue in own
    )
    begins = np.array([0, *accumulate(map(len, cues))][:-1], np.intp)
    return CueRows(
        having,
        np.array(owners, np.intp),
        begins,
        texts,
        _hash_texts(texts, pace) if embedded is not None else (b"",) * len(texts),
        _index_words(having, begins, texts, before, pace) if lexical else None,
    )


def _hash_texts(texts: Sequence[str], pace: Pace) -> tuple[bytes, ...]:
    found = []
    for text in texts:
        found.append(text_hash(text))
        pace.yield_if_due()
    return tuple(found)


def _index_words(
    memories: Sequence[Memory],
    begins: NDArray[np.intp],
    texts: Sequence[str],
    before: CueRows | None,
    pace: Pace,
) -> LexicalIndex:
    """Build the lexical index of the cues; unchanged cues keep their postings."""
    kept_old, kept_new = _kept_cues(memories, begins, before)
    known = set(kept_new)
    added = [row for row in range(len(texts)) if row not in known]
    docs = list(_tokenise((texts[row] for row in added), pace))
    index = before.lexical if before is not None and before.lexical is not None else build_lexical(())
    return splice_lexical(
        index,
        kept_old=np.array(kept_old, np.int32),
        kept_new=np.array(kept_new, np.int32),
        added_new=np.array(added, np.int32),
        added=docs,
        size=len(texts),
    )


def _tokenise(texts: Iterable[str], pace: Pace) -> Iterator[Terms]:
    for text in texts:
        yield terms(text)
        pace.yield_if_due()


def _kept_cues(
    memories: Sequence[Memory], begins: NDArray[np.intp], before: CueRows | None
) -> tuple[list[int], list[int]]:
    """Return the rows of unchanged cues before and now, both ascending."""
    if before is None:
        return [], []
    there = {
        memory.id: (memory.cues, first)
        for memory, first in zip(before.memories, before.begins.tolist(), strict=True)
    }
    old: list[int] = []
    new: list[int] = []
    for memory, first in zip(memories, begins.tolist(), strict=True):
        cues, at = there.get(memory.id, ((), 0))
        if cues == memory.cues:
            count = len(memory.search_cues)
            old += range(at, at + count)
            new += range(first, first + count)
    return old, new


class MapRows(msgspec.Struct, frozen=True, eq=False):
    """Rows of memories, sorted by id, without vectors; `hashes` are of their texts, b"" for a blank one."""

    memories: tuple[Memory, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalIndex | None
    traits: Traits
    cues: CueRows | None = None

    def row_of(self, memory_id: str) -> int | None:
        """Return the row of a memory id, None if it is missing."""
        row = bisect_left(self.memories, memory_id, key=_ID)
        return row if row < len(self.memories) and self.memories[row].id == memory_id else None

    def with_vectors(
        self, dense: DenseIndex | None, cued: DenseIndex | None = None, *, second: DenseIndex | None = None
    ) -> MapPart:
        """Return the rows as a map part; `second` are vectors by another model than the map's own."""
        cues = self.cues.with_vectors(cued) if self.cues is not None else None
        return MapPart(self.memories, self.lexical, dense, self.traits, cues=cues, second=second)


class RowMaker:
    """Builds the rows of memories, with words or without, and with hashes if there is an embedder.

    `embedded` returns the text of a memory or of a cue as it is embedded; None without an embedder. `pause`
    is called after each slice of work.
    """

    def __init__(
        self,
        *,
        lexical: bool,
        embedded: Embedded | None,
        pause: Callable[[], None],
        embeds_cues: bool = True,
    ) -> None:
        self._lexical = lexical
        self._embedded = embedded
        self._embedded_cue = embedded if embeds_cues else None
        self._pause = pause

    def rows(self, memories: tuple[Memory, ...], before: MapRows | None) -> MapRows:
        """Build rows of memories and cues, with hashes, words and traits, reusing those of `before`."""
        pace = Pace(self._pause)
        changes = compare_rows(before.memories if before is not None else (), memories, pace)
        return MapRows(
            memories,
            self._hash_texts(memories, before, changes, pace),
            self._index_words(memories, before, changes, pace) if self._lexical else None,
            self._traits(memories, before, changes),
            cue_rows(
                memories,
                before.cues if before is not None else None,
                lexical=self._lexical,
                embedded=self._embedded_cue,
                pace=pace,
            ),
        )

    def _hash_texts(
        self, memories: Sequence[Memory], before: MapRows | None, changes: RowChanges, pace: Pace
    ) -> tuple[bytes, ...]:
        if self._embedded is None:
            return (b"",) * len(memories)
        hashes = np.full(len(memories), b"", object)
        if before is not None:
            hashes[changes.kept_new] = np.array(before.hashes, object)[changes.kept_old]
        for new in changes.added.tolist():
            text = self._embedded(memories[new], memories[new].content)
            hashes[new] = text_hash(text) if text.strip() else b""
            pace.yield_if_due()
        return tuple(hashes.tolist())

    def _index_words(
        self, memories: Sequence[Memory], before: MapRows | None, changes: RowChanges, pace: Pace
    ) -> LexicalIndex:
        docs = _tokenise((memories[row].content for row in changes.added.tolist()), pace)
        if before is None or before.lexical is None:
            return build_lexical(docs)
        return splice_lexical(
            before.lexical,
            kept_old=changes.kept_old,
            kept_new=changes.kept_new,
            added_new=changes.added,
            added=list(docs),
            size=len(memories),
        )

    def _traits(self, memories: Sequence[Memory], before: MapRows | None, changes: RowChanges) -> Traits:
        if before is None:
            return Traits.of(memories)
        fresh = np.concatenate((changes.added, changes.redated))
        return before.traits.after_edit(memories, changes.kept_old, changes.kept_new, fresh)
