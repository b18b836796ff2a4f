"""Builds the next map of one root from its files and the map before.

`draft` (in a thread) scans the files and updates the lexical index. `embed` (on the loop) gets the missing
vectors and returns the error if the endpoint failed. `finish` (in a thread) freezes the map, maybe twice:
before and after the vectors come. Threads leave the loop free. Memories of a second model are a layer of
their own, whose failures delay no map. Problems on disk are named and never raised.

A large store has a base of rows and a few recent rows, so that an edit copies nothing large: a `Layout`. A
`LayerBuilder` makes the map parts of one model.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.errors import ProviderError
from forged.files import EvidenceChecker, MemoryStore, Root, Snapshot, scan
from forged.map import Chains, DenseIndex, MapPart, VectorMap, build_chains, thin_calibration
from forged.maps.embedding import EmbeddingQueue, EmbeddingRun, ModelReplacedError
from forged.maps.rows import Embedded, MapRows, RowMaker, changed_memories
from forged.maps.vector_pack import PackPart, PackSource, VectorPack, pack_name
from forged.maps.vectors import KnownVectors
from forged.memory import Memory, Problem
from forged.models import cleaned
from forged.trust import Admitted
from forged_client.protocol import WithheldFile

_PAUSE_S = 0.0005
_ID = operator.attrgetter("id")
# Fewer rows are laid out anew in less than a millisecond.
_WORTH_KEEPING = 256
# With so many recent rows an edit takes a millisecond more, so all rows are laid out anew.
_MOST_RECENT = 512
# One over the share of the large rows that may be gone.
_MOST_GONE = 4

Admit = Callable[[Root, Snapshot], Admitted]
"""Decides in a thread what of a root counts, for each build."""


class Layout(msgspec.Struct, frozen=True, eq=False):
    """Rows of a layer: the large `base`, its mask `gone` of rows not in use, and the small `recent` rows.

    A base without edits has neither.
    """

    base: MapRows
    gone: NDArray[np.bool_] | None = None
    recent: MapRows | None = None

    @property
    def newest(self) -> MapRows:
        """Rows that were laid out last: the recent ones, else the base."""
        return self.base if self.recent is None else self.recent

    @property
    def hashes(self) -> tuple[tuple[bytes, ...], ...]:
        """Hashes of texts by map part, the base first, including rows that no longer count."""
        return tuple(rows.hashes for rows in (self.base, self.recent) if rows is not None)

    @property
    def cue_hashes(self) -> tuple[tuple[bytes, ...], ...]:
        """Hashes of cues by map part, the base first; empty for a part without cues."""
        laid = (rows.cues for rows in (self.base, self.recent) if rows is not None)
        return tuple(cues.hashes if cues is not None else () for cues in laid)

    def memory_hashes(self) -> Iterator[tuple[Memory, bytes]]:
        """Yield each memory in use with the hash of its text, and again with that of each cue."""
        gone = self.gone.tolist() if self.gone is not None else (False,) * len(self.base.memories)
        for memory, key, is_gone in zip(self.base.memories, self.base.hashes, gone, strict=True):
            if not is_gone:
                yield memory, key
        if self.base.cues is not None:
            yield from (pair for pair in self.base.cues.memory_hashes() if not self._is_gone(pair[0].id))
        if self.recent is not None:
            yield from zip(self.recent.memories, self.recent.hashes, strict=True)
            yield from self.recent.cues.memory_hashes() if self.recent.cues is not None else ()

    def _is_gone(self, memory_id: str) -> bool:
        row = self.base.row_of(memory_id)
        return row is None or (self.gone is not None and bool(self.gone[row]))

    def after_edit(
        self, removed: Sequence[Memory], added: Sequence[Memory], maker: RowMaker
    ) -> Layout | None:
        """Return the layout after an edit, None if all rows have to be laid out anew.

        A changed memory is in both `removed` and `added`.
        """
        if len(self.base.memories) < _WORTH_KEEPING:
            return None
        recent = self.recent if self.recent is not None else maker.rows((), None)
        ids = {memory.id for memory in removed}
        kept = [memory for memory in recent.memories if memory.id not in ids]
        if len(kept) + len(added) > _MOST_RECENT:
            return None
        gone = self._gone_after(ids)
        if _MOST_GONE * np.count_nonzero(gone) > len(gone):
            return None
        return Layout(self.base, gone, maker.rows(tuple(sorted((*kept, *added), key=_ID)), recent))

    def _gone_after(self, ids: set[str]) -> NDArray[np.bool_]:
        """Return the base's mask of gone rows after these ids are removed."""
        gone = np.zeros(len(self.base.memories), np.bool_) if self.gone is None else self.gone.copy()
        for row in map(self.base.row_of, ids):
            if row is not None:
                gone[row] = True
        return gone


class LayerDraft(msgspec.Struct, frozen=True, eq=False):
    """A layer's next rows, and the `missing` texts, by hash, that are to be embedded for them.

    `large` is the layout's base with its vectors, if recent rows are added to it.
    """

    memories: tuple[Memory, ...]
    layout: Layout
    large: MapPart | None
    missing: dict[bytes, str]


class LayerBuilder:
    """Builds a root's map parts from the memories that one model embeds, or that have no vectors.

    A layer of a `second` model adds its vectors to those of the map's own model; it has none of cues.
    """

    def __init__(
        self,
        maker: RowMaker,
        queue: EmbeddingQueue | None,
        embedded: Embedded,
        *,
        top: str,
        vector_pack: VectorPack | None = None,
        second: bool = False,
    ) -> None:
        """Create an empty layer.

        `embedded` returns the text of a memory as it is embedded. `vector_pack` holds vectors of these texts.
        """
        self.queue = queue
        self.vectors = KnownVectors(queue, top, vector_pack) if queue is not None else None
        self.parts: tuple[MapPart, ...] = ()
        self._maker = maker
        self._embedded = embedded
        self._second = second
        self._layer_draft: LayerDraft | None = None  # of the parts
        self._shown: tuple[tuple[MapPart, ...], Layout] | None = None  # both of one moment
        self._large: MapPart | None = None  # its base, if that lacks no vector: edits may add recent rows
        self._is_complete = False  # the parts have all vectors that can be had
        self._left_out = frozenset[bytes]()  # texts without a vector, as the model refuses them

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Memories of the layer's current map parts."""
        return self._layer_draft.memories if self._layer_draft is not None else ()

    def memory_hashes(self) -> Iterator[tuple[Memory, bytes]]:
        """Yield each memory of the layer's map parts with its text's hash, again with that of each cue."""
        shown = self._shown  # a build may be swapping it in its thread
        return shown[1].memory_hashes() if shown is not None else iter(())

    @property
    def set_aside(self) -> Mapping[bytes, tuple[str, float]]:
        """Texts of this layer that the model refuses, by hash: the reason, and the time of the next try."""
        if self.queue is None or not self._left_out:
            return {}
        held = self.queue.set_aside
        return {key: held[key] for key in self._left_out if key in held}

    def drop_outdated(self, *, renew: bool, retry: bool) -> bool:
        """Drop outdated vectors, or all by `renew`; return True if texts may need embedding."""
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

    def draft(
        self, memories: tuple[Memory, ...], removed: Sequence[Memory], added: Sequence[Memory]
    ) -> LayerDraft:
        """Lay out the rows of `memories` after an edit; return them with the texts to embed."""
        before, large = self._layer_draft, self._large
        if before is not None and self._is_complete and not removed and not added:
            return before
        layout = None
        if before is not None and large is not None:
            layout = before.layout.after_edit(removed, added, self._maker)
        if layout is None:
            base = before.layout.base if before is not None else None
            layout, large = Layout(self._maker.rows(memories, base)), None
        return LayerDraft(memories, layout, large, self._missing(layout.newest))

    def _missing(self, rows: MapRows) -> dict[bytes, str]:
        """Return the texts to embed by hash, the newest first, then the cues."""
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

    def still_missing(self, layer_draft: LayerDraft) -> set[bytes]:
        """Return hashes of missing texts that still have no vector and that the model does not refuse."""
        if self.vectors is None or self.queue is None:
            return set()
        found = {key for key in layer_draft.missing if self.vectors.get(key) is None}
        return found - self.queue.set_aside.keys()

    def missing_in_map(self, layer_draft: LayerDraft) -> set[bytes]:
        """Return hashes of memory texts, not refused, that would lack a vector in the next map."""
        if self.vectors is None or self.queue is None:
            return set()
        known = self.vectors.lookup(all_new=not self.still_missing(layer_draft))
        lost = {key for key in layer_draft.missing if known(key) is None} - self.queue.set_aside.keys()
        return lost.intersection(layer_draft.layout.newest.hashes)

    def texts_left(self, layer_draft: LayerDraft) -> dict[bytes, str]:
        """Return the texts still to embed once the model is known; none if another model answers."""
        if self.vectors is None or self.vectors.are_outdated():
            return {}
        return {key: text for key, text in layer_draft.missing.items() if self.vectors.get(key) is None}

    def finish(self, layer_draft: LayerDraft, *, is_complete: bool) -> None:
        """Make map parts from a draft's rows and known vectors; `is_complete`: no vector is to come."""
        if layer_draft is self._layer_draft:
            return  # the edit is in another layer
        parts = self._build_parts(layer_draft, all_new=is_complete)
        if layer_draft.large is None:
            self._large = parts[0] if is_complete else None
        held = self.queue.set_aside if self.queue is not None else {}
        left_out = (key for _, key in layer_draft.layout.memory_hashes() if key in held) if held else ()
        self._left_out = frozenset(left_out)
        self.parts, self._is_complete = parts, is_complete
        self._layer_draft = LayerDraft(layer_draft.memories, layer_draft.layout, None, {})
        self._shown = parts, layer_draft.layout
        if is_complete and self.vectors is not None:
            self.vectors.settle()

    def _build_parts(self, layer_draft: LayerDraft, *, all_new: bool) -> tuple[MapPart, ...]:
        """Build the parts of a draft: all rows, or the recent ones next to the large part."""
        rows, gone = layer_draft.layout.newest, layer_draft.layout.gone
        large = (
            layer_draft.large.without(gone) if layer_draft.large is not None and gone is not None else None
        )
        if self.vectors is None or self.queue is None:
            part = rows.with_vectors(None)
            return (part,) if large is None else (large, part)
        baseline, cues = self.queue.learner.baseline, rows.cues.hashes if rows.cues is not None else ()
        index = partial(self.vectors.build_index, all_new=all_new, recent=large is not None)
        cued = index(cues, baseline, cues=True)
        dense = index(rows.hashes, baseline)
        part = rows.with_vectors(None, second=dense) if self._second else rows.with_vectors(dense, cued)
        if large is None:
            return (part,)
        if baseline is not None:
            for before, kept in zip(self._own_indexes(self.parts[0]), self._own_indexes(large), strict=True):
                if kept is not None:
                    thin_calibration(before, kept, baseline)
        return large, part

    def _own_indexes(self, part: MapPart) -> tuple[DenseIndex | None, ...]:
        """Return the dense indexes of texts and cues that this layer's model made for a part."""
        return (part.second,) if self._second else (part.dense, part.cues.dense if part.cues else None)

    def pack_source(self, name: str) -> PackSource | VectorPack | None:
        """Return the map parts' vectors, to be packed for another daemon; None without a model."""
        if self.vectors is None:
            return None
        pack_parts: list[PackPart] = []
        if self._shown is not None:
            parts, layout = self._shown
            rows = zip(layout.hashes, parts, strict=True)
            pack_parts = [PackPart(hashes, part.dense) for hashes, part in rows]
            cued = zip(layout.cue_hashes, parts, strict=True)
            pack_parts += [PackPart(own, part.cues.dense) for own, part in cued if part.cues is not None]
        return self.vectors.pack_source(name, pack_parts)


class MapDraft(msgspec.Struct, frozen=True, eq=False):
    """A root's next map before it is frozen: memories, chains, and the draft of each layer."""

    memories: tuple[Memory, ...]
    layer_drafts: dict[LayerBuilder, LayerDraft]
    chains: Chains

    @property
    def missing(self) -> dict[bytes, str]:
        """Texts, by hash, that have to be embedded by any model."""
        return {
            key: text
            for layer_draft in self.layer_drafts.values()
            for key, text in layer_draft.missing.items()
        }

    @property
    def lacking(self) -> dict[EmbeddingQueue, tuple[LayerBuilder, LayerDraft]]:
        """Layer and draft, by the queue of its model, of each model with texts to embed."""
        found = self.layer_drafts.items()
        return {
            layer.queue: (layer, layer_draft)
            for layer, layer_draft in found
            if layer.queue and layer_draft.missing
        }


class Builder:
    """Builds the maps of one root and keeps their state in between. Used by one build at a time.

    `snapshot` are the files as last scanned. `complete` is True if the last map shows all of it except
    quarantined texts. `withheld` are memories on disk that do not count. `redacted` are ids of memories shown
    without a secret of their file. `stale` are ids of memories with changed evidence files.
    """

    def __init__(
        self,
        store: MemoryStore,
        queue: EmbeddingQueue | None,
        *,
        lexical: bool,
        admit: Admit | None = None,
        vector_pack: VectorPack | None = None,
        second: EmbeddingQueue | None = None,
    ) -> None:
        """Create the builder of one root.

        `vector_pack` holds vectors of this root's texts from another daemon. The `second` model, if any,
        embeds the texts that it takes.
        """
        self.store = store
        self.snapshot: Snapshot | None = None
        self.complete = False
        self.withheld: tuple[WithheldFile, ...] = ()
        self.redacted: tuple[str, ...] = ()
        self.stale: tuple[str, ...] = ()
        self._unshown: tuple[Problem, ...] = ()
        self._insisted = frozenset[str]()  # ids of memories with a secret, which is not embedded
        self._may_change = False
        self._lexical = lexical
        self._admit = admit
        self._has_files = store.root.has_files
        self._grounds: EvidenceChecker | None = None  # while a memory has evidence
        self._second = second
        maker = partial(RowMaker, lexical=lexical, pause=self._pause)
        top, text = store.root.top, self._text_for_main_model
        own = maker(embedded=text if queue is not None else None)
        self._main = LayerBuilder(own, queue, text, top=top, vector_pack=vector_pack)
        self._layers: tuple[LayerBuilder, ...] = (self._main,)
        if second is not None:
            theirs = maker(embedded=self._without_allowed_secret, embeds_cues=False)
            self._layers += (
                LayerBuilder(theirs, second, self._without_allowed_secret, top=top, second=True),
            )
        self._map: VectorMap | None = None
        self._renew = self._retry = False  # requests for the next draft

    @property
    def unsettled(self) -> bool:
        """True if the last scan met a file that is being changed: scan again soon."""
        return self._may_change or (self.snapshot is not None and self.snapshot.unsettled)

    @property
    def starts_anew(self) -> bool:
        """True if vectors under way are useless, because all texts are to be embedded anew."""
        return any(each.vectors is not None and each.vectors.starts_anew for each in self._layers)

    @property
    def serves_older(self) -> bool:
        """True if vectors under way are shown only after the last of them has come."""
        return self._main.vectors is not None and self._main.vectors.serves_older

    @property
    def cut(self) -> tuple[str, ...]:
        """Ids of memories that were embedded by their beginning only: they exceed the model's input."""
        found = list[str]()
        for layer in self._layers:
            held = layer.vectors.cut if layer.vectors is not None else frozenset[bytes]()
            found += [memory.id for memory, key in layer.memory_hashes() if key in held] if held else []
        return tuple(sorted(found))

    @property
    def quarantined(self) -> Mapping[bytes, tuple[str, float]]:
        """Texts that the endpoint refuses, by hash: the reason, and the time of the next try (monotonic)."""
        return {key: each for layer in self._layers for key, each in layer.set_aside.items()}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories with a text that the endpoint refused."""
        files = self._unshown + (self.snapshot.problems if self.snapshot is not None else ())
        if not (held := self.quarantined):
            return files
        texts = (
            Problem(memory.id, f"not embedded: {held[key][0]}", loses=True)
            for layer in self._layers
            for memory, key in layer.memory_hashes()
            if key in held
        )
        return files + tuple(sorted(texts))

    def forget_vectors(self) -> None:
        """Let the next build embed all anew (`rebuild --full`); old vectors serve meanwhile."""
        self._renew = True

    def pack_source(self) -> PackSource | VectorPack | None:
        """Return the main model's vectors, to be packed for another daemon; None without any."""
        return self._main.pack_source(pack_name(self.store.root))

    @property
    def revision(self) -> tuple[int, int, bool]:
        """Value that changes with `pack_source`: with the map, with new vectors, with a full rebuild."""
        waiting = self._main.vectors.waiting if self._main.vectors is not None else 0
        return self._map.generation if self._map is not None else 0, waiting, self.serves_older

    def retry_quarantined(self) -> None:
        """Let the next build send texts again that the endpoint refused, without waiting for their time."""
        self._retry = True

    def draft(self, files: frozenset[str] = frozenset()) -> MapDraft | None:
        """Scan the root and draft its next map; return None if the map already shows the files on disk.

        Runs in a thread. With `files`, paths of changed files, only these are scanned.
        """
        self._apply_pending_requests()
        before = self.snapshot
        found = scan(self.store.root, before, files, pause=self._pause)
        self.snapshot = found
        memories = found.memories if self._admit is None else self._admit_memories(found, self._admit)
        if self._has_files:
            memories = self._mark_stale(memories, afresh=not files)
        # A touched file gives a new snapshot of the same memories.
        same = found is before or not found.changed
        if self.complete and same and self._map is not None and self._map.memories == memories:
            return None
        self.complete = False
        return self._draft_map(memories)

    def _apply_pending_requests(self) -> None:
        """Apply `forget_vectors` and `retry_quarantined`, which may come during a build."""
        for layer in self._layers:
            if layer.drop_outdated(renew=self._renew, retry=self._retry):
                self.complete = False
        self._renew = self._retry = False

    def _admit_memories(self, found: Snapshot, admit: Admit) -> tuple[Memory, ...]:
        """Return the memories that trust lets count; store which are withheld, redacted or not shown."""
        admitted = admit(self.store.root, found)
        self.withheld, self._may_change = admitted.withheld, admitted.may_change
        self.redacted, self._unshown = admitted.redacted, admitted.problems
        self._insisted = admitted.insisted
        return admitted.memories

    def _mark_stale(self, memories: tuple[Memory, ...], *, afresh: bool) -> tuple[Memory, ...]:
        """Return the memories, marked as stale if their evidence files changed; store the stale ids."""
        if not any(each.evidence for each in memories):
            self._grounds, self.stale = None, ()
            return memories
        self._grounds = self._grounds or EvidenceChecker(self.store.root.top)
        memories = self._grounds.with_stale(memories, afresh=afresh, pause=self._pause)
        self.stale = self._grounds.stale
        return memories

    def _draft_map(self, memories: tuple[Memory, ...]) -> MapDraft:
        """Draft all layers and the chains of the next map, which shows these memories."""
        removed, added = changed_memories(self._map.memories if self._map is not None else (), memories)
        layer_drafts = {each: self._layer_draft(each, memories, removed, added) for each in self._layers}
        return MapDraft(memories, layer_drafts, self._chains(memories, (*removed, *added)))

    def _layer_draft(
        self,
        layer: LayerBuilder,
        memories: tuple[Memory, ...],
        removed: Sequence[Memory],
        added: Sequence[Memory],
    ) -> LayerDraft:
        """Return the next draft of a layer, from the memories of its model."""
        if self._second is not None:
            is_second = layer is not self._main
            removed, added = (
                [each for each in some if self._second.takes(each.content) is is_second]
                for some in (removed, added)
            )
            gone = {each.id for each in removed}
            kept = (each for each in layer.memories if each.id not in gone)
            memories = tuple(sorted((*kept, *added), key=_ID)) if removed or added else layer.memories
        return layer.draft(memories, removed, added)

    def _chains(self, memories: Sequence[Memory], changed: Sequence[Memory]) -> Chains:
        """Return the chains of the memories: those of the last map unless a change may affect them."""
        before = self._map.chains if self._map is not None else None
        return build_chains(memories) if before is None or before.may_change_with(changed) else before

    def _text_for_main_model(self, memory: Memory, text: str) -> str:
        """Return a text as the first model embeds it, "" if the second model does."""
        if self._second is not None and self._second.takes(text):
            return ""
        return self._without_allowed_secret(memory, text)

    def _without_allowed_secret(self, memory: Memory, text: str) -> str:
        """Return a text as any model embeds it: without the secret that a person allowed in its file."""
        return cleaned(text) if memory.id in self._insisted else text

    def begin(
        self,
        draft: MapDraft,
        *,
        leaving_out: Collection[EmbeddingQueue] = (),
        used_at: Callable[[], float] = lambda: 0.0,
        progress: Callable[[int], None] = lambda _: None,
    ) -> dict[EmbeddingQueue, EmbeddingRun]:
        """Begin and return a run for each model with texts to embed; the caller has to end each."""
        return {
            queue: layer.vectors.begin(len(layer_draft.missing), used_at, progress)
            for queue, (layer, layer_draft) in draft.lacking.items()
            if layer.vectors is not None and queue not in leaving_out
        }

    async def embed(self, draft: MapDraft, queue: EmbeddingQueue, run: EmbeddingRun) -> ProviderError | None:
        """Embed a draft's missing texts by one model; return the error if it failed or has to wait.

        When another model turns out to answer, nothing is taken and the map stays incomplete.
        """
        layer, layer_draft = draft.lacking[queue]
        try:
            await queue.embed(run, partial(layer.texts_left, layer_draft))
        except ModelReplacedError:
            pass
        except ProviderError as error:
            return error
        finally:
            if layer.vectors is not None:
                layer.vectors.add_cut(run)
        return queue.identity.refusal

    def finish(self, draft: MapDraft, generation: int) -> VectorMap | None:
        """Freeze a draft into the next map; None if it is the first and lacks needed vectors.

        Runs in a thread. Without a lexical index a memory without a vector cannot be found, so its older
        text is kept. Returns None when there is no older map either.
        """
        complete = {
            layer: not layer.still_missing(layer_draft) for layer, layer_draft in draft.layer_drafts.items()
        }
        if not self._lexical and (lost := self._main.missing_in_map(draft.layer_drafts[self._main])):
            if self._map is None:
                return None
            draft = self._with_older_texts(draft, lost)
        for layer, layer_draft in draft.layer_drafts.items():
            layer.finish(layer_draft, is_complete=complete[layer])
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

    def _with_older_texts(self, draft: MapDraft, unknown: set[bytes]) -> MapDraft:
        """Draft the map again with the older versions of memories whose text has no vector."""
        before = self._map
        assert before is not None
        rows = draft.layer_drafts[self._main].layout.newest
        lost = {memory.id for memory, key in zip(rows.memories, rows.hashes, strict=True) if key in unknown}
        kept = (each if each.id not in lost else before.find(each.id) for each in draft.memories)
        return self._draft_map(tuple(memory for memory in kept if memory is not None))

    def _pause(self) -> None:
        """Sleep half a millisecond if a map serves requests; the first build takes no pauses."""
        if self._map is not None:
            time.sleep(_PAUSE_S)
