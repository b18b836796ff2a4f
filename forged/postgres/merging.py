"""What becomes of the files of a root and the rows of a server when they meet: pure functions over both.

Versions of a memory are files that nobody changes, so nearly all of it is a union: what one side lacks it
gets. What is not:

- A memory that was forgotten has a mark, and a mark takes the file away wherever it lies, however late that
  side hears of it. With a chain go its later versions that were written before it was forgotten: who forgot
  it would have taken them too, had they been there. Of two marks the later one holds, so `restore` can take
  one back.
- A file that was here once and is gone without a mark was removed by hand: it stays away here and stays there.
- A file that was changed in place, by hand or because its predecessor was forgotten, is told from its replica
  by what both sides had last. Changed on one side alone it is the newer one. Changed on both sides, the one
  with the later `updated_at` keeps the id, and the other becomes a version beside it, under an id that
  follows from its bytes: whoever meets the two makes the same of them.

The server takes changes of one owner one after the other and only from who knows what is there, so what two
machines make of the same thing is never mixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from forged.files import parse, relinked, render
from forged.memory import Memory, time_ns
from forged.state import NEVER_MET, Mark, Replica


class Version(msgspec.Struct, frozen=True, gc=False):
    """A file of a memory as one side has it. `created` is nanoseconds since 1970, 0 where nobody knows."""

    sha256: str
    created: int = 0
    supersedes: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, by ids. `marks` follow from what is known; `met` are equal on both sides.

    `pull` is to be fetched and `push` to be sent; `both` differ from what they had in common.
    """

    marks: Mapping[str, Mark]
    take_away: tuple[str, ...] = ()
    pull: tuple[str, ...] = ()
    push: tuple[str, ...] = ()
    both: tuple[str, ...] = ()
    met: Mapping[str, str] = {}
    marks_to_send: Mapping[str, Mark] = {}

    @property
    def is_empty(self) -> bool:
        """Whether both sides are in step."""
        return not (self.take_away or self.pull or self.push or self.both or self.marks_to_send)


Held = Mapping[str, Version]


def planned(here: Held, there: Held, known: Mapping[str, Replica], marks_there: Mapping[str, Mark]) -> Plan:
    """Compare a root with the rows of its owner, by what is known of both."""
    marks = {each: replica.mark for each, replica in known.items() if replica.mark is not None}
    for each, mark in marks_there.items():
        if each not in marks or mark.rank > marks[each].rank:
            marks[each] = mark
    marks |= _fallen(here, there, marks)
    pull, push, both, met = [], [], [], {}
    for each in here.keys() | there.keys():
        if (mark := marks.get(each)) is not None and mark.is_dead:
            continue
        ours, theirs = here.get(each), there.get(each)
        before = known.get(each, NEVER_MET).sha256
        if theirs is None:
            push.append(each)
        elif ours is None:
            if not before:
                pull.append(each)
        elif ours.sha256 == theirs.sha256:
            met[each] = ours.sha256
        elif before == theirs.sha256:
            push.append(each)
        elif before == ours.sha256:
            pull.append(each)
        else:
            both.append(each)
    return Plan(
        marks=marks,
        take_away=tuple(sorted(each for each, mark in marks.items() if mark.is_dead and each in here)),
        pull=tuple(sorted(pull)),
        push=tuple(sorted(push)),
        both=tuple(sorted(both)),
        met=met,
        marks_to_send={each: mark for each, mark in marks.items() if marks_there.get(each) != mark},
    )


def _fallen(here: Held, there: Held, marks: Mapping[str, Mark]) -> dict[str, Mark]:
    """Marks of versions that go with a chain: they were written before it was forgotten."""
    found: dict[str, Mark] = {}
    followers: dict[str, set[str]] = {}
    for side in (here, there):
        for each, version in side.items():
            if version.supersedes:
                followers.setdefault(version.supersedes, set()).add(each)
    reached = [(each, mark) for each, mark in marks.items() if mark.kind == "chain"]
    for older, mark in reached:
        for each in followers.get(older, ()):
            created = max(side[each].created for side in (here, there) if each in side)
            now = found.get(each) or marks.get(each)
            is_later = now is None or mark.rank > now.rank
            if is_later and 0 < created <= mark.at * 1000:
                found[each] = mark
                reached.append((each, mark))
    return found


# --- one memory, changed on both sides -------------------------------------------------------------------


class Settled(msgspec.Struct, frozen=True):
    """`data` is what the file of the memory is on both sides from now on; `beside` is what it was as well,
    under the id `beside_id`, unless that says nothing else."""

    data: bytes
    beside_id: str = ""
    beside: bytes = b""


def settled(memory_id: str, scope: str, one: bytes, other: bytes) -> Settled:
    """What becomes of two files of one id, whichever way round. Raises MemoryFormatError."""
    first, second = (parse(each, scope, memory_id) for each in (one, other))
    if _said(first) == _said(second):
        rank = {data: (*_age(memory), bool(memory.supersedes)) for data, memory in ((one, first), (other, second))}
        return Settled(max((one, other), key=lambda data: (rank[data], _sha256(data))))
    linked = [_linked(data, memory, scope) for data, memory in ((one, first), (other, second))]
    kept, beside = sorted(
        linked, key=lambda data: (*_age(parse(data, scope, memory_id)), _sha256(data)), reverse=True
    )
    beside_id = f"mem_{_sha256(memory_id.encode() + beside)[:32]}"
    memory = msgspec.structs.replace(parse(beside, scope, memory_id), id=beside_id)
    return Settled(kept, beside_id, render(memory))


def _said(memory: Memory) -> Memory:
    """All of it but when it was changed, and what it replaces."""
    return msgspec.structs.replace(memory, updated_at="", version=1, supersedes=None)


def _age(memory: Memory) -> tuple[int, int]:
    return time_ns(memory.updated_at), memory.version


def _linked(data: bytes, memory: Memory, scope: str) -> bytes:
    """A file that replaces something: else nobody would see that it and another are of one memory.

    What it names then was never there, and is the same whoever names it.
    """
    if memory.supersedes:
        return data
    return relinked(data, scope, memory.id, f"mem_{_sha256(memory.id.encode())[:32]}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
