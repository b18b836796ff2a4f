"""What becomes of a draft: the next version of a chain, a new memory, one that is there already, or nothing.

In: a draft, and the ledger of its root as the disk is now. Out: the memory to write and the bytes of its
file, or the answer. A version is based on the head that is there, whichever was named, so that two that were
begun at the same time line up instead of forking; only who insists on a `base` is refused. Raises StoreError
with the reason why nothing is to be written.
"""

from __future__ import annotations

import hashlib

import msgspec

from forged.attributes import UNCHANGED
from forged.errors import Conflict, MemoryExists, NoLongerWanted, StoreError
from forged.files import MemoryStore
from forged.memory import Memory
from forged.state import Begun, Known, NewFacts
from forged.text.same_text import normalised
from forged.trust import TrustRegistry, own_bytes
from forged.writing.ledger import Ledger
from forged.writing.values import Draft, Written
from forged.writing.versions import base_of, succeeding


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
