"""Makes one root's next map from its files and the map before.

`draft` (in a thread) scans the files and brings the lexical leg up to date; `embed` (on the loop) gets the
missing vectors and returns what failed as a whole; `finish` (in a thread) freezes the map, maybe twice:
before and after the vectors come. Threads leave the loop free. Memories of a second model are a layer of
their own, of which failures keep no map back. Problems on disk are named and never raised.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec

from forged.errors import ProviderError
from forged.files import Grounds, MemoryStore, Root, Snapshot, scan
from forged.map import Chains, VectorMap, link
from forged.maps.embedding import EmbeddingQueue, EmbeddingRun
from forged.maps.identity import ModelReplacedError
from forged.maps.layout import Layer, Sheet
from forged.maps.parcel import Parcel, Stock, name_of
from forged.maps.rows import RowMaker, differing
from forged.memory import Memory, Problem
from forged.models import cleaned
from forged.trust import Admitted
from forged_client.protocol import WithheldFile

_PAUSE_S = 0.0005
_ID = operator.attrgetter("id")

Admit = Callable[[Root, Snapshot], Admitted]
"""Decides in a thread what of a root counts, for each build."""


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A map without vectors: a sheet for each layer."""

    memories: tuple[Memory, ...]
    sheets: dict[Layer, Sheet]
    chains: Chains

    @property
    def missing(self) -> dict[bytes, str]:
        """The texts, by hash, that have to be embedded, by whichever model."""
        return {key: text for sheet in self.sheets.values() for key, text in sheet.missing.items()}

    @property
    def lacking(self) -> dict[EmbeddingQueue, tuple[Layer, Sheet]]:
        """The models that have to embed something."""
        found = self.sheets.items()
        return {layer.queue: (layer, sheet) for layer, sheet in found if layer.queue and sheet.missing}


class Builder:
    """State of one root between builds. Used by one build at a time.

    `snapshot` are the files as last scanned; `complete`: the last map shows all of it that is not
    quarantined. `withheld` are memories on disk that do not count, `redacted` ids of those shown without a
    secret in their file, `stale` ids of those that stand on files which changed.
    """

    def __init__(
        self,
        store: MemoryStore,
        queue: EmbeddingQueue | None,
        *,
        lexical: bool,
        admit: Admit | None = None,
        parcel: Parcel | None = None,
        second: EmbeddingQueue | None = None,
    ) -> None:
        """`parcel` holds vectors of this root's texts that another daemon packed.

        The `second` model embeds the texts that it takes, if there is one.
        """
        self.store = store
        self.snapshot: Snapshot | None = None
        self.complete = False
        self.withheld: tuple[WithheldFile, ...] = ()
        self.redacted: tuple[str, ...] = ()
        self.stale: tuple[str, ...] = ()
        self._unshown: tuple[Problem, ...] = ()
        self._insisted = frozenset[str]()  # ids of memories with a secret, which is not embedded
        self._passes = False
        self._lexical = lexical
        self._admit = admit
        self._has_files = store.root.has_files
        self._grounds: Grounds | None = None  # while a memory has evidence
        self._second = second
        maker = partial(RowMaker, lexical=lexical, pause=self._pause)
        top, text = store.root.top, self._embedded
        own = maker(embedded=text if queue is not None else None)
        self._main = Layer(own, queue, text, top=top, parcel=parcel)
        self._layers: tuple[Layer, ...] = (self._main,)
        if second is not None:
            theirs = maker(embedded=self._embedded_by_second, embeds_cues=False)
            self._layers += (Layer(theirs, second, self._embedded_by_second, top=top, second=True),)
        self._map: VectorMap | None = None
        self._renew = self._retry = False  # asked for, and done by the next draft

    @property
    def unsettled(self) -> bool:
        """True if the last look met a file in the middle of something: look again soon."""
        return self._passes or (self.snapshot is not None and self.snapshot.unsettled)

    @property
    def starts_anew(self) -> bool:
        """True if vectors on their way are of no use any more: all are to be embedded anew."""
        return any(each.vectors is not None and each.vectors.starts_anew for each in self._layers)

    @property
    def serves_older(self) -> bool:
        """True if vectors on their way will be seen only when the last of them is there."""
        return self._main.vectors is not None and self._main.vectors.serves_older

    @property
    def cut(self) -> tuple[str, ...]:
        """Ids of memories of which only the beginning fits into the model."""
        found = list[str]()
        for layer in self._layers:
            held = layer.vectors.cut if layer.vectors is not None else frozenset[bytes]()
            found += [memory.id for memory, key in layer.hashed() if key in held] if held else []
        return tuple(sorted(found))

    @property
    def quarantined(self) -> Mapping[bytes, tuple[str, float]]:
        """Texts that the endpoint refuses, by hash: why, and until when (`time.monotonic()`)."""
        return {key: each for layer in self._layers for key, each in layer.set_aside.items()}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories whose text was refused by the endpoint."""
        files = self._unshown + (self.snapshot.problems if self.snapshot is not None else ())
        if not (held := self.quarantined):
            return files
        texts = (
            Problem(memory.id, f"not embedded: {held[key][0]}", loses=True)
            for layer in self._layers
            for memory, key in layer.hashed()
            if key in held
        )
        return files + tuple(sorted(texts))

    def forget_vectors(self) -> None:
        """The next build embeds everything anew: `rebuild --full`. Until it has, the old vectors serve."""
        self._renew = True

    def stock(self) -> Stock | Parcel | None:
        """Vectors of the texts that the map shows, to be packed while builds go on."""
        return self._main.stock(name_of(self.store.root))

    @property
    def moment(self) -> tuple[int, int, bool]:
        """Changes when `stock` does: with the map, with vectors that are in none yet, with a full rebuild."""
        waiting = self._main.vectors.waiting if self._main.vectors is not None else 0
        return self._map.generation if self._map is not None else 0, waiting, self.serves_older

    def retry_quarantined(self) -> None:
        """The next build tries the refused texts again: any rebuild that a person asks for."""
        self._retry = True

    def draft(self, files: frozenset[str] = frozenset()) -> Draft | None:
        """Scan and index; None when the map already shows what is on disk. Runs in a thread.

        With `files`, paths that are known to have changed, only these are looked at.
        """
        self._apply_pending_requests()
        before = self.snapshot
        found = scan(self.store.root, before, files, pause=self._pause)
        self.snapshot = found
        memories = found.memories if self._admit is None else self._admitted(found, self._admit)
        if self._has_files:
            memories = self._with_stale(memories, afresh=not files)
        # A touched file gives a new snapshot of the same memories.
        same = found is before or not found.changed
        if self.complete and same and self._map is not None and self._map.memories == memories:
            return None
        self.complete = False
        return self._drafted(memories)

    def _apply_pending_requests(self) -> None:
        """Apply `forget_vectors` and `retry_quarantined`: a build may have been under way when they came."""
        for layer in self._layers:
            if layer.is_outdated(renew=self._renew, retry=self._retry):
                self.complete = False
        self._renew = self._retry = False

    def _admitted(self, found: Snapshot, admit: Admit) -> tuple[Memory, ...]:
        """The memories that count; the others are on disk as if they were not."""
        admitted = admit(self.store.root, found)
        self.withheld, self._passes = admitted.withheld, admitted.passes
        self.redacted, self._unshown = admitted.redacted, admitted.problems
        self._insisted = admitted.insisted
        return admitted.memories

    def _with_stale(self, memories: tuple[Memory, ...], *, afresh: bool) -> tuple[Memory, ...]:
        """The memories, of which those whose evidence is not as it was say so."""
        if not any(each.evidence for each in memories):
            self._grounds, self.stale = None, ()
            return memories
        self._grounds = self._grounds or Grounds(self.store.root.top)
        memories = self._grounds.shown(memories, afresh=afresh, pause=self._pause)
        self.stale = self._grounds.stale
        return memories

    def _drafted(self, memories: tuple[Memory, ...]) -> Draft:
        went, came = differing(self._map.memories if self._map is not None else (), memories)
        sheets = {each: self._sheet(each, memories, went, came) for each in self._layers}
        return Draft(memories, sheets, self._chains(memories, (*went, *came)))

    def _sheet(
        self, layer: Layer, memories: tuple[Memory, ...], went: Sequence[Memory], came: Sequence[Memory]
    ) -> Sheet:
        """The next sheet of a layer; where there are two, of the memories that are its own."""
        if self._second is not None:
            is_second = layer is not self._main
            went, came = (
                [each for each in some if self._second.takes(each.content) is is_second]
                for some in (went, came)
            )
            gone = {each.id for each in went}
            kept = (each for each in layer.memories if each.id not in gone)
            memories = tuple(sorted((*kept, *came), key=_ID)) if went or came else layer.memories
        return layer.draft(memories, went, came)

    def _chains(self, memories: Sequence[Memory], changed: Sequence[Memory]) -> Chains:
        before = self._map.chains if self._map is not None else None
        return link(memories) if before is None or before.may_change_with(changed) else before

    def _embedded(self, memory: Memory, text: str) -> str:
        """A text as it is embedded, to the letter, "" if it is not: a secret leaves for nobody."""
        if self._second is not None and self._second.takes(text):
            return ""
        return self._embedded_by_second(memory, text)

    def _embedded_by_second(self, memory: Memory, text: str) -> str:
        return cleaned(text) if memory.id in self._insisted else text

    def begin(
        self,
        draft: Draft,
        *,
        leaving_out: Collection[EmbeddingQueue] = (),
        used_at: Callable[[], float] = lambda: 0.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> dict[EmbeddingQueue, EmbeddingRun]:
        """A run for each model that has to embed something; they have to leave again."""
        return {
            queue: layer.vectors.begin(len(sheet.missing), used_at, progress)
            for queue, (layer, sheet) in draft.lacking.items()
            if layer.vectors is not None and queue not in leaving_out
        }

    async def embed(self, draft: Draft, queue: EmbeddingQueue, run: EmbeddingRun) -> ProviderError | None:
        """Get the missing vectors of a model; a failure as a whole is returned: `finish` comes all the same.

        When another model turns out to answer, nothing is taken and the map stays incomplete.
        """
        layer, sheet = draft.lacking[queue]
        try:
            await queue.embed(run, partial(layer.left, sheet))
        except ModelReplacedError:
            pass
        except ProviderError as error:
            return error
        finally:
            if layer.vectors is not None:
                layer.vectors.take(run)
        return queue.identity.refusal

    def finish(self, draft: Draft, generation: int) -> VectorMap | None:
        """Freeze the next map from a draft and the vectors known by now. Runs in a thread.

        Without a lexical leg a memory that has no vector cannot be found, so its older text is kept; None
        when there is no older map either.
        """
        complete = {layer: not layer.unknown(sheet) for layer, sheet in draft.sheets.items()}
        if not self._lexical and (lost := self._main.lost(draft.sheets[self._main])):
            if self._map is None:
                return None
            draft = self._with_older_texts(draft, lost)
        for layer, sheet in draft.sheets.items():
            layer.finish(sheet, is_complete=complete[layer])
        shown = [self._main, *(layer for layer in self._layers[1:] if layer.memories)]
        self._map = VectorMap(
            root=self.store.root.top,
            scope=self.store.root.scope,
            generation=generation,
            memories=draft.memories,
            parts=tuple(part for layer in shown for part in layer.parts),
            chains=draft.chains,
        )
        self.complete = all(complete.values())
        return self._map

    def _with_older_texts(self, draft: Draft, unknown: set[bytes]) -> Draft:
        before = self._map
        assert before is not None
        rows = draft.sheets[self._main].layout.newest
        lost = {memory.id for memory, key in zip(rows.memories, rows.hashes, strict=True) if key in unknown}
        kept = (each if each.id not in lost else before.find(each.id) for each in draft.memories)
        return self._drafted(tuple(memory for memory in kept if memory is not None))

    def _pause(self) -> None:
        """Be patient beside a map that serves; before the first one, someone is waiting for it."""
        if self._map is not None:
            time.sleep(_PAUSE_S)
