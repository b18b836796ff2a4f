"""Decide how to merge the files of a root with the rows of a server; pure functions.

Versions are files that never change, so each side gets the files that it lacks. Other cases:

- A removal mark takes the file away on every side, and for a chain also its later versions that were written
  before the mark. Of two marks the later one holds, so `restore` can withdraw a mark.
- A file that is missing without a mark was removed by hand: it stays away here, and stays on the server.
- A file that was edited in place is compared with the last common state. If one side changed, that one is
  newer. If both changed, the later `updated_at` keeps the id. The other file becomes a concurrent version
  under an id that follows from its bytes, so that every machine gets the same result.

The server serializes the changes of an owner, and accepts them only from a machine that knows its state.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from forged.errors import MemoryFormatError
from forged.files import parse, relinked, render
from forged.memory import Memory, time_ns
from forged.state import NEVER_MET, RemovalMark, Replica, is_newer


class FileVersion(msgspec.Struct, frozen=True, gc=False):
    """Hash, creation time and predecessor of a memory's file; `created` is Unix microseconds or 0.

    `author` is the user who wrote it first, for an agent of the team.
    """

    sha256: str
    created: int = 0
    supersedes: str = ""
    author: str = ""


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that make a root and its owner's rows equal, by memory ids.

    `pull` is to be fetched and `push` to be sent; `both` changed on both sides, and `met` are equal there.
    `marks` are derived.
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
        """Return True if no step is left."""
        return not (self.take_away or self.pull or self.push or self.both or self.marks_to_send)


FileVersions = Mapping[str, FileVersion]
# Ids that are valid file names everywhere; other memories stay on their machine.
PORTABLE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def version_of(memory: Memory, sha256: str) -> FileVersion:
    """Return the FileVersion of a memory with this file hash."""
    return FileVersion(sha256, time_ns(memory.created_at) // 1000, memory.supersedes or "")


def problem_with(memory_id: str, scope: str, data: bytes) -> str:
    """Return the reason why these bytes are no valid file of this memory, or ""."""
    if PORTABLE_ID.fullmatch(memory_id) is None:
        return "its id cannot be the name of a file"
    try:
        memory = parse(data, scope, memory_id)
    except MemoryFormatError as error:
        return str(error)
    return "" if memory.id == memory_id else "it states another id"


def merge_plan(
    here: FileVersions,
    there: FileVersions,
    known: Mapping[str, Replica],
    marks_there: Mapping[str, RemovalMark],
    author: str = "",
) -> MergePlan:
    """Return the steps that make a root and its owner's rows equal, given their last common state.

    With an `author`, marks of memories that others wrote hold on this machine alone.
    """
    marks = {each: replica.mark for each, replica in known.items() if replica.mark is not None}
    newer = {each: mark for each, mark in marks_there.items() if is_newer(mark, known.get(each))}
    marks |= newer
    marks |= _removed_with_chain(here, there, marks)
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
        marks_to_send={
            each: mark
            for each, mark in marks.items()
            if marks_there.get(each) != mark and _may_send(there.get(each), author)
        },
    )


def _may_send(there: FileVersion | None, author: str) -> bool:
    """Return True if a mark holds on the server, which is not so for another author's memory."""
    return not author or there is None or there.author in {"", author}


def _removed_with_chain(
    here: FileVersions, there: FileVersions, marks: Mapping[str, RemovalMark]
) -> dict[str, RemovalMark]:
    """Return marks for later versions of forgotten chains that were written before the chain's mark."""
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


# --- one text that was said on two machines ------------------------------------------------------------


def links_of_twins(memories: Sequence[Memory]) -> dict[str, str]:
    """Return the predecessors to set, by id, so that of memories with one text a single one is current.

    Each replaces the next older one by version, time and id, the same way on every machine; without circles.
    """
    groups: defaultdict[tuple[str, str], dict[str, Memory]] = defaultdict(dict)
    for memory in memories:
        groups[memory.category, memory.content.strip()][memory.id] = memory
    links: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1:
            links |= _links_of_group(_without_replaced(group, memories))
    return links


def _without_replaced(group: Mapping[str, Memory], memories: Sequence[Memory]) -> dict[str, Memory]:
    """Return the memories of a group that no memory with another text replaces, nor one before them."""
    left = dict(group)
    while gone := left.keys() & {each.supersedes for each in memories if each.id not in left}:
        left = {each: memory for each, memory in left.items() if each not in gone}
    return left


def _links_of_group(group: Mapping[str, Memory]) -> dict[str, str]:
    """Return the predecessors to set in a group, none if it has one current memory."""
    # What one of them replaces outside of the group, the oldest replaces then; two such memories stay a fork.
    outside = {
        each.id: each.supersedes for each in group.values() if (each.supersedes or each.id) not in group
    }
    left_out = sorted(outside)[1:]
    by_age = sorted(group.values(), key=lambda memory: memory.age_key, reverse=True)
    ids = [each.id for each in by_age if each.id not in left_out]
    if len(ids) < 2 or len(set(ids) - {group[each].supersedes for each in ids}) == 1:
        return {}
    replaced = next((older for each, older in outside.items() if each in ids), None)
    wanted = dict(zip(ids, [*ids[1:], replaced or ""], strict=True))
    return {each: older for each, older in wanted.items() if (group[each].supersedes or "") != older}


# --- a memory that changed on both sides ------------------------------------------------------------


class Resolution(msgspec.Struct, frozen=True):
    """Result of a conflict: the file that keeps the id, and the other as a second version if they differ."""

    data: bytes
    second_id: str = ""
    second: bytes = b""


def resolution_of(memory_id: str, scope: str, one: tuple[bytes, int], other: tuple[bytes, int]) -> Resolution:
    """Return the Resolution of two edits of one id, in either order. Raises MemoryFormatError.

    Each is a file with the microseconds to add to its times, to get those of one clock.
    """
    edits = [(data, parse(data, scope, memory_id), offset_us) for data, offset_us in (one, other)]
    (data, own, _), (other_data, others, _) = edits
    if _comparable(own) == _comparable(others):
        return Resolution(
            max((data, other_data), key=lambda data: _equal_content_rank(data, scope, memory_id))
        )
    linked = [
        (_change_rank(memory, offset_us), _with_predecessor(data, memory, scope))
        for data, memory, offset_us in edits
    ]
    (_, first), (_, second) = sorted(linked, key=lambda each: (*each[0], _sha256(each[1])), reverse=True)
    second_id = f"mem_{_sha256(memory_id.encode() + second)[:32]}"
    memory = msgspec.structs.replace(parse(second, scope, memory_id), id=second_id)
    return Resolution(first, second_id, render(memory))


def _comparable(memory: Memory) -> Memory:
    """Return a memory without change time, version number and predecessor, to compare two edits of it."""
    return msgspec.structs.replace(memory, updated_at="", version=1, supersedes=None)


def _change_rank(memory: Memory, offset_us: int = 0) -> tuple[int, int]:
    """Return the sort key by change time and version number; the larger one is newer."""
    return time_ns(memory.updated_at) // 1000 + offset_us, memory.version


def _equal_content_rank(data: bytes, scope: str, memory_id: str) -> tuple[object, ...]:
    """Return the sort key of files with equal content: change time, version, has a predecessor, hash."""
    memory = parse(data, scope, memory_id)
    return *_change_rank(memory), bool(memory.supersedes), _sha256(data)


def _with_predecessor(data: bytes, memory: Memory, scope: str) -> bytes:
    """Return a memory's file unchanged, or with a predecessor id derived from its own if it names none."""
    if memory.supersedes:
        return data
    return relinked(data, scope, memory.id, f"mem_{_sha256(memory.id.encode())[:32]}")


def _sha256(data: bytes) -> str:
    """Return the SHA-256 of a file, in hex."""
    return hashlib.sha256(data).hexdigest()
