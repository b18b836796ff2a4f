"""How one root's map is made: from the files and the map before to the next map.

A build has three steps. `draft` (in a thread) scans the files and brings the lexical leg up to date; `embed`
(on the loop) gets vectors for texts that have none; `finish` (in a thread) lays the rows out and freezes
the map. `finish` may come twice: once without the vectors that are still on their way, once with them.
Long work in a thread is done at a pace that leaves the loop free to answer.

What is on disk is never an error here: `problems` names it. `embed` returns what failed as a whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from forged.errors import ProviderError
from forged.files import Grounds, MemoryStore, Root, Snapshot, scan
from forged.map import Baseline, Chains, Part, VectorMap, link, thinned
from forged.maps.changes import differing
from forged.maps.embed_line import Place
from forged.maps.identity import Identity, ModelReplacedError
from forged.maps.known_vectors import Known, KnownVectors
from forged.maps.layout import Layout
from forged.maps.parcel import Parcel, Shelf, Stock
from forged.maps.parcels import name_of
from forged.maps.rows import RowMaker, Rows
from forged.memory import Memory, Problem
from forged.models import cleaned
from forged.trust import Admitted
from forged_client.protocol import WithheldFile

_PAUSE_S = 0.0005
_QUARANTINE_S = 3600.0

Admit = Callable[[Root, Snapshot], Admitted]
"""What of a root counts; called in a thread, for each build."""


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A map without vectors; `missing` are the texts, by hash, that have to be embedded.

    `large` is the layout's base with its vectors where rows are to stand beside it.
    """

    memories: tuple[Memory, ...]
    layout: Layout
    large: Part | None
    chains: Chains
    missing: dict[bytes, str]


class Builder:
    """State of one root between builds. Used by one build at a time.

    `snapshot` are the files as last scanned, `complete` says whether the last map shows all that the last
    scan found, but for what is quarantined. `quarantined` are texts that the endpoint refuses, by hash: why,
    and until when (`time.monotonic()`). `withheld` are memories on disk that do not count,
    `redacted` ids of those that are shown without a secret in their file. `stale` are ids of memories that
    stand on files which changed.
    """

    def __init__(
        self,
        store: MemoryStore,
        identity: Identity | None,
        *,
        lexical: bool,
        admit: Admit | None = None,
        parcel: Parcel | None = None,
        routed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`parcel` holds vectors of this root's texts that another daemon packed.

        A text that is `routed` is another model's to embed.
        """
        self.store = store
        self.snapshot: Snapshot | None = None
        self.complete = False
        self.quarantined: dict[bytes, tuple[str, float]] = {}
        self.withheld: tuple[WithheldFile, ...] = ()
        self.redacted: tuple[str, ...] = ()
        self.stale: tuple[str, ...] = ()
        self._unshown: tuple[Problem, ...] = ()
        self._insisted = frozenset[str]()  # ids of memories with a secret, which is not embedded
        self._passes = False
        self._identity = identity
        self._routed = routed
        self._lexical = lexical
        self._admit = admit
        self._vectors = KnownVectors(identity, store.root.top, parcel) if identity is not None else None
        embedded = self._embedded if identity is not None else None
        self._grounds = Grounds(store.root.top) if store.root.has_files else None
        self._maker = RowMaker(lexical=lexical, embedded=embedded, pause=self._pause)
        self._map: VectorMap | None = None
        self._layout: Layout | None = None  # of that map
        self._shown: tuple[VectorMap, Layout] | None = None  # the two above, of one moment
        self._large: Part | None = None  # its base, if that lacks no vector: edits may stand beside it
        self._renew = self._retry = False  # asked for, and done by the next draft

    @property
    def unsettled(self) -> bool:
        """Whether the last look met a file in the middle of something: look again soon."""
        return self._passes or (self.snapshot is not None and self.snapshot.unsettled)

    @property
    def starts_anew(self) -> bool:
        """Whether vectors that are on their way are of no use any more: all are to be embedded anew."""
        return self._vectors is not None and self._vectors.starts_anew

    @property
    def serves_older(self) -> bool:
        """Whether the vectors that are on their way will be seen only when the last of them is there."""
        return self._vectors is not None and self._vectors.serves_older

    @property
    def cut(self) -> tuple[str, ...]:
        """Ids of memories of which only the beginning fits into the model."""
        held = self._vectors.cut if self._vectors is not None else frozenset[bytes]()
        layout = self._layout  # a build in its thread may be swapping it just now
        if layout is None or not held:
            return ()
        return tuple(sorted(memory.id for memory, key in layout.hashed() if key in held))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories whose text was refused by the endpoint."""
        files = self._unshown + (self.snapshot.problems if self.snapshot is not None else ())
        held = self.quarantined  # replaced, never changed, as a build in its thread looks at it too
        layout = self._layout
        if layout is None or not held:
            return files
        texts = (
            Problem(memory.id, f"not embedded: {held[key][0]}", loses=True)
            for memory, key in layout.hashed()
            if key in held
        )
        return files + tuple(sorted(texts))

    def forget_vectors(self) -> None:
        """The next build embeds everything anew: `rebuild --full`. Until it has, the old vectors serve."""
        self._renew = True

    def stock(self) -> Stock | Parcel | None:
        """What is known now of vectors of the texts that the map shows, to be packed while builds go on."""
        if self._vectors is None:
            return None
        shelves: list[Shelf] = []
        if self._shown is not None:
            shown, layout = self._shown
            rows = zip(layout.hashes, shown.parts, strict=True)
            shelves = [Shelf(hashes, part.dense) for hashes, part in rows]
            cued = zip(layout.cue_hashes, shown.parts, strict=True)
            shelves += [Shelf(own, part.cues.dense) for own, part in cued if part.cues is not None]
        return self._vectors.stock(name_of(self.store.root), shelves)

    @property
    def moment(self) -> tuple[int, int, bool]:
        """Changes when `stock` does: with the map, with vectors that are in none yet, with a full rebuild."""
        waiting = self._vectors.waiting if self._vectors is not None else 0
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
        if self._grounds is not None:
            memories = self._grounds.shown(memories, afresh=not files, pause=self._pause)
            self.stale = self._grounds.stale
        # A touched file gives a new snapshot of the same memories.
        same = found is before or not found.changed
        if self.complete and same and self._shows(memories):
            return None
        self.complete = False
        return self._drafted(memories)

    def _apply_pending_requests(self) -> None:
        """What was asked for since the last draft; not sooner, as a build may have been under way."""
        if self._vectors is not None and (self._renew or self._vectors.are_outdated()):
            self.complete, self._large = False, None
            self._vectors.renew()
        now = time.monotonic()
        held = {} if self._retry else {k: v for k, v in self.quarantined.items() if v[1] > now}
        if len(held) < len(self.quarantined):
            self.quarantined, self.complete, self._large = held, False, None
        self._renew = self._retry = False

    def _admitted(self, found: Snapshot, admit: Admit) -> tuple[Memory, ...]:
        """The memories that count; the others are on disk as if they were not."""
        admitted = admit(self.store.root, found)
        self.withheld, self._passes = admitted.withheld, admitted.passes
        self.redacted, self._unshown = admitted.redacted, admitted.problems
        self._insisted = admitted.insisted
        return admitted.memories

    def _shows(self, memories: tuple[Memory, ...]) -> bool:
        return self._map is not None and self._map.memories == memories

    def _drafted(self, memories: tuple[Memory, ...]) -> Draft:
        went, came = differing(self._map.memories if self._map is not None else (), memories)
        before, large = self._layout, self._large
        layout = before.edited(went, came, self._maker) if before is not None and large is not None else None
        if layout is None:
            layout, large = (
                Layout(self._maker.rows(memories, before.base if before is not None else None)),
                None,
            )
        chains = self._chains(memories, (*went, *came))
        return Draft(memories, layout, large, chains, self._missing(layout.newest))

    def _chains(self, memories: Sequence[Memory], changed: Sequence[Memory]) -> Chains:
        """Walks all memories only where a chain may be another."""
        before = self._map.chains if self._map is not None else None
        return link(memories) if before is None or before.may_change_with(changed) else before

    def _missing(self, rows: Rows) -> dict[bytes, str]:
        """The texts that have to be embedded, the newest first, and then cues."""
        if self._vectors is None:
            return {}
        memories, hashes = rows.memories, rows.hashes
        wanted = [row for row in self._vectors.missing(hashes) if hashes[row] not in self.quarantined]
        wanted.sort(key=lambda row: memories[row].updated_at or memories[row].created_at, reverse=True)
        texts = {hashes[row]: self._embedded(memories[row], memories[row].content) for row in wanted}
        cues = rows.cues
        if cues is not None:
            missing = self._vectors.missing(cues.hashes)
            texts |= {
                cues.hashes[row]: cues.texts[row]
                for row in missing
                if cues.hashes[row] not in self.quarantined
            }
        return texts

    def _embedded(self, memory: Memory, text: str) -> str:
        """A text as it is embedded, to the letter, "" if it is not: a secret leaves for nobody."""
        if self._routed(text):
            return ""
        return cleaned(text) if memory.id in self._insisted else text

    async def embed(
        self, draft: Draft, progress: Callable[[int], None], place: Place | None = None
    ) -> ProviderError | None:
        """Get the missing vectors; what failed as a whole is returned: `finish` comes all the same.

        When another model turns out to answer, nothing is taken and the map stays incomplete.
        """
        assert self._vectors is not None, "without an embedder nothing is missing"
        assert self._identity is not None, "as above"
        run = self._vectors.begin(progress, place)
        try:
            await self._identity.begin()
            if not self._vectors.are_outdated() and self._identity.refusal is None:
                await run.run(await asyncio.to_thread(self._left, draft))
        except ModelReplacedError:
            pass
        except ProviderError as error:
            return error
        finally:
            self._vectors.take(run)
            until = time.monotonic() + _QUARANTINE_S
            self.quarantined = self.quarantined | {k: (why, until) for k, why in run.culprits.items()}
        return self._identity.refusal

    def finish(self, draft: Draft, generation: int, baseline: Baseline | None = None) -> VectorMap | None:
        """Freeze the next map from a draft and the vectors known by now. Runs in a thread.

        Without a lexical leg a memory that has no vector cannot be found, so its older text is kept; None
        when there is no older map either.
        """
        unknown = set[bytes]()
        if self._vectors is not None:
            unknown = self._unknown(draft, self._vectors.get)
            lost = self._unknown(draft, self._vectors.of_one_time(all_new=not unknown))
            lost.intersection_update(draft.layout.newest.hashes)
            if lost and not self._lexical:
                if self._map is None:
                    return None
                draft = self._with_older_texts(draft, lost)
        parts = self._parts(draft, baseline, all_new=not unknown)
        if draft.large is None:
            self._large = parts[0] if not unknown else None
        self._map = VectorMap(
            root=self.store.root.top,
            scope=self.store.root.scope,
            generation=generation,
            memories=draft.memories,
            parts=parts,
            chains=draft.chains,
        )
        self._layout, self.complete = draft.layout, not unknown
        self._shown = self._map, self._layout
        if self.complete and self._vectors is not None:
            self._vectors.settle()
        return self._map

    def _parts(self, draft: Draft, baseline: Baseline | None, *, all_new: bool) -> tuple[Part, ...]:
        """The rows with their vectors: all of them laid out, or a few beside those that are."""
        vectors, rows, gone = self._vectors, draft.layout.newest, draft.layout.gone
        if draft.large is None or gone is None:
            if vectors is None:
                return (rows.with_vectors(None),)
            dense = vectors.leg(rows.hashes, baseline, all_new=all_new)
            return (rows.with_vectors(dense, vectors.cued(_cue_hashes(rows), all_new=all_new)),)
        large, dense, cued = draft.large.without(gone), None, None
        if vectors is not None:
            cued = vectors.cued_beside(_cue_hashes(rows), all_new=all_new)
            dense = vectors.beside(rows.hashes, baseline, all_new=all_new)
            if large.dense is not None and self._map is not None and baseline is not None:
                thinned(self._map.parts[0].dense, large.dense, baseline)
        return large, rows.with_vectors(dense, cued)

    def _unknown(self, draft: Draft, known: Known) -> set[bytes]:
        return {key for key in draft.missing if known(key) is None} - set(self.quarantined)

    def _left(self, draft: Draft) -> dict[bytes, str]:
        """What is missing still, now that it is known which model answers."""
        assert self._vectors is not None, "as in `embed`"
        return {key: text for key, text in draft.missing.items() if self._vectors.get(key) is None}

    def _with_older_texts(self, draft: Draft, unknown: set[bytes]) -> Draft:
        before = self._map
        assert before is not None
        rows = draft.layout.newest
        lost = {memory.id for memory, key in zip(rows.memories, rows.hashes, strict=True) if key in unknown}
        kept = (each if each.id not in lost else before.find(each.id) for each in draft.memories)
        return self._drafted(tuple(memory for memory in kept if memory is not None))

    def _pause(self) -> None:
        """Be patient beside a map that serves; before the first one, someone is waiting for it."""
        if self._map is not None:
            time.sleep(_PAUSE_S)


def _cue_hashes(rows: Rows) -> tuple[bytes, ...]:
    return rows.cues.hashes if rows.cues is not None else ()
