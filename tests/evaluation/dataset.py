"""A labelled set: memories, what is asked of them, and which of them answer.

One form for all sources. A query names its evidence by labels and a memory carries the labels that it is
evidence of: of the project's own set a label is a memory's id, of LoCoMo a turn of the dialogue that several
memories may cover.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from forged.errors import ForgedError
from forged.memory import Memory


class DatasetError(ForgedError):
    """A set cannot be used; the message names the file, and the line if there is one."""


class Item(msgspec.Struct, frozen=True):
    """One memory and the labels of the evidence that it holds."""

    memory: Memory
    labels: frozenset[str]


class Query(msgspec.Struct, frozen=True):
    """What a user says. `evidence` is never empty; `split` is "" in a set that has no splits."""

    id: str
    text: str
    kind: str
    evidence: frozenset[str]
    hypotheses: tuple[str, ...] = ()
    split: str = ""

    def is_answered_by(self, item: Item) -> bool:
        return not self.evidence.isdisjoint(item.labels)


class OffTopic(msgspec.Struct, frozen=True):
    """A message that no memory of the set helps with."""

    text: str
    split: str = ""


class Repository(msgspec.Struct, frozen=True):
    """One repository's memories and what is asked in it."""

    name: str
    items: tuple[Item, ...]
    queries: tuple[Query, ...]


class Dataset(msgspec.Struct, frozen=True):
    """`user` are the memories that every repository's queries see beside its own."""

    name: str
    repositories: tuple[Repository, ...]
    user: tuple[Item, ...] = ()
    off_topic: tuple[OffTopic, ...] = ()

    @property
    def has_hypotheses(self) -> bool:
        return any(query.hypotheses for repository in self.repositories for query in repository.queries)

    def part(self, split: str) -> Dataset:
        """Return the same memories with the queries and messages of one split; those without one stay."""
        if split == "all":
            return self
        repositories = (
            msgspec.structs.replace(r, queries=tuple(q for q in r.queries if q.split in {"", split}))
            for r in self.repositories
        )
        off_topic = tuple(m for m in self.off_topic if m.split in {"", split})
        return msgspec.structs.replace(self, repositories=tuple(repositories), off_topic=off_topic)


def labels_of(items: Iterable[Item]) -> frozenset[str]:
    """All labels that some of these memories carries."""
    return frozenset().union(*(item.labels for item in items))
