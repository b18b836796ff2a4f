"""Convert memories between wire and domain types; the domain may change without a new protocol.

Raises InvalidRequest with the valid values for a field without meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from forged import memory
from forged.attributes import UNKNOWN, Facts
from forged.entities import mentions_of
from forged.errors import InvalidRequest
from forged.map import VectorMap
from forged.memories import write
from forged.memory import Memory, Origin
from forged.stores import Ranked
from forged.text.redaction import INLINE_LENGTH, shapes_in
from forged_client import protocol as wire

_MOST_IN_PAGE = 1000


def token_of(epoch: str, generation: int) -> str:
    """Return a generation number as clients hold it; `epoch` distinguishes runs of the daemon."""
    return f"{epoch}:{generation}"


def generation_of(epoch: str, token: str) -> int:
    """Return the number in a client's generation token; 0 if another run of the daemon issued it."""
    if not token:
        return 0
    theirs, _, number = token.partition(":")
    ours = theirs == epoch and number.isdecimal() and len(number) < 20
    return int(number) if ours else 0


class _FieldWords(NamedTuple):
    """A field of a request and its valid words; without words, its values are structs to check."""

    field: str
    default: object
    what: str = ""
    words: tuple[str, ...] = ()


@cache
def _checked_fields(kind: type[msgspec.Struct]) -> tuple[_FieldWords, ...]:
    """Return a type's fields that have a list of valid words, or structs with such fields."""
    found: list[_FieldWords] = []
    for each in msgspec.structs.fields(kind):
        inner = get_args(each.type)[0] if get_origin(each.type) is tuple else each.type
        notes = getattr(inner, "__metadata__", ())
        found += [_FieldWords(each.name, each.default, **note.extra) for note in notes]
        is_value = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        if is_value and inner is not wire.ImportedDraft and _checked_fields(inner):
            found.append(_FieldWords(each.name, each.default))
    return tuple(found)


def check_words(given: msgspec.Struct) -> None:
    """Refuse a request with a word that a field does not allow; drafts are checked when written.

    Raises InvalidRequest, and SecretFound for a word that must not be quoted.
    """
    for field, default, what, words in _checked_fields(type(given)):
        value = getattr(given, field)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, msgspec.Struct):
                check_words(each)
            elif each != default and each not in words:
                write.require_permission(
                    shapes_in(each[:INLINE_LENGTH]), allowed=getattr(given, "allow_secret", False)
                )
                raise InvalidRequest(f"unknown {what} {each[:64]!r}; use one of {', '.join(words)}")


def _make_record(each: Memory, root: str, facts: Facts, **more: Any) -> wire.MemoryRecord:
    """Return a memory with its attributes and `more` fields as a wire record; a piece names its document."""
    if (piece := each.piece) is not None:
        more |= {"document_id": piece.document_id, "chunk_index": piece.index}
        facts = msgspec.structs.replace(facts, source=piece.source)
    return wire.MemoryRecord(
        **msgspec.structs.asdict(facts),
        id=each.id,
        scope=each.scope,
        category=each.category,
        version=each.version,
        content=each.content,
        created_at=each.created_at,
        root=root,
        stale=each.stale,
        **more,
    )


def found_record(ranked: Ranked, facts: Facts = UNKNOWN) -> wire.MemoryRecord:
    """Return a memory that a search found as a wire record, with its ranking."""
    ranking = wire.Ranking(
        score=ranked.score,
        cosine=ranked.cosine,
        lexical=ranked.lexical,
        found_by=ranked.found_by,
        admitted_as=ranked.admitted_as,
        older=tuple(map(_version_record, ranked.older)),
        concurrent_heads=tuple(map(_version_record, ranked.concurrent_heads)),
    )
    origin = ranked.memory.origin or Origin.FILE
    return _make_record(ranked.memory, ranked.root, facts, origin=origin, found=ranking)


def memory_record(home: VectorMap, found: Memory, facts: Facts) -> wire.MemoryRecord:
    """Return a stored memory as a wire record, without its entities, which take long to find."""
    return _make_record(
        found,
        home.root,
        facts,
        updated_at=found.updated_at,
        session_id=found.session_id,
        trigger=found.trigger,
        supersedes=found.supersedes,
        related=tuple(wire.Edge(edge.id, edge.relationship) for edge in found.related),
        is_head=home.chains.is_head(found.id),
        origin=found.origin or Origin.FILE,
        redacted=found.redacted,
        concurrent_heads=home.chains.concurrent_with(found.id),
        cues=found.cues,
        evidence=tuple(map(str, found.evidence)),
    )


def _version_record(found: Memory) -> wire.Version:
    return wire.Version(found.id, found.version, found.created_at, found.first_line)


def without_texts(reply: wire.Reply) -> wire.Reply:
    """Return a reply as it may be stored: it names memories without their texts."""
    if isinstance(reply, wire.Restored | wire.Undone):
        return msgspec.structs.replace(reply, memories=tuple(map(_without_content, reply.memories)))
    if isinstance(reply, wire.Reviewed):
        return wire.Reviewed(accepted=reply.accepted, kept=reply.kept, dropped=reply.dropped)
    return reply


def _without_content(shown: wire.MemoryRecord) -> wire.MemoryRecord:
    """Return a record without the memory's texts and metadata."""
    bare = {"content": "", "cues": (), "metadata": {}, "entities": (), "relations": ()}
    return msgspec.structs.replace(shown, **bare)


def with_entities(shown: wire.MemoryRecord, found: Memory) -> wire.MemoryRecord:
    """Return a record with the memory's entities and relations."""
    spoken = mentions_of(found)
    return msgspec.structs.replace(
        shown,
        entities=tuple(each.name for each in spoken.entities),
        relations=tuple(wire.Relation(each.source, each.relation, each.target) for each in spoken.relations),
    )


def unix_seconds(field: str, time: str) -> float:
    """Return a field's time as Unix seconds, 0 for "". Raises InvalidRequest for anything else."""
    if time and not memory.time_ns(time):
        raise InvalidRequest(f"{field} {time[:64]!r} is not a time; write it like 2026-11-20T14:00:00Z")
    return memory.time_ns(time) / 1e9


_Item = TypeVar("_Item", bound=msgspec.Struct)


def page_of(found: Sequence[_Item], offset: int, limit: int) -> Sequence[_Item]:
    """Return up to `limit` of the found items from `offset` on; at most 1,000."""
    start = max(offset, 0)
    return found[start : start + min(max(limit, 0), _MOST_IN_PAGE)]


def fitting(items: Sequence[_Item]) -> tuple[_Item, ...]:
    """Return as many items, from the front, as surely fit into a reply frame (half of its limit)."""
    room = wire.MAX_REPLY_BYTES // 2
    kept = []
    for item in items:
        room -= len(msgspec.msgpack.encode(item))
        if room < 0:
            break
        kept.append(item)
    return tuple(kept)
