"""What counts in one root, kept as its writer needs it: the head of every chain, and which texts are there.

The disk is the truth, and nobody reads all of it for every write: the kernel tells what happened in the
folders since the last look (`Arrivals`), the writer itself tells what it wrote, and only where that is not
known, or where trust changed, everything is looked at again. What is withheld is not in here, so it is never
a head and never a text that exists already.

For one thread at a time. Nothing is raised for what is on disk.
"""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from forged.files import Arrivals, MemoryStore, Root, Snapshot, files_of, scan
from forged.map import link
from forged.memory import Memory
from forged.text.same_text import normalised
from forged.text.unseen import without_unseen
from forged.trust import Stamp, TrustRegistry

_NO_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}


class Ledger:
    """One root. `stamp` is what trusting depended on at the last look."""

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
