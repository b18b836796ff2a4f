"""The writes of one root: many drafts at once, one after the other as far as chains go.

A round: look at what is there, decide on every draft, put files and requests on record, write and sync the
files without a name, link them, sync the directory. No file has a name before its record is durable: a kill
leaves a whole file of ours or nothing, and a repeated request completes it by its key. Drafts that lean on a
failed one are decided on in another round. Blocks: runs in a thread, never twice at a time for one root.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Self

import msgspec

from forged.attributes import UNCHANGED
from forged.errors import Conflict, MemoryExists, NoLongerWanted, StoreError
from forged.files import MemoryStore, NewFile, Root, Snapshot, atomic
from forged.state import Known, Requests
from forged.trust import TrustRegistry
from forged.writing.planning import Draft, Ledger, Plan, Written, begun, digest_of, planned, written

logger = logging.getLogger(__name__)

Answer = Written | StoreError


class Again(msgspec.Struct, frozen=True):
    """A draft that has to be decided on once more. `is_settled`: its key is on record for its id."""

    draft: Draft
    is_settled: bool = False


class RootWriter:
    """One root. `looked`: what counts was looked at anew in the last call of `write`."""

    def __init__(
        self,
        root: Root,
        trust: TrustRegistry,
        requests: Requests,
        threads: Executor,
        snapshot: Snapshot | None,
    ) -> None:
        """`threads` write files; `snapshot` is an earlier one, so that not all is read again."""
        self.looked = False
        self._root = root
        self._store = MemoryStore(root)
        self._trust = trust
        self._requests = requests
        self._threads = threads
        self._ledger = Ledger(root, trust, snapshot)

    def write(self, drafts: Sequence[Draft]) -> tuple[Answer, ...]:
        """What became of each draft, in their order; generations are left at 0."""
        self.looked = self._ledger.look()
        answers: dict[int, Answer] = {}
        left = [(number, Again(draft)) for number, draft in enumerate(drafts)]
        while left:
            ends = self._carried_out([self._planned(each) for _, each in left])
            numbered = [(number, end) for (number, _), end in zip(left, ends, strict=True)]
            answers |= {number: end for number, end in numbered if not isinstance(end, Again)}
            left = [(number, end) for number, end in numbered if isinstance(end, Again)]
        return tuple(answers[number] for number in range(len(drafts)))

    def _planned(self, each: Again) -> Plan:
        return planned(each.draft, self._ledger, self._store, self._trust, is_settled=each.is_settled)

    def _carried_out(self, plans: Sequence[Plan]) -> list[Answer | Again]:
        contents = {plan.path(self._store): plan.data for plan in plans if plan.data}
        if contents:
            self._trust.excluding.keep_out(self._root)
        with NewFiles(self._store, contents, self._threads) as files:
            known = self._recorded(plans, files)
            if isinstance(known, StoreError):
                return self._undone(plans, known)
            linking = _Linking(self._store, self._ledger, files)
            for plan, row in zip(plans, known, strict=True):
                # What is on record from here on is that the key is of this plan.
                again = Again(plan.draft, is_settled=plan.is_settled or row is None)
                linking.end(plan, plan.answer if row is None else self._known(plan, row), again)
            return linking.settled()

    def _recorded(self, plans: Sequence[Plan], files: NewFiles) -> Sequence[Known | None] | StoreError:
        """The row that the key of each plan had already; while it is looked for the files are synced."""
        stamp = self._ledger.stamp
        assert stamp is not None, "nothing is planned before a look"
        writes = [begun(plan, stamp.identity, self._root.top) for plan in plans]
        if not any(write.file or write.key for write in writes):
            return [None] * len(plans)
        recording = self._requests.begin(writes)
        files.sync()
        try:
            return recording.result()
        except StoreError as error:
            # Every file in the user's own directory counts, on record or not; details are nowhere else.
            if not self._root.is_own or any(plan.draft.said != UNCHANGED for plan in plans):
                return error
            logger.warning("origin not written down error=%s", error)
            return [None] * len(plans)

    def _known(self, plan: Plan, known: Known) -> Answer | Again:
        """What is answered to a request that came before: as then, or it is completed now."""
        if not known.memory_id:
            return NoLongerWanted("what this request wrote was forgotten since")
        if known.digest != digest_of(plan.draft, self._root.top):
            return Conflict("this key was used for another request; make a new one")
        there = self._ledger.find(known.memory_id)
        if there is not None:
            named = plan.draft.memory.supersedes or ""
            return written(there, named, self._ledger.path_of(there.id), existed=known.existed)
        memory = msgspec.structs.replace(plan.draft.memory, id=known.memory_id)
        return Again(msgspec.structs.replace(plan.draft, memory=memory), is_settled=True)

    def _undone(self, plans: Sequence[Plan], error: StoreError) -> list[Answer | Again]:
        fresh = [plan.memory for plan in plans if plan.data]
        for memory in fresh:
            self._ledger.remove(memory)
        lost = {memory.id for memory in fresh}
        return [error if plan.memory.id in lost else plan.answer or error for plan in plans]


class _Linking:
    """The last step of a round: files get their names, older versions first."""

    def __init__(self, store: MemoryStore, ledger: Ledger, files: NewFiles) -> None:
        self._store = store
        self._ledger = ledger
        self._files = files
        self._ends: list[tuple[Plan, Answer | Again, Again]] = []
        self._lost: set[str] = set()  # ids that were counted on and will not be there

    def end(self, plan: Plan, end: Answer | Again | None, again: Again) -> None:
        """Bring a plan to its end, if it is not known yet; or `again`, if what it leans on is lost."""
        leans_on = end.memory.id if isinstance(end, Written) else plan.leans_on
        if leans_on in self._lost and not isinstance(end, Again):
            end = again
        if end is None:
            end = self._linked(plan)
        if plan.data and not _is_of(plan, end):
            self._lose(plan)
        self._ends.append((plan, end, again))

    def settled(self) -> list[Answer | Again]:
        """All ends, once the names are durable."""
        try:
            self._files.settle()
        except StoreError as error:
            failed = {plan.memory.id for plan, end, _ in self._ends if plan.data and _is_of(plan, end)}
            for plan, _, _ in self._ends:
                if plan.memory.id in failed and plan.data:
                    self._lose(plan)
            return [self._unsettled(plan, end, again, error) for plan, end, again in self._ends]
        return [end for _, end, _ in self._ends]

    def _linked(self, plan: Plan) -> Answer:
        path = plan.path(self._store)
        try:
            self._files.link(path)
        except StoreError as error:
            return error
        self._ledger.wrote(path)
        return written(plan.memory, plan.draft.memory.supersedes or "", path, existed=False)

    def _unsettled(self, plan: Plan, end: Answer | Again, again: Again, error: StoreError) -> Answer | Again:
        if not isinstance(end, Written) or end.memory.id not in self._lost:
            return end
        return error if plan.data and _is_of(plan, end) else again

    def _lose(self, plan: Plan) -> None:
        self._lost.add(plan.memory.id)
        self._ledger.remove(plan.memory)


def _is_of(plan: Plan, end: Answer | Again) -> bool:
    return isinstance(end, Written) and end.memory is plan.memory


PARTS = 4
_LEAST_IN_A_PART = 4


class NewFiles:
    """A context: what has no name at its end is gone. `failed` says why, by path."""

    def __init__(self, store: MemoryStore, contents: Mapping[str, bytes], threads: Executor) -> None:
        """`contents` are the bytes by path; without any, nothing is opened."""
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
                    opened = self._stack.enter_context(self._store.opened_to_write())
                    self._directory, self._owner = opened
            except StoreError as error:
                self.failed = dict.fromkeys(self._contents, error)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._stack.close()

    def sync(self) -> None:
        """Write every file; on return the bytes of those that have not failed will survive a power cut."""
        paths = [path for path in self._contents if path not in self.failed]
        parts = min(PARTS, len(paths) // _LEAST_IN_A_PART) or 1
        others = [self._threads.submit(self._write, paths[part::parts]) for part in range(1, parts)]
        self._write(paths[::parts])
        for other in others:
            other.result()

    def link(self, path: str) -> None:
        """Give a file its name. Raises StoreError, MemoryExists if there is one of that name."""
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
        """Make the names durable. Raises StoreError, and then none of them stays."""
        if self._named:
            with atomic.explained(f"cannot write to {self._store.root.top}"):
                atomic.sync_names(self._directory, self._named)

    def _write(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                with atomic.explained(f"cannot write {path}"):
                    self._files[path] = NewFile(self._directory, self._contents[path], self._owner)
            except StoreError as error:
                self.failed[path] = error
        for path in paths:  # all are written by now: most find that the first sync was theirs as well
            try:
                with atomic.explained(f"cannot write {path}"):
                    if path not in self.failed:
                        self._files[path].sync()
            except StoreError as error:
                self.failed[path] = error
