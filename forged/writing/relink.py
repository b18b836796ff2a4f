"""A chain stays whole when a version is taken out of it: what replaced that names its predecessor instead.

This is the one change that forged makes to a file that is there. The file is written anew under another
name and put in its place only if it still has the bytes that were read; hashes on record follow. `planned`
reads, `carried_out` writes; both block for the disk. StoreError is raised.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from forged.errors import MemoryFormatError, StoreError
from forged.files import File, MemoryStore, relinked
from forged.memory import Memory
from forged.state import Rewrite


class Relink(msgspec.Struct, frozen=True):
    """A file that is to name another predecessor, and the bytes that it will have."""

    file: File
    data: bytes
    older: str

    @property
    def rewrite(self) -> Rewrite:
        after = hashlib.sha256(self.data).hexdigest()
        former = self.file.memory.supersedes or ""
        return Rewrite(self.file.memory.id, self.file.sha256, after, self.older, former)


def links_over(memories: Sequence[Memory], gone: Collection[str]) -> dict[str, str]:
    """What each memory that replaced one of `gone` replaces without: nothing if there is nothing older.

    Two that had replaced the same oldest one keep their links into nothing: else nobody would see any more
    that they are versions of one memory.
    """
    there = {memory.id: memory for memory in memories}
    found = {
        memory.id: _older(memory, there, gone)
        for memory in memories
        if memory.id not in gone and memory.supersedes in gone and memory.supersedes in there
    }
    followed = Counter(last for older, last in found.values() if not older)
    return {each: older for each, (older, last) in found.items() if older or followed[last] == 1}


def _older(memory: Memory, there: Mapping[str, Memory], gone: Collection[str]) -> tuple[str, str]:
    """What is left to replace, and the last of `gone` on the way there."""
    seen, older, last = {memory.id}, memory.supersedes or "", ""
    while older in gone and older in there and older not in seen:
        seen.add(older)
        older, last = there[older].supersedes or "", older
    return ("" if older in seen or older in gone else older), last


def planned(store: MemoryStore, files: Sequence[File], links: Mapping[str, str]) -> tuple[Relink, ...]:
    """Read each file that has to name another predecessor, and make what it will be."""
    return tuple(
        _relink(store, file, links[file.memory.id])
        for file in files
        if file.memory.id in links and (file.memory.supersedes or "") != links[file.memory.id]
    )


def _relink(store: MemoryStore, file: File, older: str) -> Relink:
    data = store.read(file.path)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise StoreError(f"{file.path} is being changed at this moment; try again")
    name = os.path.basename(file.path).removesuffix(".md")
    try:
        return Relink(file, relinked(data, store.root.scope, name, older or None), older)
    except MemoryFormatError as error:
        raise StoreError(f"{file.path} cannot name another predecessor: {error}") from error


def carried_out(store: MemoryStore, relinks: Sequence[Relink]) -> None:
    """Put every file in place, one after the other; all are durable on return."""
    for each in relinks:
        store.rewrite(each.file.path, each.data, expected=each.file.sha256)
