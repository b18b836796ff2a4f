"""Decide what becomes of the files of a root and the rows of a server when they meet; pure.

Versions are files that nobody changes, so what one side lacks it gets. What is not so simple:

- A mark of a forgotten memory takes the file away wherever it lies, and with a chain its later versions that
  were written before. Of two marks the later one holds, so `restore` can take one back.
- A file that is gone without a mark was removed by hand: it stays away here, and stays there.
- A file that was changed in place is compared with what both sides had last. Changed on one side it is the
  newer one. Changed on both, the later `updated_at` keeps the id, and the other becomes a version beside it,
  under an id that follows from its bytes: whoever meets the two makes the same of them.

The server takes an owner's changes one after the other, and only from a machine that knows what is there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from forged.errors import MemoryFormatError
from forged.files import parse, relinked, render
from forged.memory import Memory, time_ns
from forged.state import NEVER_MET, RemovalMark, Replica, is_newer


class FileVersion(msgspec.Struct, frozen=True, gc=False):
    """A file of a memory as one side has it. `created` is Unix microseconds, 0 where nobody knows."""

    sha256: str
    created: int = 0
    supersedes: str = ""


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, by ids. `marks` follow from what is known; `met` are equal on both sides.

    `pull` is to be fetched and `push` to be sent; `both` differ from what they had in common.
    """

    marks: Mapping[str, RemovalMark]
    take_away: tuple[str, ...] = ()
    pull: tuple[str, ...] = ()
    push: tuple[str, ...] = ()
    both: tuple[str, ...] = ()
    met: Mapping[str, str] = {}
    marks_to_send: Mapping[str, RemovalMark] = {}

    @property
    def is_empty(self) -> bool:
        """Whether both sides are in step."""
        return not (self.take_away or self.pull or self.push or self.both or self.marks_to_send)


Held = Mapping[str, FileVersion]
# Ids that are also names of files everywhere; what has another one stays where it is.
PORTABLE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def version_of(memory: Memory, sha256: str) -> FileVersion:
    return FileVersion(sha256, time_ns(memory.created_at) // 1000, memory.supersedes or "")


def problem_with(memory_id: str, scope: str, data: bytes) -> str:
    """Why bytes from elsewhere are no file of this memory, or nothing."""
    if PORTABLE_ID.fullmatch(memory_id) is None:
        return "its id cannot be the name of a file"
    try:
        memory = parse(data, scope, memory_id)
    except MemoryFormatError as error:
        return str(error)
    return "" if memory.id == memory_id else "it states another id"


def planned(
    here: Held, there: Held, known: Mapping[str, Replica], marks_there: Mapping[str, RemovalMark]
) -> MergePlan:
    """Compare a root with the rows of its owner, by what is known of both."""
    marks = {each: replica.mark for each, replica in known.items() if replica.mark is not None}
    newer = {each: mark for each, mark in marks_there.items() if is_newer(mark, known.get(each))}
    marks |= newer
    marks |= _fallen(here, there, marks)
    pull, push, both, met = [], [], [], {}
    for each in here.keys() | there.keys():
        if each in marks and marks[each].is_dead:
            continue
        ours, theirs = here.get(each), there.get(each)
        before = known.get(each, NEVER_MET)
        if theirs is None:
            push.append(each)
        elif ours is None:
            if not before.sha256:
                pull.append(each)
        elif ours.sha256 == theirs.sha256:
            met[each] = ours.sha256
        elif before.sha256 == theirs.sha256:
            push.append(each)
        elif before.sha256 == ours.sha256 and before.is_common and each not in newer:
            pull.append(each)
        else:
            both.append(each)
    return MergePlan(
        marks=marks,
        take_away=tuple(sorted(each for each, mark in marks.items() if mark.is_dead and each in here)),
        pull=tuple(sorted(pull)),
        push=tuple(sorted(push)),
        both=tuple(sorted(both)),
        met=met,
        marks_to_send={each: mark for each, mark in marks.items() if marks_there.get(each) != mark},
    )


def _fallen(here: Held, there: Held, marks: Mapping[str, RemovalMark]) -> dict[str, RemovalMark]:
    """Marks of versions that go with a chain: they were written before it was forgotten."""
    found: dict[str, RemovalMark] = {}
    followers: dict[str, set[str]] = {}
    for side in (here, there):
        for each, version in side.items():
            if version.supersedes:
                followers.setdefault(version.supersedes, set()).add(each)
    reached = [(each, mark) for each, mark in marks.items() if mark.kind == "chain"]
    for older, mark in reached:
        for each in sorted(followers.get(older, ())):
            created = max(side[each].created for side in (here, there) if each in side)
            now = found.get(each) or marks.get(each)
            is_later = now is None or mark.rank > now.rank
            if is_later and 0 < created <= mark.at:
                found[each] = mark
                reached.append((each, mark))
    return found


# --- one memory, changed on both sides -------------------------------------------------------------------


class Resolution(msgspec.Struct, frozen=True):
    """What a file is on both sides from now on, and what it was as well, unless that says nothing else."""

    data: bytes
    beside_id: str = ""
    beside: bytes = b""


def resolved(memory_id: str, scope: str, one: bytes, other: bytes) -> Resolution:
    """What becomes of two files of one id, whichever way round. Raises MemoryFormatError."""
    first, second = (parse(each, scope, memory_id) for each in (one, other))
    if _said(first) == _said(second):
        return Resolution(max((one, other), key=lambda data: _same_rank(data, scope, memory_id)))
    linked = [_linked(data, memory, scope) for data, memory in ((one, first), (other, second))]
    kept, beside = sorted(
        linked, key=lambda data: (*_age(parse(data, scope, memory_id)), _sha256(data)), reverse=True
    )
    beside_id = f"mem_{_sha256(memory_id.encode() + beside)[:32]}"
    memory = msgspec.structs.replace(parse(beside, scope, memory_id), id=beside_id)
    return Resolution(kept, beside_id, render(memory))


def _said(memory: Memory) -> Memory:
    """All of it but when it was changed, and what it replaces."""
    return msgspec.structs.replace(memory, updated_at="", version=1, supersedes=None)


def _age(memory: Memory) -> tuple[int, int]:
    return time_ns(memory.updated_at), memory.version


def _same_rank(data: bytes, scope: str, memory_id: str) -> tuple[object, ...]:
    memory = parse(data, scope, memory_id)
    return *_age(memory), bool(memory.supersedes), _sha256(data)


def _linked(data: bytes, memory: Memory, scope: str) -> bytes:
    """A file that replaces something: else nobody would see that it and another are of one memory.

    What it names then was never there, and is the same whoever names it.
    """
    if memory.supersedes:
        return data
    return relinked(data, scope, memory.id, f"mem_{_sha256(memory.id.encode())[:32]}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
