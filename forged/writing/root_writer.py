"""Write memories of one root: many requests at once, in the order of their chains.

Each round: look at the current files; plan every request (next version of a chain, new memory, existing one,
or nothing); record files and requests; write and sync nameless files; link them; sync the directory. A
version is based on the current head, whichever version was named, so that concurrent ones follow each other.
Only a request that insists on a `base` is refused. No file has a name before its record is durable: a kill
leaves a whole file or nothing, and a repeated request completes it by its key. Requests that depend on a
failed one are planned again in another round.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Self, TypeVar

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.errors import Conflict, MemoryExists, NoLongerWanted, StoreError
from forged.files import DirectoryEvents, MemoryStore, NewFile, Root, Snapshot, atomic, files_of, scan
from forged.map import build_chains
from forged.memory import OF_PERSON, Memory
from forged.state import OwnFile, PendingWrite, RequestOutcome, Requests
from forged.text.invisible import INVISIBLE
from forged.text.same_text import normalised
from forged.trust import Stamp, TrustRegistry
from forged.writing.succession import base_of, next_version

logger = logging.getLogger(__name__)


class WriteRequest(msgspec.Struct, frozen=True):
    """A memory to write, with conditions and permissions; the writer sets its version and predecessor.

    - memory: with its id; if a file of forged has that id, the request is done already. `supersedes`
      names any version of the chain.
    - insisted: the caller allows the secret that the memory seems to contain.
    - key: of the request; the same key with the same content is written once.
    - base: id that must be the head of the chain, or nothing is written. The memory is written as it is
      then; without `base`, missing category, links and unknown keys are those of the head.
    - again: write it even if the same text exists, as a version that differs in other fields.
    - verbatim: keep version and link, as for a copy of another file with its `data` and `name`.
    - patch: its attributes; others are inherited from the last version.
    - unwanted: called at the last moment, in any thread; a text that was forgotten meanwhile is not
      written.
    - is_settled: set by the writer if its key is recorded for the id of the memory.
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
    patch: FactsPatch = UNCHANGED
    is_settled: bool = False


class Written(msgspec.Struct, frozen=True):
    """Result of a write request: the memory written or found, its path, and the map generation with it.

    `replaced` is the id of the version that it replaces; `base_moved`: not the one that was named. `existed`:
    nothing was written, because the memory has the same text already.
    """

    memory: Memory
    path: str
    generation: int
    replaced: str = ""
    base_moved: bool = False
    existed: bool = False


WriteResult = Written | StoreError
PlanOutcome = WriteResult | WriteRequest
"""Result of a request, or the request itself if it must be planned again."""


class WritePlan(msgspec.Struct, frozen=True):
    """Plan of one request: the bytes `data` to write to `path`, or the `answer` without a write.

    It depends on the memory `depends_on`.
    """

    draft: WriteRequest
    memory: Memory
    data: bytes = b""
    path: str = ""
    answer: WriteResult | None = None
    depends_on: str = ""

    def written(self, memory: Memory, path: str, *, existed: bool) -> Written:
        """Return the request's result, with the version that was replaced; its generation is 0."""
        named, replaced = self.draft.memory.supersedes or "", "" if existed else memory.supersedes or ""
        return Written(memory, path, 0, replaced, bool(named) and replaced not in {"", named}, existed)

    def is_met(self, end: PlanOutcome) -> bool:
        """Return True if an outcome has the very memory of the plan: no error, retry or other memory."""
        return isinstance(end, Written) and end.memory is self.memory


class RootWriter:
    """Plans, records and writes memories of one root, many requests at once, in order and durably."""

    def __init__(
        self,
        root: Root,
        trust: TrustRegistry,
        requests: Requests,
        threads: Executor,
        snapshot: Snapshot | None,
    ) -> None:
        """Use `threads` to write files; an earlier `snapshot` saves reading all files again."""
        self.looked = False
        self._root = root
        self._store = MemoryStore(root)
        self._trust = trust
        self._requests = requests
        self._threads = threads
        self._ledger = RootContents(root, trust, snapshot)

    def write(self, drafts: Sequence[WriteRequest]) -> tuple[WriteResult, ...]:
        """Write requests durably, planning anew those based on a failed one; return results in order.

        Generations in them are 0. Blocks; runs in a thread, in one call at a time.
        """
        self.looked = self._ledger.update()
        answers: dict[int, WriteResult] = {}
        left = dict(enumerate(drafts))
        while left:
            ends = dict(zip(left, self._carry_out([*map(self._plan, left.values())]), strict=True))
            answers |= {number: end for number, end in ends.items() if not isinstance(end, WriteRequest)}
            left = {number: end for number, end in ends.items() if isinstance(end, WriteRequest)}
        return tuple(answers[number] for number in range(len(drafts)))

    def _plan(self, draft: WriteRequest) -> WritePlan:
        """Plan one request; the planned memory is visible to the plans of later ones."""
        try:
            memory = self._as_version(draft)
            there = self._existing(draft, memory)
            if there is not None and self._is_now_of_person(draft, there):
                said = msgspec.structs.replace(draft.memory, supersedes=there.id)
                memory, there = self._as_version(msgspec.structs.replace(draft, memory=said)), None
            if there is not None:
                plan = WritePlan(draft, there, depends_on=there.id)
                is_done = draft.is_settled and there.id == memory.id  # the same request in the same batch
                answer = plan.written(there, self._ledger.path_of(there.id), existed=not is_done)
                return msgspec.structs.replace(plan, answer=answer)
            data = draft.data or self._store.checked_bytes(memory)
        except StoreError as error:
            return WritePlan(draft, draft.memory, answer=error)
        self._ledger.add(memory)
        path = self._store.path_of(draft.name.removesuffix(".md") or memory.id)
        return WritePlan(draft, memory, data, path, depends_on=memory.supersedes or "")

    def _as_version(self, draft: WriteRequest) -> Memory:
        """Return a request's memory with the version number and predecessor it gets. Raises StoreError."""
        memory, wanted = draft.memory, draft.memory.supersedes
        if draft.unwanted(memory):
            raise NoLongerWanted(f"{memory.id} was forgotten meanwhile")
        if draft.verbatim or not wanted or self._ledger.find(memory.id) is not None:
            return memory
        base, number = base_of(self._ledger.chain(wanted), wanted)
        if draft.base not in {"", base.id}:
            raise Conflict(f"it was based on {draft.base[:80]!r}, and {base.id} has replaced that")
        return next_version(memory, base, number, is_whole=bool(draft.base))

    def _existing(self, draft: WriteRequest, memory: Memory) -> Memory | None:
        """Return an existing memory that makes a write unnecessary, or None. Raises MemoryExists."""
        there = self._ledger.find(memory.id)
        if there is not None:
            if not self._trust.is_own(self._ledger.stamp, memory.id):
                raise MemoryExists(f"there is a memory {memory.id} already")
            return there
        if draft.again or draft.verbatim:
            return None
        if not memory.supersedes:
            return self._ledger.find_same_text(memory.content)
        base = self._ledger.find(memory.supersedes) if draft.patch == UNCHANGED else None
        return base if base is not None and _changes_nothing(memory, base) else None

    def _is_now_of_person(self, draft: WriteRequest, there: Memory) -> bool:
        """Return True if a person gives a text that only others have given so far."""
        is_new = draft.memory.origin in OF_PERSON and not draft.verbatim and there.id != draft.memory.id
        return is_new and not self._trust.is_of_person(self._ledger.stamp, there.id)

    def _carry_out(self, plans: Sequence[WritePlan]) -> list[PlanOutcome]:
        """Write, record and link the files of plans; return the outcome of each."""
        contents = {plan.path: plan.data for plan in plans if plan.data}
        if contents:
            self._trust.excluding.keep_out(self._root)
        with NewFiles(self._store, contents, self._threads) as files:
            known = self._record_plans(plans, files)
            if isinstance(known, StoreError):
                return self._withdraw_plans(plans, known)
            linking = _Linking(self._ledger, files)
            for plan, row in zip(plans, known, strict=True):
                # From here on the key is recorded for this plan.
                again = msgspec.structs.replace(plan.draft, is_settled=plan.draft.is_settled or row is None)
                linking.finish_plan(
                    plan, plan.answer if row is None else self._repeated_outcome(plan, row), again
                )
            return linking.settle_all()

    def _record_plans(
        self, plans: Sequence[WritePlan], files: NewFiles
    ) -> Sequence[RequestOutcome | None] | StoreError:
        """Record plans and sync their files; return the earlier record of each key or None, or an error."""
        writes = [self._pending_write(plan) for plan in plans]
        if not any(write.file or write.key for write in writes):
            return [None] * len(plans)
        recording = self._requests.begin(writes)
        files.sync()
        try:
            return recording.result()
        except StoreError as error:
            # In the user's own directory every file counts without a record; attributes are recorded
            # everywhere.
            if not self._root.is_own or any(plan.draft.patch != UNCHANGED for plan in plans):
                return error
            logger.warning("origin not written down error=%s", error)
            return [None] * len(plans)

    def _pending_write(self, plan: WritePlan) -> PendingWrite:
        """Return the record of a plan: of its file, and of its request's key."""
        draft, memory, top = plan.draft, plan.memory, self._root.top
        file = known = None
        if plan.data:
            file = OwnFile(memory.id, hashlib.sha256(plan.data).hexdigest(), memory.origin, draft.insisted)
        if draft.key and not isinstance(plan.answer, StoreError):
            known = RequestOutcome(self._digest(draft), memory.id, existed=plan.answer is not None)
        identity, base = self._ledger.stamp.identity, memory.supersedes or ""
        return PendingWrite(identity, file, draft.key, known, draft.is_settled, top, base, draft.patch)

    def _digest(self, draft: WriteRequest) -> str:
        """Return the digest of a request's content, to compare requests of one key."""
        named = "" if draft.again else draft.memory.supersedes or ""
        patch = f"{self._root.top}\0{named}\0{draft.memory.content}"
        return hashlib.blake2b(patch.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _repeated_outcome(self, plan: WritePlan, known: RequestOutcome) -> PlanOutcome:
        """Return a repeated request's outcome: as before, an error, or its draft to write now."""
        if not known.memory_id:
            return NoLongerWanted("the memory of this request was forgotten since")
        if known.digest != self._digest(plan.draft):
            return Conflict("this request key was used for another request; use a new key")
        there = self._ledger.find(known.memory_id)
        if there is not None:
            return plan.written(there, self._ledger.path_of(there.id), existed=known.existed)
        memory = msgspec.structs.replace(plan.draft.memory, id=known.memory_id)
        return msgspec.structs.replace(plan.draft, memory=memory, is_settled=True)

    def _withdraw_plans(self, plans: Sequence[WritePlan], error: StoreError) -> list[PlanOutcome]:
        """Remove planned memories from the look-ups after an error; return the plans' outcomes."""
        fresh = [plan.memory for plan in plans if plan.data]
        for memory in fresh:
            self._ledger.remove(memory)
        lost = {memory.id for memory in fresh}
        return [error if plan.memory.id in lost else plan.answer or error for plan in plans]


def _changes_nothing(memory: Memory, base: Memory) -> bool:
    """Return True if a new version would equal its base."""
    same = memory.category == base.category and set(memory.related) <= set(base.related)
    same = same and memory.cues == base.cues and memory.evidence in {(), base.evidence}
    same = same and (memory.entities, memory.relations) == (base.entities, base.relations)
    return same and normalised(memory.content) == normalised(base.content)


class _Linking:
    """Last step of a round of writes: gives files their names in order, and collects plans' outcomes."""

    def __init__(self, ledger: RootContents, files: NewFiles) -> None:
        self._ledger = ledger
        self._files = files
        self._ends: list[tuple[WritePlan, PlanOutcome, WriteRequest]] = []
        self._lost: set[str] = set()  # ids that were planned and will not exist

    def finish_plan(self, plan: WritePlan, end: PlanOutcome | None, again: WriteRequest) -> None:
        """Note a plan's outcome: `end`, if None that of naming its file; `again` if its dependency failed."""
        depends_on = end.memory.id if isinstance(end, Written) else plan.depends_on
        if depends_on in self._lost and not isinstance(end, WriteRequest):
            end = again
        if end is None:
            end = self._link_file(plan)
        if plan.data and not plan.is_met(end):
            self._withdraw(plan)
        self._ends.append((plan, end, again))

    def settle_all(self) -> list[PlanOutcome]:
        """Make all names durable; return the outcomes of all plans, which change if that fails."""
        try:
            self._files.settle()
        except StoreError as error:
            failed = {plan.memory.id for plan, end, _ in self._ends if plan.data and plan.is_met(end)}
            for plan, _, _ in self._ends:
                if plan.memory.id in failed and plan.data:
                    self._withdraw(plan)
            return [self._outcome_after_failure(plan, end, again, error) for plan, end, again in self._ends]
        return [end for _, end, _ in self._ends]

    def _link_file(self, plan: WritePlan) -> WriteResult:
        """Give the file of a plan its name; return the result, or the error if that failed."""
        try:
            self._files.link(plan.path)
        except StoreError as error:
            return error
        self._ledger.note_written(plan.path)
        return plan.written(plan.memory, plan.path, existed=False)

    def _outcome_after_failure(
        self, plan: WritePlan, end: PlanOutcome, again: WriteRequest, error: StoreError
    ) -> PlanOutcome:
        """Return a plan's outcome after its round's names failed: as before, error or `again`."""
        if not isinstance(end, Written) or end.memory.id not in self._lost:
            return end
        return error if plan.data and plan.is_met(end) else again

    def _withdraw(self, plan: WritePlan) -> None:
        """Remove a failed plan's memory from the look-ups, and note it for plans that need it."""
        self._lost.add(plan.memory.id)
        self._ledger.remove(plan.memory)


PARTS = 4
_LEAST_IN_A_PART = 4


class NewFiles:
    """Context manager that writes, syncs and names new files; nameless ones vanish at its end."""

    def __init__(self, store: MemoryStore, contents: Mapping[str, bytes], threads: Executor) -> None:
        """Take the bytes by path; without any, nothing is opened."""
        self.failed: dict[str, StoreError] = {}
        self._store = store
        self._contents = contents
        self._threads = threads
        self._directory = -1
        self._owner: atomic.Owner | None = None
        self._files: dict[str, NewFile] = {}
        self._named: list[str] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._contents:
            try:
                with atomic.explained(f"cannot write to {os.path.dirname(next(iter(self._contents)))}"):
                    opened = self._stack.enter_context(self._store.open_to_write())
                    self._directory, self._owner = opened
            except StoreError as error:
                self.failed = dict.fromkeys(self._contents, error)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._stack.close()

    def sync(self) -> None:
        """Write every file; on return the bytes of all but the failed ones survive a power cut."""
        paths = [path for path in self._contents if path not in self.failed]
        parts = min(PARTS, len(paths) // _LEAST_IN_A_PART) or 1
        others = [self._threads.submit(self._write_and_sync, paths[part::parts]) for part in range(1, parts)]
        self._write_and_sync(paths[::parts])
        for other in others:
            other.result()

    def link(self, path: str) -> None:
        """Give a file its name. Raises StoreError, and MemoryExists if the name exists."""
        if path in self.failed:
            raise self.failed[path]
        name = os.path.basename(path)
        with atomic.explained(f"cannot write {path}"):
            try:
                self._files[path].link(name)
            except FileExistsError as error:
                raise MemoryExists(f"there is a memory {name.removesuffix('.md')} already") from error
        self._named.append(name)

    def settle(self) -> None:
        """Make the names given so far durable. Raises StoreError; then none of them stays."""
        if self._named:
            with atomic.explained(f"cannot write to {self._store.root.top}"):
                atomic.sync_names(self._directory, self._named)

    def _write_and_sync(self, paths: Sequence[str]) -> None:
        """Write files without names and sync them; keep the reason of each failure."""
        for path in paths:
            try:
                with atomic.explained(f"cannot write {path}"):
                    self._files[path] = NewFile(self._directory, self._contents[path], self._owner)
            except StoreError as error:
                self.failed[path] = error
        for path in paths:  # after the first sync the others have little to do
            try:
                with atomic.explained(f"cannot write {path}"):
                    if path not in self.failed:
                        self._files[path].sync()
            except StoreError as error:
                self.failed[path] = error


_NO_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}
_NO_LOOK = Stamp("", -1, "", follows=False)


class RootContents:
    """Memories that count in one root, with look-ups by id, chain and text. For one thread at a time.

    The disk is the truth. The kernel reports changes since the last look (`DirectoryEvents`), and the writer
    reports its own files. A full scan happens only if changes are unknown or trust changed. `stamp` is that
    of the last look. Withheld memories are left out.
    """

    def __init__(self, root: Root, trust: TrustRegistry, snapshot: Snapshot | None) -> None:
        """Take a root; an earlier `snapshot` saves reading all files again."""
        self.stamp = _NO_LOOK
        self._root = root
        self._store = MemoryStore(root)
        self._trust = trust
        self._snapshot = snapshot
        self._arrivals = DirectoryEvents(root.directories)
        self._wrote: set[str] = set()  # events since the last question to the kernel
        self._unread: set[str] = set()  # paths that differ from the snapshot
        self._is_restless = True
        self._memories: dict[str, Memory] = {}
        self._newer: defaultdict[str, list[str]] = defaultdict(list)
        self._by_letters: defaultdict[int, list[str]] = defaultdict(list)

    def update(self) -> bool:
        """Update the look-ups from the disk; return False if nothing but own files had changed."""
        names = self._arrivals.take(frozenset(self._wrote))
        self._wrote.clear()
        stamp, before = self._trust.stamp(self._root), self.stamp
        self.stamp = stamp
        if names is not None and not (names or self._is_restless or stamp != before):
            return False
        if names is not None:
            self._unread |= names
        snapshot, files = self._snapshot, frozenset(self._unread)
        if snapshot is None or names is None or before is _NO_LOOK:
            snapshot = scan(self._root, snapshot)
        elif files:
            snapshot = scan(self._root, snapshot, files)
        self._snapshot = snapshot
        if not snapshot.unsettled:
            self._unread.clear()
        admitted = self._trust.admit(self._root, snapshot)
        is_pending = stamp.follows and bool(admitted.withheld)
        self._is_restless = snapshot.unsettled or admitted.may_change or bool(stamp.doubt) or is_pending
        self._take_over(admitted.memories)
        return True

    def find(self, memory_id: str) -> Memory | None:
        """Return the memory of this id if it counts, else None."""
        return self._memories.get(memory_id)

    def chain(self, memory_id: str) -> tuple[Memory, ...]:
        """Return all versions joined to a memory by `supersedes` links, also over missing ones."""
        seen, reached = {memory_id}, [memory_id]
        for current in reached:
            memory = self._memories.get(current)
            near = [*self._newer.get(current, ()), (memory.supersedes if memory else None) or current]
            fresh = [each for each in dict.fromkeys(near) if each not in seen]
            seen.update(fresh)
            reached.extend(fresh)
        return tuple(self._memories[each] for each in reached if each in self._memories)

    def find_same_text(self, content: str) -> Memory | None:
        """Return the head (newest version) of a chain with the same text, apart from typography, or None."""
        for memory_id in self._by_letters.get(_letters(content), ()):
            memory = self._memories[memory_id]
            if normalised(memory.content) == normalised(content) and self._is_head(memory_id):
                return memory
        return None

    def path_of(self, memory_id: str) -> str:
        """Return the path of the file of a memory that counts."""
        path = self._store.path_of(memory_id)
        if self._snapshot is None or os.path.exists(path):
            return path
        paths = (file.path for file in files_of(self._snapshot) if file.memory.id == memory_id)
        return next(paths, path)

    def add(self, memory: Memory) -> None:
        """Add a memory, planned or read from disk, to the look-ups, so that later plans see it."""
        self._memories[memory.id] = memory
        if memory.supersedes:
            self._newer[memory.supersedes].append(memory.id)
        self._by_letters[_letters(memory.content)].append(memory.id)

    def remove(self, memory: Memory) -> None:
        """Remove a memory that was not written, or is gone, from the look-ups."""
        del self._memories[memory.id]
        if memory.supersedes:
            _drop_item(self._newer, memory.supersedes, memory.id)
        _drop_item(self._by_letters, _letters(memory.content), memory.id)

    def note_written(self, path: str) -> None:
        """Note that this writer made a file: no foreign change, but to be read in the next scan."""
        self._wrote.add(path)
        self._unread.add(path)

    def _take_over(self, memories: Iterable[Memory]) -> None:
        """Replace the memories in the look-ups by those that count now."""
        fresh = {memory.id: memory for memory in memories}
        for memory in [each for each in self._memories.values() if fresh.get(each.id) is not each]:
            self.remove(memory)
        for memory in fresh.values():
            if memory.id not in self._memories:
                self.add(memory)

    def _is_head(self, memory_id: str) -> bool:
        chain = self.chain(memory_id)
        return len(chain) == 1 or build_chains(chain).is_head(memory_id)


def _letters(text: str) -> int:
    """Return a number that texts with equal `normalised` forms share; much faster to compute."""
    if text.isascii():
        return hash(text.lower().translate(_NO_MARKS))
    text = INVISIBLE.sub("", text)
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return hash("".join(filter(str.isalnum, text)))


Key = TypeVar("Key", str, int)


def _drop_item(lists: defaultdict[Key, list[str]], key: Key, item: str) -> None:
    """Remove an item from a list in a dict, and the list once it is empty."""
    lists[key].remove(item)
    if not lists[key]:
        del lists[key]
