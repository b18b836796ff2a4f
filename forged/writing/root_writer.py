"""The writes of one root: many drafts at once, one after the other as far as chains go.

A round of `write` is: look at what is there, decide on every draft, put on record which files will be ours
and which requests they are for, write and sync the files without a name, link them, sync the directory.
Record and files go on at the same time, but no file has a name before its record is durable: what a kill
leaves is either a whole file of ours or nothing that anybody sees, and a request that comes again with its
key completes it. What leaned on a draft that failed is decided on anew in another round.

Blocks: it runs in a thread, and never twice at a time for one root.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor

import msgspec

from forged.errors import Conflict, NoLongerWanted, StoreError
from forged.files import MemoryStore, Root, Snapshot
from forged.memory import Scope
from forged.state import Known, Requests
from forged.trust import Trust
from forged.writing.ledger import Ledger
from forged.writing.new_files import NewFiles
from forged.writing.planning import Plan, begun, digest_of, planned, written
from forged.writing.values import Draft, Written

logger = logging.getLogger(__name__)

Answer = Written | StoreError


class RootWriter:
    """One root. `looked`: what counts was looked at anew in the last call of `write`."""

    def __init__(
        self, root: Root, trust: Trust, requests: Requests, threads: Executor, snapshot: Snapshot | None
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
        left = [(number, draft, False) for number, draft in enumerate(drafts)]
        while left:
            plans = [self._planned(draft, is_settled=is_settled) for _, draft, is_settled in left]
            ends = self._carried_out(plans)
            rest = []
            for (number, draft, is_settled), end in zip(left, ends, strict=True):
                if isinstance(end, Draft):
                    rest.append((number, end, is_settled or end is not draft))
                else:
                    answers[number] = end
            left = rest
        return tuple(answers[number] for number in range(len(drafts)))

    def _planned(self, draft: Draft, *, is_settled: bool) -> Plan:
        return planned(draft, self._ledger, self._store, self._trust, is_settled=is_settled)

    def _carried_out(self, plans: Sequence[Plan]) -> list[Answer | Draft]:
        """The end of each plan, or the draft that has to be decided on again."""
        contents = {self._store.path_of(plan.memory.id): plan.data for plan in plans if plan.data}
        with NewFiles(self._store, contents, self._threads) as files:
            known = self._recorded(plans, files)
            if isinstance(known, StoreError):
                return [self._undone(plan, plan.answer or known) for plan in plans]
            linking = _Linking(self._store, self._ledger, files)
            for plan, row in zip(plans, known, strict=True):
                linking.end(plan, plan.answer if row is None else self._known(plan, row))
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
            # Every file of the user's own root counts, whether it is on record or not.
            if self._root.scope is not Scope.USER:
                return error
            logger.warning("origin not written down error=%s", error)
            return [None] * len(plans)

    def _known(self, plan: Plan, known: Known) -> Answer | Draft:
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
        return msgspec.structs.replace(plan.draft, memory=memory)

    def _undone(self, plan: Plan, answer: Answer) -> Answer:
        if plan.data:
            self._ledger.remove(plan.memory)
        return answer


class _Linking:
    """The last step of a round: files get their names, older versions first."""

    def __init__(self, store: MemoryStore, ledger: Ledger, files: NewFiles) -> None:
        self._store = store
        self._ledger = ledger
        self._files = files
        self._ends: list[tuple[Plan, Answer | Draft]] = []
        self._lost: set[str] = set()  # ids that were counted on and will not be there

    def end(self, plan: Plan, answer: Answer | Draft | None) -> None:
        """Bring a plan to its end, which is known if there is an answer."""
        leans_on = answer.memory.id if isinstance(answer, Written) else plan.leans_on
        if leans_on in self._lost:
            answer = plan.draft
        if answer is None:
            try:
                self._files.link(self._store.path_of(plan.memory.id))
            except StoreError as error:
                answer = error
        if answer is None:
            path, named = self._store.path_of(plan.memory.id), plan.draft.memory.supersedes or ""
            self._ledger.wrote(path)
            answer = written(plan.memory, named, path, existed=False)
        elif plan.data:
            self._lose(plan)
        self._ends.append((plan, answer))

    def settled(self) -> list[Answer | Draft]:
        """All ends, once the names are durable."""
        try:
            self._files.settle()
        except StoreError as error:
            ends, self._ends = self._ends, []
            for plan, answer in ends:
                is_new = plan.data and isinstance(answer, Written) and answer.memory is plan.memory
                if is_new:
                    self._lose(plan)
                leans = isinstance(answer, Written) and answer.memory.id in self._lost
                self._ends.append((plan, error if is_new else plan.draft if leans else answer))
        return [answer for _, answer in self._ends]

    def _lose(self, plan: Plan) -> None:
        self._lost.add(plan.memory.id)
        self._ledger.remove(plan.memory)
