"""The project's own kind of set: a directory of JSON lines about a coding agent's life.

`memories.jsonl`, `queries.jsonl` and, if there are any, `off_topic.jsonl`. A query of one repository sees its
memories and the user's. Everything is checked at the start, because a label that names nothing would only
show as a memory that is never found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from forged.memory import Category, Memory, Related, Relationship, Scope, Trigger, is_valid_id, time_ns
from tests.evaluation.dataset import Dataset, DatasetError, Item, OffTopic, Query, Repository

MEMORIES, QUERIES, OFF_TOPIC = "memories.jsonl", "queries.jsonl", "off_topic.jsonl"
_USER = "user"

_Line = TypeVar("_Line")


class _Edge(msgspec.Struct, frozen=True):
    id: str
    relationship: Relationship


class MemoryLine(msgspec.Struct, frozen=True):
    """A memory as it stands in a file; those of `root` "user" are the user's."""

    id: str
    root: str
    category: Category
    created_at: str
    content: str
    version: int = 1
    supersedes: str | None = None
    related: tuple[_Edge, ...] = ()

    @property
    def item(self) -> Item:
        memory = Memory(
            id=self.id,
            content=f"{self.content}\n",
            created_at=self.created_at,
            updated_at=self.created_at,
            version=self.version,
            scope=Scope.USER if self.root == _USER else Scope.REPO,
            category=self.category,
            session_id="eval",
            trigger=Trigger.EXPLICIT,
            supersedes=self.supersedes,
            related=tuple(Related(edge.id, edge.relationship) for edge in self.related),
        )
        return Item(memory, frozenset((self.id,)))


class _Query(Query, frozen=True, kw_only=True):
    root: str


def load(directory: Path) -> Dataset:
    """Read a directory. Raises DatasetError."""
    memories = lines(directory / MEMORIES, MemoryLine)
    queries = lines(directory / QUERIES, _Query)
    _require_sound_memories(memories, directory / MEMORIES)
    _require_evidence(memories, queries, directory / QUERIES)
    names = sorted({memory.root for memory in memories} - {_USER})
    return Dataset(
        name=directory.resolve().name,
        repositories=tuple(_repository(name, memories, queries) for name in names),
        user=_items(_USER, memories),
        off_topic=load_off_topic(directory / OFF_TOPIC) if (directory / OFF_TOPIC).exists() else (),
    )


def load_off_topic(file: Path) -> tuple[OffTopic, ...]:
    """Messages that nothing helps with. Raises DatasetError.

    One `{"text": ...}` a line, or the messages themselves, where the first one does not begin with a brace.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise DatasetError(f"{file}: {error}") from error
    if text.lstrip().startswith("{"):
        return lines(file, OffTopic)
    return tuple(OffTopic(line.strip()) for line in text.split("\n") if line.strip())


def _repository(name: str, memories: Sequence[MemoryLine], queries: Sequence[_Query]) -> Repository:
    return Repository(name, _items(name, memories), tuple(query for query in queries if query.root == name))


def _items(root: str, memories: Sequence[MemoryLine]) -> tuple[Item, ...]:
    return tuple(memory.item for memory in memories if memory.root == root)


def _require_sound_memories(memories: Sequence[MemoryLine], file: Path) -> None:
    seen: set[str] = set()
    for memory in memories:
        if memory.id in seen or not is_valid_id(memory.id):
            raise DatasetError(f"{file}: the id {memory.id!r} is there twice or is no id")
        if not time_ns(memory.created_at):
            raise DatasetError(f"{file}: created_at of {memory.id} is no time")
        seen.add(memory.id)


def _require_evidence(memories: Sequence[MemoryLine], queries: Sequence[_Query], file: Path) -> None:
    """Every label must name a memory that the query sees and that no newer version replaces."""
    root_of = {memory.id: memory.root for memory in memories}
    replaced = {memory.supersedes for memory in memories}
    for query in queries:
        if not query.evidence or query.root == _USER or query.root not in root_of.values():
            raise DatasetError(f"{file}: {query.id} has no evidence, or no repository of the set as root")
        for label in sorted(query.evidence):
            if root_of.get(label) not in {_USER, query.root}:
                raise DatasetError(f"{file}: {query.id} names {label!r}, which it cannot see")
            if label in replaced:
                raise DatasetError(f"{file}: {query.id} names {label!r}, which a newer version replaces")


def lines(file: Path, kind: type[_Line]) -> tuple[_Line, ...]:
    """The objects of a file, one a line. Raises DatasetError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
    return tuple(_decoded(data, kind, file))


def _decoded(data: bytes, kind: type[_Line], file: Path) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise DatasetError(f"{file}, line {number}: {error}") from error
