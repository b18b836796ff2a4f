"""Rows of the cues of some memories, without their vectors: made as the rows of the memories are.

In go memories in the order of their rows and the cues that were there before; out come rows equal to those
made from scratch, or None where no memory has a cue. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.files import Pace
from forged.map import Cues, DenseLeg, LexicalLeg, are_cjk
from forged.maps.vector_cache import text_hash
from forged.memory import Memory
from forged.text.terms import terms


class CueRows(msgspec.Struct, frozen=True, eq=False):
    """The memories that have cues, where these begin among all `texts`, and what is known of each of those.

    `owners` and `begins` are as in a map's `Cues`; `texts` are as they are embedded, `hashes` of them, b""
    where nobody embeds.
    """

    memories: tuple[Memory, ...]
    owners: NDArray[np.intp]
    begins: NDArray[np.intp]
    texts: tuple[str, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalLeg | None

    def with_vectors(self, dense: DenseLeg | None) -> Cues:
        return Cues(self.owners, self.begins, are_cjk(self.texts), self.lexical, dense)

    def hashed(self) -> Iterator[tuple[Memory, bytes]]:
        """The memories, with the hash of each of their cues."""
        ends = (*self.begins[1:].tolist(), len(self.texts))
        for memory, first, last in zip(self.memories, self.begins.tolist(), ends, strict=True):
            for key in self.hashes[first:last]:
                yield memory, key


def cue_rows(
    memories: Sequence[Memory],
    before: CueRows | None,
    *,
    lexical: bool,
    embedded: Callable[[Memory, str], str] | None,
    pause: Callable[[], None],
) -> CueRows | None:
    """The rows of the cues of `memories`; `embedded` is the text of a cue as it is embedded."""
    owners = [row for row, memory in enumerate(memories) if memory.cues and memory.counting_cues]
    if not owners:
        return None
    having = tuple(memories[row] for row in owners)
    cues = [memory.counting_cues for memory in having]
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
        _hashes(texts, pause) if embedded is not None else (b"",) * len(texts),
        _words(having, begins, texts, before, pause) if lexical else None,
    )


def _hashes(texts: Sequence[str], pause: Callable[[], None]) -> tuple[bytes, ...]:
    pace, found = Pace(pause), []
    for text in texts:
        found.append(text_hash(text))
        pace.yield_if_due()
    return tuple(found)


def _words(
    memories: Sequence[Memory],
    begins: NDArray[np.intp],
    texts: Sequence[str],
    before: CueRows | None,
    pause: Callable[[], None],
) -> LexicalLeg:
    """Words of the cues; those of memories whose cues stay are not looked at again."""
    kept_old, kept_new = _kept(memories, begins, before)
    known = set(kept_new)
    added = [row for row in range(len(texts)) if row not in known]
    pace, docs = Pace(pause), []
    for row in added:
        docs.append(terms(texts[row]))
        pace.yield_if_due()
    leg = before.lexical if before is not None and before.lexical is not None else LexicalLeg.build(())
    return leg.splice(
        kept_old=np.array(kept_old, np.int32),
        kept_new=np.array(kept_new, np.int32),
        added_new=np.array(added, np.int32),
        added=docs,
        size=len(texts),
    )


def _kept(
    memories: Sequence[Memory], begins: NDArray[np.intp], before: CueRows | None
) -> tuple[list[int], list[int]]:
    """Cues that stay: their rows before and now. Both are in the order of ids, so both ascend."""
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
            count = len(memory.counting_cues)
            old += range(at, at + count)
            new += range(first, first + count)
    return old, new
