"""Drafts, and what becomes of each: the next version of a chain, a new memory, one that is there, or nothing.

In: a draft, and the ledger of its root as the disk is now. Out: the memory to write and the bytes of its
file, or the answer. A version is based on the head that is there, whichever was named, so that two that were
begun at the same time line up instead of forking; only a request that insists on a `base` is refused. In a
fork the head is the newest that follows the one that was named. Raises StoreError, MemoryNotFound.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.errors import Conflict, MemoryExists, MemoryNotFound, NoLongerWanted, StoreError
from forged.files import Arrivals, MemoryStore, Root, Snapshot, files_of, scan
from forged.map import link, replaced_by
from forged.memory import Memory
from forged.state import Begun, Known, NewFacts
from forged.text.same_text import normalised
from forged.text.unseen import without_unseen
from forged.trust import Stamp, TrustRegistry, own_bytes


def _nobody_minds(_: Memory) -> bool:
    return False


class Draft(msgspec.Struct, frozen=True):
    """A memory as somebody wants it written; its version and what it replaces are the writer's to set.

    memory: with its id. Where a file of ours has that id it is done already. `supersedes` names any version
        of the chain that is meant.
    insisted: somebody wants the secret that it looks to hold.
    key: of the request; the same key with the same content is written once, however often it comes.
    base: the id that has to be the head of the chain, or nothing is written. Who names it has seen it, so the
        memory is taken whole; without it category, links and unknown keys that it leaves out are the head's.
    again: write it although the same text is there: a version that differs in something else.
    verbatim: version and link stay as they are: what is put back as it was.
    data, name: the bytes of the file and its name, where it is to be a copy of another one; `verbatim` then.
    said: what is known of it beside its file, but for what the version before it says already.
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
    unwanted: Callable[[Memory], bool] = _nobody_minds
    said: FactsPatch = UNCHANGED


class Written(msgspec.Struct, frozen=True):
    """A memory as it was written, its file, and the generation in which it is visible.

    replaced: id of the version that it replaces, or nothing.
    base_moved: that is another one than the writer named.
    existed: nothing was written, as this memory says the same already.
    """

    memory: Memory
    path: str
    generation: int
    replaced: str = ""
    base_moved: bool = False
    existed: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What is to be done about a draft. `data` are the bytes to write; without them `answer` is the end.

    `leans_on` is the id of the memory that the plan takes to be there. `is_settled`: the key of the draft
    is known already to stand for this id.
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
    """Whether a new version would say what the one before says, all that is beside its text included."""
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
    key, file, facts = plan.draft.key, None, None
    if plan.data:
        file = own_bytes(plan.data, plan.memory, insisted=plan.draft.insisted)
        facts = NewFacts(top, plan.memory.id, plan.memory.supersedes or "", plan.draft.said)
    known = None
    if key and not isinstance(plan.answer, StoreError):
        known = Known(digest_of(plan.draft, top), plan.memory.id, existed=plan.answer is not None)
    return Begun(identity, file, key, known, again=plan.is_settled, facts=facts)


def digest_of(draft: Draft, top: str) -> str:
    """By what two requests of one key are known to ask for the same."""
    # Who changes a memory as it is by then has named no version of his own.
    named = "" if draft.again else draft.memory.supersedes or ""
    said = f"{top}\0{named}\0{draft.memory.content}"
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# --- versions -----------------------------------------------------------------------------------------


def base_of(memories: Sequence[Memory], memory_id: str) -> tuple[Memory, int]:
    """The version that a new one of this memory replaces, and the number that the new one has.

    `memories` are those that count in the root.
    """
    there = {memory.id: memory for memory in memories}
    if memory_id not in there:
        raise MemoryNotFound(
            f"no memory {memory_id[:80]!r} in this scope to supersede; `forgectl list` shows what is there"
        )
    chains = link(memories)
    chain = [there[each] for each in chains.chain(memory_id)]
    number = max(memory.version for memory in chain) + 1
    if not chains.rivals.get(chains.head(memory_id)):
        return there[chains.head(memory_id)], number
    newer = [memory for memory in _following(chain, memory_id) if chains.is_head(memory.id)]
    return max(newer, key=lambda memory: memory.age_key, default=there[chains.head(memory_id)]), number


def succeeding(draft: Memory, base: Memory, number: int, *, is_whole: bool = False) -> Memory:
    """`draft` as the version after `base`; unless `is_whole` it keeps what it does not say itself.

    Links are added to those of `base`. Keys of its file that forged does not know stay. The files that it
    stood on do not: nobody said that the new text stands on them. What it speaks of stays with its text.
    """
    if is_whole:
        return msgspec.structs.replace(draft, supersedes=base.id, version=number)
    if not draft.entities and not draft.relations and normalised(draft.content) == normalised(base.content):
        draft = msgspec.structs.replace(draft, entities=base.entities, relations=base.relations)
    edges = {edge.id: edge for edge in (*base.related, *draft.related)}
    return msgspec.structs.replace(
        draft,
        supersedes=base.id,
        version=number,
        category=draft.category or base.category,
        related=tuple(edges.values()),
        extra=draft.extra or base.extra,
        cues=draft.cues or base.cues,
    )


def _following(chain: Sequence[Memory], memory_id: str) -> list[Memory]:
    """The version of this id and all that replaced it, one after the other; `chain` is in order of age."""
    reached = {memory_id}
    while more := {m.id for m in chain if m.id not in reached and not reached.isdisjoint(replaced_by(m))}:
        reached |= more
    return [memory for memory in chain if memory.id in reached]


# --- what is there --------------------------------------------------------------------------------------

_NO_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}


class Ledger:
    """What counts in one root: the head of every chain, and which texts are there.

    The disk is the truth, and nobody reads all of it for every write: the kernel tells what happened in the
    folders since the last look (`Arrivals`), the writer itself tells what it wrote, and only where that is
    not known, or where trust changed, everything is looked at again. What is withheld is not in here, so it
    is never a head and never a text that exists already. `stamp` is what trusting depended on at the last
    look. For one thread at a time.
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
        self._is_restless = (
            snapshot.unsettled
            or admitted.passes
            or bool(stamp.doubt)
            or (stamp.follows and bool(admitted.withheld))
        )
        self._take_over(admitted.memories)
        return True

    # --- what is there --------------------------------------------------------------------------------

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

    # --- what comes and goes --------------------------------------------------------------------------

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
