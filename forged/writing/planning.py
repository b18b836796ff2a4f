"""Decide on drafts: the next version of a chain, a new memory, one that is there, or nothing.

In: a draft, and the ledger of its root as the disk is now. Out: the memory to write and the bytes of its
file, or the answer. A version is based on the head that is there, whichever was named, so that two that were
begun at the same time line up; only a request that insists on a `base` is refused. Raises StoreError.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.errors import Conflict, MemoryExists, NoLongerWanted, StoreError
from forged.files import Arrivals, MemoryStore, Root, Snapshot, files_of, scan
from forged.map import link
from forged.memory import Memory
from forged.state import Begun, Known, OwnFile
from forged.text.same_text import normalised
from forged.text.unseen import without_unseen
from forged.trust import Stamp, TrustRegistry
from forged.writing.succession import base_of, succeeding


class Draft(msgspec.Struct, frozen=True):
    """A memory to be written; the writer sets its version and the id that it replaces.

    memory: with its id. Where a file of ours has that id it is done already. `supersedes` names any version
        of the chain.
    insisted: the caller wants the secret that it looks to hold.
    key: of the request; the same key with the same content is written once, however often it comes.
    base: the id that has to be the head of the chain, or nothing is written. The memory is taken whole then;
        without it category, links and unknown keys that it leaves out are the head's.
    again: write it although the same text is there: a version that differs in something else.
    verbatim: version and link stay as they are, as in a copy of another file with its `data` and `name`.
    said: its attributes, but for those that the version before it has already.
    unwanted: asked at the last moment, in any thread; what was forgotten meanwhile is not written.
    """

    memory: Memory
    insisted: bool = False
    key: str = ""
    base: str = ""
    again: bool = False
    verbatim: bool = False
    data: bytes = b""
    name: str = ""
    unwanted: Callable[[Memory], bool] = lambda _: False
    said: FactsPatch = UNCHANGED


class Written(msgspec.Struct, frozen=True):
    """A memory as it was written, its file, and the generation in which it is visible.

    `replaced` is the id of the version that it replaces, `base_moved`: another one than was named. `existed`:
    nothing was written, as this memory says the same already.
    """

    memory: Memory
    path: str
    generation: int
    replaced: str = ""
    base_moved: bool = False
    existed: bool = False


class Plan(msgspec.Struct, frozen=True):
    """A decision on a draft: the bytes to write as `data`, or the `answer`; it needs the memory `leans_on`.

    `is_settled`: the key of the draft is on record for this id.
    """

    draft: Draft
    memory: Memory
    data: bytes = b""
    answer: Written | StoreError | None = None
    leans_on: str = ""
    is_settled: bool = False

    def path(self, store: MemoryStore) -> str:
        """Where its file is to be."""
        return store.path_of(self.draft.name.removesuffix(".md") or self.memory.id)


def planned(
    draft: Draft, ledger: Ledger, store: MemoryStore, trust: TrustRegistry, *, is_settled: bool = False
) -> Plan:
    """Decide on one draft; what is to be written is in the ledger then, for the drafts after it."""
    try:
        memory = _version(draft, ledger)
        there = _there(draft, memory, ledger, trust)
        if there is not None:
            named = draft.memory.supersedes or ""
            is_done = is_settled and there.id == memory.id  # the same request, in the same moment
            answer = written(there, named, ledger.path_of(there.id), existed=not is_done)
            return Plan(draft, there, answer=answer, leans_on=there.id, is_settled=is_settled)
        data = draft.data or store.checked(memory)
    except StoreError as error:
        return Plan(draft, draft.memory, answer=error, is_settled=is_settled)
    ledger.add(memory)
    return Plan(draft, memory, data, leans_on=memory.supersedes or "", is_settled=is_settled)


def _version(draft: Draft, ledger: Ledger) -> Memory:
    memory, wanted = draft.memory, draft.memory.supersedes
    if draft.unwanted(memory):
        raise NoLongerWanted(f"{memory.id} was forgotten meanwhile")
    if draft.verbatim or not wanted or ledger.find(memory.id) is not None:
        return memory
    base, number = base_of(ledger.chain(wanted), wanted)
    if draft.base not in {"", base.id}:
        raise Conflict(f"it was based on {draft.base[:80]!r}, and {base.id} has replaced that")
    return succeeding(memory, base, number, is_whole=bool(draft.base))


def _there(draft: Draft, memory: Memory, ledger: Ledger, trust: TrustRegistry) -> Memory | None:
    """The memory that makes it needless to write this one."""
    there = ledger.find(memory.id)
    if there is not None:
        if ledger.stamp is None or not trust.is_own(ledger.stamp, memory.id):
            raise MemoryExists(f"there is a memory {memory.id} already")
        return there
    if draft.again or draft.verbatim:
        return None
    if not memory.supersedes:
        return ledger.same(memory.content)
    base = ledger.find(memory.supersedes) if draft.said == UNCHANGED else None
    return base if base is not None and _changes_nothing(memory, base) else None


def _changes_nothing(memory: Memory, base: Memory) -> bool:
    beside = memory.category == base.category and set(memory.related) <= set(base.related)
    beside = beside and memory.cues == base.cues and memory.evidence in {(), base.evidence}
    beside = beside and (memory.entities, memory.relations) == (base.entities, base.relations)
    return beside and normalised(memory.content) == normalised(base.content)


def written(memory: Memory, named: str, path: str, *, existed: bool) -> Written:
    """The answer to who named a version to replace, or none; its generation is not known yet."""
    replaced = "" if existed else memory.supersedes or ""
    return Written(memory, path, 0, replaced, bool(named) and replaced not in {"", named}, existed)


def begun(plan: Plan, identity: str, top: str) -> Begun:
    """What has to be on record before the plan is carried out."""
    key, file = plan.draft.key, None
    if plan.data:
        sha256 = hashlib.sha256(plan.data).hexdigest()
        file = OwnFile(plan.memory.id, sha256, plan.memory.origin, plan.draft.insisted)
    known = None
    if key and not isinstance(plan.answer, StoreError):
        known = Known(digest_of(plan.draft, top), plan.memory.id, existed=plan.answer is not None)
    base, said = plan.memory.supersedes or "", plan.draft.said
    return Begun(identity, file, key, known, plan.is_settled, top, base, said)


def digest_of(draft: Draft, top: str) -> str:
    """The digest by which two requests of one key are known to ask for the same."""
    named = "" if draft.again else draft.memory.supersedes or ""
    said = f"{top}\0{named}\0{draft.memory.content}"
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_NO_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}


class Ledger:
    """Heads and texts that count in one root; what is withheld is not in here. For one thread at a time.

    The disk is the truth: the kernel tells of changes since the last look (`Arrivals`), the writer of its own
    files, and only where that is unknown, or trust changed, all is scanned. `stamp` is of the last look.
    """

    def __init__(self, root: Root, trust: TrustRegistry, snapshot: Snapshot | None) -> None:
        """`snapshot` is an earlier one, so that not all is read again."""
        self.stamp: Stamp | None = None
        self._root = root
        self._store = MemoryStore(root)
        self._trust = trust
        self._snapshot = snapshot
        self._arrivals = Arrivals(root.directories)
        self._wrote: set[str] = set()  # since the kernel was asked last
        self._unread: set[str] = set()  # paths that are not in the snapshot as they are now
        self._is_restless = True
        self._memories: dict[str, Memory] = {}
        self._newer: defaultdict[str, list[str]] = defaultdict(list)
        self._by_letters: defaultdict[int, list[str]] = defaultdict(list)

    def look(self) -> bool:
        """Be as the disk is now. Whether more had to be looked at than what the kernel told."""
        names = self._arrivals.taken(frozenset(self._wrote))
        self._wrote.clear()
        stamp, before = self._trust.stamp(self._root), self.stamp
        self.stamp = stamp
        if names is not None and not (names or self._is_restless or stamp != before):
            return False
        if names is not None:
            self._unread |= names
        snapshot, files = self._snapshot, frozenset(self._unread)
        if snapshot is None or names is None or before is None:
            snapshot = scan(self._root, snapshot)
        elif files:
            snapshot = scan(self._root, snapshot, files)
        self._snapshot = snapshot
        if not snapshot.unsettled:
            self._unread.clear()
        admitted = self._trust.admit(self._root, snapshot)
        is_pending = stamp.follows and bool(admitted.withheld)
        self._is_restless = snapshot.unsettled or admitted.passes or bool(stamp.doubt) or is_pending
        self._take_over(admitted.memories)
        return True

    def find(self, memory_id: str) -> Memory | None:
        """The memory of this id, if it counts."""
        return self._memories.get(memory_id)

    def chain(self, memory_id: str) -> tuple[Memory, ...]:
        """All versions that hang together with a memory, also by ones that are gone, as `link` joins them."""
        seen, reached = {memory_id}, [memory_id]
        for current in reached:
            memory = self._memories.get(current)
            near = [*self._newer.get(current, ()), (memory.supersedes if memory else None) or current]
            fresh = [each for each in dict.fromkeys(near) if each not in seen]
            seen.update(fresh)
            reached.extend(fresh)
        return tuple(self._memories[each] for each in reached if each in self._memories)

    def same(self, content: str) -> Memory | None:
        """The head that says the same as a text, but for typography."""
        for memory_id in self._by_letters.get(_letters(content), ()):
            memory = self._memories[memory_id]
            if normalised(memory.content) == normalised(content) and self._is_head(memory_id):
                return memory
        return None

    def path_of(self, memory_id: str) -> str:
        """Where the file of a memory is that counts."""
        path = self._store.path_of(memory_id)
        if self._snapshot is None or os.path.exists(path):
            return path
        paths = (file.path for file in files_of(self._snapshot) if file.memory.id == memory_id)
        return next(paths, path)

    def add(self, memory: Memory) -> None:
        """A memory is about to be there; what is planned after it goes by that."""
        self._memories[memory.id] = memory
        if memory.supersedes:
            self._newer[memory.supersedes].append(memory.id)
        self._by_letters[_letters(memory.content)].append(memory.id)

    def remove(self, memory: Memory) -> None:
        """It is not there after all, or no more."""
        del self._memories[memory.id]
        if memory.supersedes:
            _drop(self._newer, memory.supersedes, memory.id)
        _drop(self._by_letters, _letters(memory.content), memory.id)

    def wrote(self, path: str) -> None:
        """The file of a memory that was added has its name now."""
        self._wrote.add(path)
        self._unread.add(path)

    def _take_over(self, memories: Iterable[Memory]) -> None:
        fresh = {memory.id: memory for memory in memories}
        for memory in [each for each in self._memories.values() if fresh.get(each.id) is not each]:
            self.remove(memory)
        for memory in fresh.values():
            if memory.id not in self._memories:
                self.add(memory)

    def _is_head(self, memory_id: str) -> bool:
        chain = self.chain(memory_id)
        return len(chain) == 1 or link(chain).is_head(memory_id)


def _letters(text: str) -> int:
    """A number that texts have in common that `normalised` makes equal, and much faster than that."""
    text = without_unseen(text)
    if text.isascii():
        return hash(text.lower().translate(_NO_MARKS))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return hash("".join(filter(str.isalnum, text)))


Key = TypeVar("Key", str, int)


def _drop(lists: defaultdict[Key, list[str]], key: Key, item: str) -> None:
    lists[key].remove(item)
    if not lists[key]:
        del lists[key]
