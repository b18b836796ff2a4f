"""Remove and restore memory files in several steps, keeping their chains connected.

The caller holds the root's lock. If a kill between two steps could break a chain, the intent is recorded
first, and repeating it completes the work. A removal first changes the files that stay and takes the file
away last. A restore does the reverse. So the chain is connected at every moment. Raises StoreError.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from forged.errors import MemoryFormatError, StoreError
from forged.files import File, MemoryStore, Root, Snapshot, files_of, one_per_id, relinked
from forged.memory import Memory
from forged.state import Intent, Intents, OwnFile, Rewrite, TrashedRows
from forged.trust import Admitted, TrustRegistry, stored_identity
from forged.writing.trash import Trash, TrashEntry, TrashNote


class RemovalTerms(msgspec.Struct, frozen=True):
    """Terms of a removal: erased or to the trash, why, and data that the trash notes keep.

    `whole`: all existing versions go, and none may stay.
    """

    erase: bool = False
    why: str = "forget"
    batch: str = ""
    became: str = ""
    rows: Mapping[str, TrashedRows] = {}
    own: Mapping[str, OwnFile] = {}
    whole: bool = False


class RemovalReceipt(msgspec.Struct, frozen=True):
    """Result of a removal: removed ids and texts; `intent` is recorded until all is done."""

    ids: tuple[str, ...]
    contents: tuple[str, ...]
    intent: Intent


class Remover:
    """Removes and restores memory files of a root, and relinks the versions that stay."""

    def __init__(
        self, trash: Trash, trust: TrustRegistry, intents: Intents, clock: Callable[[], float] = time.time
    ) -> None:
        """Take the trash, and `intents` by which interrupted work is completed; `clock`: Unix seconds."""
        self._trash = trash
        self._trust = trust
        self._intents = intents
        self._clock = clock

    async def remove(
        self, root: Root, ids: Collection[str], taking: RemovalTerms, earlier: Sequence[Rewrite] = ()
    ) -> RemovalReceipt:
        """Trash or erase every file of `ids`; versions that replaced one are linked to its predecessor.

        `earlier` are files that an interrupted attempt has changed already.
        """
        store = MemoryStore(root)
        snapshot, admitted = await self._trust.look(root)
        gone = frozenset(ids)
        files = _counting_files(snapshot, admitted)
        links = bypass_links([file.memory for file in files], gone)
        taking = taking if taking.batch else msgspec.structs.replace(taking, batch=new_batch())
        relinks = await asyncio.to_thread(_plan_relinks, store, files, links)
        intent = await asyncio.to_thread(_make_intent, "remove", root, ids, relinks, taking)
        await self._intents.begin(intent)
        await self._relink_files(root, store, intent, relinks)
        taking = msgspec.structs.replace(taking, own=await self._trust.own_files(root, gone))
        notes = self._notes(root, intent.identity, admitted, taking, {*earlier, *intent.rewrites})
        try:
            if taking.erase:
                removed = await asyncio.to_thread(store.erase, snapshot, gone)
            else:
                removed = await asyncio.to_thread(
                    store.move_to_trash, snapshot, gone, self._trash.path, notes
                )
        except StoreError:
            await self._drop_intent_if_unbegun(root, snapshot, intent, relinks)
            raise
        contents = [memory.content for memory in snapshot.memories if memory.id in gone]
        before = await asyncio.to_thread(self._trash.of_batch, taking.batch)
        contents += [
            each.memory.content for each in before if each.note.top == root.top and each.note.id in gone
        ]
        return RemovalReceipt(tuple(item.id for item in removed), tuple(dict.fromkeys(contents)), intent)

    async def _drop_intent_if_unbegun(
        self, root: Root, before: Snapshot, intent: Intent, relinks: Sequence[Relink]
    ) -> None:
        """Drop the intent of a failed removal if it took no file and changed no link."""
        now, _ = await self._trust.look(root)
        there = {memory.id for memory in now.memories}
        if not relinks and there.issuperset(memory.id for memory in before.memories):
            await self._intents.drop(intent.key)

    async def erase(
        self, root: Root, ids: Collection[str], taking: RemovalTerms, earlier: Sequence[Rewrite] = ()
    ) -> RemovalReceipt:
        """Erase memories, with all copies of them and of their texts in the trash."""
        gone = await self.remove(root, ids, taking, earlier)
        copies = await asyncio.to_thread(self._trash.erase, root.top, ids, gone.contents)
        known = dict.fromkeys((*gone.ids, *(each.note.id for each in copies)))
        contents = dict.fromkeys((*gone.contents, *(each.memory.content for each in copies)))
        return msgspec.structs.replace(gone, ids=tuple(known), contents=tuple(contents))

    async def restore(self, root: Root, some: Sequence[TrashEntry]) -> Intent:
        """Restore trash entries' files to their places and link their former successors to them again.

        Returns the intent, which is recorded until the rest of the work is done. Restores none if another
        file is at the place of one: an intent that cannot end would bring back later forgotten memories.
        """
        store = MemoryStore(root)
        places = [(each.note.folder, each.note.name, each.data) for each in some]
        await asyncio.to_thread(store.check_places, places)
        counted = [each for each in some if each.note.counted]
        await self._trust.accept_hashes(root, {hashlib.sha256(each.data).hexdigest() for each in counted})
        await self._trust.record_own(root, [each.note.own for each in some if each.note.own is not None])
        ids, taking = [each.note.id for each in some], RemovalTerms(batch=some[0].note.batch if some else "")
        intent = await asyncio.to_thread(_make_intent, "restore", root, ids, (), taking)
        await self._intents.begin(intent)
        await asyncio.to_thread(lambda: [store.put_back(*each) for each in places])
        await self._relink_followers(root, store, intent, counted)
        await asyncio.to_thread(self._trash.drop, some)
        return intent

    async def _relink_followers(
        self, root: Root, store: MemoryStore, intent: Intent, some: Sequence[TrashEntry]
    ) -> None:
        """Make restored files the predecessors of their former followers again."""
        snapshot, admitted = await self._trust.look(root)
        files = _counting_files(snapshot, admitted)
        now = {file.memory.id: file.memory.supersedes or "" for file in files}
        links = {
            follower: each.note.id
            for each in some
            for follower in each.note.followers
            if now.get(follower) == each.note.older
        }
        relinks = await asyncio.to_thread(_plan_relinks, store, files, links)
        await self._relink_files(root, store, intent, relinks)

    async def _relink_files(
        self, root: Root, store: MemoryStore, intent: Intent, relinks: Sequence[Relink]
    ) -> None:
        """Rewrite files with new predecessors; record hashes first, for a build in between."""
        if not relinks:
            return
        rewrites = tuple(each.rewrite for each in relinks)
        await self._trust.accept_hashes(
            root, {hash_ for each in rewrites for hash_ in (each.before, each.after)}
        )
        await self._intents.begin(msgspec.structs.replace(intent, rewrites=rewrites))
        await self._trust.record_rewrites(root, rewrites)
        await asyncio.to_thread(_rewrite_all, store, relinks)

    def _notes(
        self,
        root: Root,
        identity: str,
        admitted: Admitted,
        taking: RemovalTerms,
        rewrites: Collection[Rewrite],
    ) -> Callable[[str, str], bytes]:
        """Return a function that makes the encoded trash note of each removed file, b"" if impossible."""
        withheld = {each.path for each in admitted.withheld}
        batch, now = taking.batch or new_batch(), self._clock()

        def note(memory_id: str, path: str) -> bytes:
            following = sorted(each for each in rewrites if each.former == memory_id)
            entry = TrashNote(
                id=memory_id,
                top=root.top,
                scope=root.scope,
                folder=os.path.relpath(os.path.dirname(path), root.top),
                name=os.path.basename(path),
                batch=batch,
                why=taking.why,
                taken_at=now,
                older=following[0].older if following else "",
                followers=tuple(each.id for each in following),
                counted=path not in withheld,
                became=taking.became,
                rows=taking.rows.get(memory_id, TrashedRows()),
                identity=identity,
                own=taking.own.get(memory_id),
            )
            try:
                return msgspec.json.encode(entry)
            except UnicodeEncodeError:  # a file name that is no text cannot be recorded
                return b""

        return note


def new_batch() -> str:
    """Return a new name for the removals of one request."""
    return secrets.token_hex(8)


def _counting_files(snapshot: Snapshot, admitted: Admitted) -> tuple[File, ...]:
    withheld = {each.path for each in admitted.withheld}
    return one_per_id(file for file in files_of(snapshot) if file.path not in withheld)


def _make_intent(
    kind: str, root: Root, ids: Collection[str], relinks: Sequence[Relink], taking: RemovalTerms
) -> Intent:
    return Intent(
        key=new_batch(),
        kind=kind,
        top=root.top,
        scope=root.scope,
        ids=tuple(ids),
        rewrites=tuple(each.rewrite for each in relinks),
        erase=taking.erase,
        why=taking.why,
        batch=taking.batch,
        identity=stored_identity(root),
    )


class Relink(msgspec.Struct, frozen=True):
    """A memory file that gets another predecessor, with its new bytes, by which it is rewritten."""

    file: File
    data: bytes
    older: str

    @property
    def rewrite(self) -> Rewrite:
        after = hashlib.sha256(self.data).hexdigest()
        former = self.file.memory.supersedes or ""
        return Rewrite(self.file.memory.id, self.file.sha256, after, self.older, former)


def bypass_links(memories: Sequence[Memory], gone: Collection[str]) -> dict[str, str]:
    """Return the new predecessor of each memory that replaced one of `gone`; "" for none.

    Two memories that replaced the same oldest one keep their links, to stay versions of one memory.
    """
    there = {memory.id: memory for memory in memories}
    found = {
        memory.id: _remaining_predecessor(memory, there, gone)
        for memory in memories
        if memory.id not in gone and memory.supersedes in gone and memory.supersedes in there
    }
    followed = Counter(last for older, last in found.values() if not older)
    return {each: older for each, (older, last) in found.items() if older or followed[last] == 1}


def _remaining_predecessor(
    memory: Memory, there: Mapping[str, Memory], gone: Collection[str]
) -> tuple[str, str]:
    """Return the nearest predecessor that stays, and the last of `gone` on the way to it."""
    seen, older, last = {memory.id}, memory.supersedes or "", ""
    while older in gone and older in there and older not in seen:
        seen.add(older)
        older, last = there[older].supersedes or "", older
    return ("" if older in seen or older in gone else older), last


def _plan_relinks(store: MemoryStore, files: Sequence[File], links: Mapping[str, str]) -> tuple[Relink, ...]:
    """Return the files that need the new predecessors in `links`, with their new bytes."""
    return tuple(
        _make_relink(store, file, links[file.memory.id])
        for file in files
        if file.memory.id in links and (file.memory.supersedes or "") != links[file.memory.id]
    )


def _make_relink(store: MemoryStore, file: File, older: str) -> Relink:
    data = store.read(file.path)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise StoreError(f"{file.path} is being changed at this moment; try again")
    name = os.path.basename(file.path).removesuffix(".md")
    try:
        return Relink(file, relinked(data, store.root.scope, name, older or None), older)
    except MemoryFormatError as error:
        raise StoreError(f"{file.path} cannot name another predecessor: {error}") from error


def _rewrite_all(store: MemoryStore, relinks: Sequence[Relink]) -> None:
    """Write all changed files, one after the other; all are durable on return."""
    for each in relinks:
        store.rewrite(each.file.path, each.data, expected=each.file.sha256)
