"""Rows of a map without their vectors: made of memories, and of the rows before as far as these are the same.

In go memories sorted by id and the rows that came before them; out come rows equal to those made from
scratch. What stays is not looked at again, and what is new is looked at at a pace that leaves an event loop
free. Nothing is raised.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from forged.files import Pace
from forged.map import DenseLeg, LexicalLeg, Part, Traits
from forged.maps.changes import Changes, compared
from forged.maps.cue_rows import CueRows, cue_rows
from forged.maps.vector_cache import text_hash
from forged.memory import Memory
from forged.text.terms import Terms, terms

_ID = operator.attrgetter("id")


Embedded = Callable[[Memory, str], str]


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Memories, sorted by id, and what is known of each; `hashes` are of their texts, b"" for a blank one."""

    memories: tuple[Memory, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalLeg | None
    traits: Traits
    cues: CueRows | None = None

    def row_of(self, memory_id: str) -> int | None:
        row = bisect_left(self.memories, memory_id, key=_ID)
        return row if row < len(self.memories) and self.memories[row].id == memory_id else None

    def with_vectors(self, dense: DenseLeg | None, cued: DenseLeg | None = None) -> Part:
        cues = self.cues.with_vectors(cued) if self.cues is not None else None
        return Part(self.memories, self.lexical, dense, self.traits, cues=cues)


class RowMaker:
    """Makes rows with words or without, and with hashes where somebody embeds.

    `embedded` is a text of a memory, its own or a cue, as it is embedded; None where nobody does. `pause` is
    called after each slice of work.
    """

    def __init__(self, *, lexical: bool, embedded: Embedded | None, pause: Callable[[], None]) -> None:
        self._lexical = lexical
        self._embedded = embedded
        self._pause = pause

    def rows(self, memories: tuple[Memory, ...], before: Rows | None) -> Rows:
        """The rows of `memories`."""
        changes = compared(before.memories if before is not None else (), memories, Pace(self._pause))
        return Rows(
            memories,
            self._hashes(memories, before, changes),
            self._words(memories, before, changes) if self._lexical else None,
            self._traits(memories, before, changes),
            cue_rows(
                memories,
                before.cues if before is not None else None,
                lexical=self._lexical,
                embedded=self._embedded,
                pause=self._pause,
            ),
        )

    def _hashes(self, memories: Sequence[Memory], before: Rows | None, changes: Changes) -> tuple[bytes, ...]:
        if self._embedded is None:
            return (b"",) * len(memories)
        hashes = np.full(len(memories), b"", object)
        if before is not None:
            hashes[changes.kept_new] = np.array(before.hashes, object)[changes.kept_old]
        pace = Pace(self._pause)
        for new in changes.added.tolist():
            text = self._embedded(memories[new], memories[new].content)
            hashes[new] = text_hash(text) if text.strip() else b""
            pace.yield_if_due()
        return tuple(hashes.tolist())

    def _words(self, memories: Sequence[Memory], before: Rows | None, changes: Changes) -> LexicalLeg:
        docs = self._tokenised([memories[row].content for row in changes.added.tolist()])
        if before is None or before.lexical is None:
            return LexicalLeg.build(docs)
        return before.lexical.splice(
            kept_old=changes.kept_old,
            kept_new=changes.kept_new,
            added_new=changes.added,
            added=list(docs),
            size=len(memories),
        )

    def _tokenised(self, texts: Sequence[str]) -> Iterator[Terms]:
        pace = Pace(self._pause)
        for text in texts:
            yield terms(text)
            pace.yield_if_due()

    def _traits(self, memories: Sequence[Memory], before: Rows | None, changes: Changes) -> Traits:
        if before is None:
            return Traits.of(memories)
        fresh = np.concatenate((changes.added, changes.redated))
        return before.traits.edited(memories, changes.kept_old, changes.kept_new, fresh)
