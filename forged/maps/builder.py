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
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.files import MemoryStore, Pace, Root, Snapshot, scan
from forged.map import NO_CHAINS, Baseline, Chains, LexicalLeg, Part, Traits, VectorMap, link
from forged.maps.changes import Changes, compared
from forged.maps.embed_line import Place
from forged.maps.identity import Identity, ModelReplacedError
from forged.maps.known_vectors import Known, KnownVectors
from forged.maps.parcel import Parcel, Shelf, Stock
from forged.maps.parcels import name_of
from forged.maps.vector_cache import text_hash
from forged.memory import Memory, Problem
from forged.models import cleaned
from forged.text.terms import Terms, terms
from forged.trust import Admitted, Withheld

_PAUSE_S = 0.0005
_QUARANTINE_S = 3600.0

Admit = Callable[[Root, Snapshot], Admitted]
"""What of a root counts; called in a thread, for each build."""


class Draft(msgspec.Struct, frozen=True, eq=False):
    """A map without its dense leg. `hashes` are those of the texts, b"" for a blank one.

    `missing` are the texts, by hash, that have to be embedded.
    """

    memories: tuple[Memory, ...]
    hashes: tuple[bytes, ...]
    lexical: LexicalLeg | None
    chains: Chains
    traits: Traits
    missing: dict[bytes, str]


class Builder:
    """State of one root between builds. Used by one build at a time.

    `snapshot` are the files as last scanned, `complete` says whether the last map shows all that the last
    scan found, but for what is quarantined. `quarantined` are texts that the endpoint refuses, by hash: why,
    and until when (`time.monotonic()`). `withheld` are memories on disk that do not count,
    `redacted` ids of those that are shown without a secret in their file.
    """

    def __init__(
        self,
        store: MemoryStore,
        identity: Identity | None,
        *,
        lexical: bool,
        admit: Admit | None = None,
        parcel: Parcel | None = None,
    ) -> None:
        """`parcel` holds vectors of this root's texts that another daemon packed."""
        self.store = store
        self.snapshot: Snapshot | None = None
        self.complete = False
        self.quarantined: dict[bytes, tuple[str, float]] = {}
        self.withheld: tuple[Withheld, ...] = ()
        self.redacted: tuple[str, ...] = ()
        self._unshown: tuple[Problem, ...] = ()
        self._insisted = frozenset[str]()  # ids of memories with a secret, which is not embedded
        self._passes = False
        self._identity = identity
        self._lexical = lexical
        self._admit = admit
        self._vectors = KnownVectors(identity, store.root.top, parcel) if identity is not None else None
        self._map: VectorMap | None = None
        self._hashes: tuple[bytes, ...] = ()
        self._shown: tuple[VectorMap | None, tuple[bytes, ...]] = None, ()  # as above, both of one moment
        self._renew = self._retry = False  # asked for, and done by the next draft

    @property
    def unsettled(self) -> bool:
        """Whether the last look met a file in the middle of something: look again soon."""
        return self._passes or (self.snapshot is not None and self.snapshot.unsettled)

    @property
    def starts_anew(self) -> bool:
        """Whether vectors that are on their way are of no use any more: all are to be embedded anew."""
        return self._vectors is not None and not self._vectors.awaits

    @property
    def serves_older(self) -> bool:
        """Whether the vectors that are on their way will be seen only when the last of them is there."""
        return self._vectors is not None and self._vectors.serves_older

    @property
    def cut(self) -> tuple[str, ...]:
        """Ids of memories of which only the beginning fits into the model."""
        held = self._vectors.cut if self._vectors is not None else frozenset[bytes]()
        if self._map is None or not held:
            return ()
        pairs = zip(self._map.memories, self._hashes, strict=False)  # as below
        return tuple(memory.id for memory, key in pairs if key in held)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files that are not indexed, and memories whose text was refused by the endpoint."""
        files = self._unshown + (self.snapshot.problems if self.snapshot is not None else ())
        held = self.quarantined  # replaced, never changed, as a build in its thread looks at it too
        if self._map is None or not held:
            return files
        texts = tuple(
            Problem(memory.id, f"not embedded: {held[key][0]}")
            # Not strict: a build in its thread may be swapping the two just now.
            for memory, key in zip(self._map.memories, self._hashes, strict=False)
            if key in held
        )
        return files + texts

    def forget_vectors(self) -> None:
        """The next build embeds everything anew: `rebuild --full`. Until it has, the old vectors serve."""
        self._renew = True

    def stock(self) -> Stock | Parcel | None:
        """What is known now of vectors of the texts that the map shows, to be packed while builds go on."""
        if self._vectors is None:
            return None
        shown, hashes = self._shown
        parts = shown.parts if shown is not None else ()
        shelves = [Shelf(hashes, part.dense, part.gone) for part in parts]
        return self._vectors.stock(name_of(self.store.root), shelves)

    @property
    def moment(self) -> tuple[int, int]:
        """Changes when `stock` does: the generation of the map, and how many vectors are not in it yet."""
        shown = self._shown[0]
        waiting = self._vectors.waiting if self._vectors is not None else 0
        return shown.generation if shown is not None else 0, waiting

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
        # A touched file gives a new snapshot of the same memories.
        same = found is before or not found.changed
        if self.complete and same and (self._admit is None or self._shows(memories)):
            return None
        self.complete = False
        return self._drafted(memories)

    def _apply_pending_requests(self) -> None:
        """What was asked for since the last draft; not sooner, as a build may have been under way."""
        if self._vectors is not None and (self._renew or self._vectors.are_outdated()):
            self.complete = False
            self._vectors.renew()
        now = time.monotonic()
        held = {} if self._retry else {k: v for k, v in self.quarantined.items() if v[1] > now}
        if len(held) < len(self.quarantined):
            self.quarantined, self.complete = held, False
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
        old = self._map.memories if self._map is not None else ()
        changes = compared(old, memories, Pace(self._pause))
        hashes = self._hash(memories, changes)
        return Draft(
            memories,
            hashes,
            self._index(memories, changes) if self._lexical else None,
            self._chains(memories, changes),
            self._traits(memories, changes),
            self._missing(memories, hashes),
        )

    def _hash(self, memories: Sequence[Memory], changes: Changes) -> tuple[bytes, ...]:
        if self._vectors is None:
            return (b"",) * len(memories)
        hashes = np.full(len(memories), b"", object)
        hashes[changes.kept_new] = np.array(self._hashes, object)[changes.kept_old]
        pace = Pace(self._pause)
        for new in changes.added.tolist():
            text = self._embedded(memories[new])
            hashes[new] = text_hash(text) if text.strip() else b""
            pace.yield_if_due()
        return tuple(hashes.tolist())

    def _index(self, memories: Sequence[Memory], changes: Changes) -> LexicalLeg:
        docs = self._tokenised([memories[row].content for row in changes.added.tolist()])
        before = self._map.parts[0].lexical if self._map is not None else None
        if before is None:
            return LexicalLeg.build(docs)
        return before.splice(
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

    def _chains(self, memories: tuple[Memory, ...], changes: Changes) -> Chains:
        """Walks all memories only where one of them supersedes another."""
        fresh = (*changes.added.tolist(), *changes.redated.tolist())
        before = self._map.chains if self._map is not None else None
        if before is NO_CHAINS and not any(memories[row].supersedes for row in fresh):
            return NO_CHAINS
        return link(memories)

    def _traits(self, memories: Sequence[Memory], changes: Changes) -> Traits:
        if self._map is None:
            return Traits.of(memories)
        fresh = np.concatenate((changes.added, changes.redated))
        return self._map.parts[0].traits.edited(memories, changes.kept_old, changes.kept_new, fresh)

    def _missing(self, memories: Sequence[Memory], hashes: Sequence[bytes]) -> dict[bytes, str]:
        """The texts that have to be embedded, the newest first."""
        if self._vectors is None:
            return {}
        rows = self._vectors.missing(hashes)
        wanted = [row for row in rows if hashes[row] not in self.quarantined]
        wanted.sort(key=lambda row: memories[row].updated_at or memories[row].created_at, reverse=True)
        return {hashes[row]: self._embedded(memories[row]) for row in wanted}

    def _embedded(self, memory: Memory) -> str:
        """The text that is embedded, to the letter: a secret leaves for nobody, whoever insisted on it."""
        return cleaned(memory.content) if memory.id in self._insisted else memory.content

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
        dense, unknown = None, set[bytes]()
        if self._vectors is not None:
            unknown = self._unknown(draft, self._vectors.get)
            known = self._vectors.of_one_time(all_new=not unknown)
            lost = self._unknown(draft, known)
            if lost and not self._lexical:
                if self._map is None:
                    return None
                draft = self._with_older_texts(draft, lost)
            dense = self._vectors.leg(draft.hashes, baseline, all_new=not unknown)
        new = VectorMap(
            root=self.store.root.top,
            scope=self.store.root.scope,
            generation=generation,
            memories=draft.memories,
            parts=(Part(draft.memories, draft.lexical, dense, draft.traits),),
            chains=draft.chains,
        )
        self._map, self._hashes = self._shown = new, draft.hashes
        self.complete = not unknown
        if self.complete and self._vectors is not None:
            self._vectors.settle()
        return new

    def _unknown(self, draft: Draft, known: Known) -> set[bytes]:
        return {key for key in draft.missing if known(key) is None} - set(self.quarantined)

    def _left(self, draft: Draft) -> dict[bytes, str]:
        """What is missing still, now that it is known which model answers."""
        assert self._vectors is not None, "as in `embed`"
        return {key: text for key, text in draft.missing.items() if self._vectors.get(key) is None}

    def _with_older_texts(self, draft: Draft, unknown: set[bytes]) -> Draft:
        before = self._map
        assert before is not None
        kept = []
        for memory, key in zip(draft.memories, draft.hashes, strict=True):
            if key not in unknown:
                kept.append(memory)
            elif (older := before.find(memory.id)) is not None:
                kept.append(older)
        return self._drafted(tuple(kept))

    def _pause(self) -> None:
        """Be patient beside a map that serves; before the first one, someone is waiting for it."""
        if self._map is not None:
            time.sleep(_PAUSE_S)
