"""The files of a root for replication, read and written by the ordinary writer, as untrusted text.

A file from a server is checked like one from a stranger: its id must be a valid file name, its bytes a memory
of that id. It is recorded as forged's then. Its origin is recorded if the server shows that the row is this
user's, because the user's own daemon wrote it; else a lower one is. No person allowed a secret here, so a
secret is shown to no model.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec

from forged.attributes import UNCHANGED, Facts, FactsPatch, patch_of
from forged.errors import StoreError
from forged.files import MemoryStore, Root, Snapshot, parse, relinked
from forged.map import build_chains
from forged.maps import Indexer, RootIndex
from forged.memory import OF_PERSON, Memory, Origin
from forged.postgres.merging import (
    PORTABLE_ID,
    FileVersion,
    FileVersions,
    links_of_twins,
    problem_with,
    version_of,
)
from forged.postgres.replicating import CarriedFile, PushResult
from forged.state import Attributes, Rewrite
from forged.trust import TrustRegistry
from forged.writing import Writer, WriteRequest, Written

TakeAway = Callable[[RootIndex, tuple[str, ...]], Awaitable[object]]
"""Forgets memories of a root."""


class RootFiles:
    """Files of one root for replication, written as untrusted text by the ordinary writer."""

    def __init__(
        self,
        root: Root,
        *,
        indexer: Indexer,
        writer: Writer,
        trust: TrustRegistry,
        attributes: Attributes,
        take_away: TakeAway,
    ) -> None:
        self._root = root
        self._indexer = indexer
        self._writer = writer
        self._trust = trust
        self._attributes = attributes
        self._take_away = take_away
        self._held: dict[str, FileVersion] = {}
        self._paths: dict[str, str] = {}
        self._memories: dict[str, Memory] = {}
        self._without_twins: dict[str, Memory] | None = None

    async def look(self) -> FileVersions:
        """Scan the root; return the file versions of all memories with portable ids, by id."""
        snapshot, _ = await self._trust.look(self._root)
        await asyncio.to_thread(self._store_snapshot, snapshot)
        return self._held

    def _store_snapshot(self, snapshot: Snapshot) -> None:
        """Remember the file versions, paths and memories of a scan, for later reads and writes."""
        held, before = {}, self._held
        for memory, sha256 in zip(snapshot.memories, snapshot.hashes, strict=True):
            if PORTABLE_ID.fullmatch(memory.id):
                old = before.get(memory.id)
                same = old is not None and old.sha256 == sha256
                held[memory.id] = old if same and old is not None else version_of(memory, sha256)
        self._held = held
        self._paths = {
            memory.id: path for memory, path in zip(snapshot.memories, snapshot.paths, strict=True)
        }
        self._memories = {memory.id: memory for memory in snapshot.memories}

    async def read(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Return files of the last scan by id, with attributes; those changed since are left out."""
        wanted = {each: (self._paths[each], self._held[each].sha256) for each in ids if each in self._held}
        found = await asyncio.to_thread(_read_unchanged, MemoryStore(self._root), wanted)
        return {
            each: CarriedFile(data, self._attributes.of(self._root.top, each)) for each, data in found.items()
        }

    async def write(self, files: Mapping[str, CarriedFile]) -> PushResult:
        """Write new memory files; return the ids written, and those of invalid files as refused."""
        odd = self._invalid_ids(files)
        drafts = [self._write_request(each, carried) for each, carried in files.items() if each not in odd]
        done = await self._writer.add_all(self._index, drafts)
        ids = [draft.memory.id for draft, end in zip(drafts, done, strict=True) if isinstance(end, Written)]
        return PushResult(frozenset(ids), dict.fromkeys(odd, "no memory file"))

    async def rewrite(self, memory_id: str, carried: CarriedFile, expected: str) -> PushResult:
        """Replace a file whose hash is `expected`; return its id as written or refused, or none."""
        if odd := self._invalid_ids({memory_id: carried}):
            return PushResult(refused=dict.fromkeys(odd, "no memory file"))
        change = Rewrite(memory_id, expected, hashlib.sha256(carried.data).hexdigest())
        try:
            path, keeps = self._paths[memory_id], carried.is_own
            await self._writer.rewrite(self._index, path, carried.data, change, keeps_origin=keeps)
        except StoreError:  # changed since the look, or not writable: reported by the next look
            return PushResult()
        return PushResult(frozenset({memory_id}))

    async def join_twins(self, ids: Collection[str]) -> None:
        """Let one of two memories with the same text replace the other, among these ids of the last scan."""
        if self._memories is self._without_twins:
            return
        twins = await asyncio.to_thread(
            links_of_twins, [each for each in self._memories.values() if each.id in ids]
        )
        if not twins:
            self._without_twins = self._memories
        for memory_id, other in twins.items():
            for carried in (await self.read([memory_id])).values():
                data = relinked(carried.data, self._root.scope, memory_id, other or None)
                joined = msgspec.structs.replace(carried, data=data, is_own=True)
                await self.rewrite(memory_id, joined, self._held[memory_id].sha256)

    async def take_away(self, ids: Sequence[str]) -> None:
        """Forget memories of the root, with one trash entry for each chain of versions."""
        chains, groups = build_chains(tuple(self._memories.values())), dict[str, list[str]]()
        for each in ids:
            groups.setdefault(chains.head(each), []).append(each)
        for group in groups.values():  # each is restored separately
            await self._take_away(self._index, tuple(group))

    @property
    def _index(self) -> RootIndex:
        """Return the index of the root."""
        return self._indexer.open(self._root)

    def _invalid_ids(self, files: Mapping[str, CarriedFile]) -> frozenset[str]:
        """Return ids that are not portable or whose received bytes are no memory of that id."""
        scope = self._root.scope
        return frozenset(each for each, carried in files.items() if problem_with(each, scope, carried.data))

    def _write_request(self, memory_id: str, carried: CarriedFile) -> WriteRequest:
        """Return the request to write a received file byte by byte, with its attributes if they are valid."""
        memory = parse(carried.data, self._root.scope, memory_id)
        if memory.origin in OF_PERSON and not carried.is_own:
            memory = msgspec.structs.replace(memory, origin=Origin.FILE)
        patch = _valid_patch(carried.facts, self._root.scope)
        return WriteRequest(memory, verbatim=True, data=carried.data, name=f"{memory_id}.md", patch=patch)


def _read_unchanged(store: MemoryStore, wanted: Mapping[str, tuple[str, str]]) -> dict[str, bytes]:
    """Return the bytes of files by id, without those unreadable or with another hash than wanted."""
    found = {}
    for each, (path, sha256) in wanted.items():
        try:
            data = store.read(path)
        except StoreError:
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            found[each] = data
    return found


def _valid_patch(facts: Facts, scope: str) -> FactsPatch:
    """Return a patch that sets these attributes, or an empty one if any is invalid in this scope."""
    patch = patch_of(facts)
    return UNCHANGED if patch.problem(scope) else patch
