"""Memories between their wire and their domain types, so that the domain may change without a new protocol.

Raises InvalidRequest, saying what to change, for a field that means nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from forged import memory
from forged.daemon.handlers.refusals import InvalidRequest
from forged.entities import spoken_by
from forged.files import Root
from forged.map import VectorMap
from forged.memory import Category, Memory, Origin, Related, Relationship, Trigger, default_category
from forged.scopes import Ranked, Stayed
from forged_client import protocol as wire

# The session of what was remembered outside of any.
BY_HAND = "explicit"
_Told = TypeVar("_Told", wire.Hit, wire.MemoryRecord)
# What a client may say of a text's origin; the rest only this daemon knows.
CLAIMED = (Origin.AGENT, Origin.EXPLICIT)


def token_of(epoch: str, generation: int) -> str:
    """A generation as clients hold it; `epoch` tells one run of the daemon from the next."""
    return f"{epoch}:{generation}"


def generation_of(epoch: str, token: str) -> int:
    """The number in a token; one of another epoch counts as reached after the first scan."""
    if not token:
        return 0
    theirs, _, number = token.partition(":")
    ours = theirs == epoch and number.isdecimal() and len(number) < 20
    return int(number) if ours else 0


def draft(request: wire.Remember, root: Root) -> Memory:
    """The new memory as the caller wants it; the writer sets its version, and what it keeps of an older one.

    Raises InvalidRequest.
    """
    if not request.content.strip():
        raise InvalidRequest("the content is blank; say what to remember")
    if request.category:
        check_known("category", request.category, Category)
    check_known("origin", request.origin, CLAIMED)
    check_links(request.related)
    now = memory.utc_now()
    return Memory(
        id=memory.new_id(),
        content=request.content,
        created_at=now,
        updated_at=now,
        version=1,
        scope=root.scope,
        category=request.category or ("" if request.supersedes else default_category(root.scope)),
        session_id=request.session_id or BY_HAND,
        trigger=Trigger.EXPLICIT,
        supersedes=request.supersedes or None,
        related=tuple(Related(edge.id, edge.relationship) for edge in request.related),
        origin=request.origin,
    )


def check_links(related: Iterable[wire.Edge]) -> None:
    """Raises InvalidRequest."""
    for edge in related:
        check_known("relationship", edge.relationship, Relationship)


def check_known(field: str, value: str, allowed: Iterable[str]) -> None:
    """Raises InvalidRequest."""
    if value not in list(allowed):
        raise InvalidRequest(f"unknown {field} {value[:64]!r}; use one of {', '.join(allowed)}")


def hit(ranked: Ranked) -> wire.Hit:
    found = ranked.memory
    return wire.Hit(
        id=found.id,
        scope=found.scope,
        category=found.category,
        version=found.version,
        content=found.content,
        created_at=found.created_at,
        score=ranked.score,
        cosine=ranked.cosine,
        lexical=ranked.lexical,
        via=ranked.via,
        older=tuple(map(_version, ranked.older)),
        root=ranked.root,
        rivals=tuple(map(_version, ranked.rivals)),
        came=ranked.came,
        stale=found.stale,
    )


def stayed(out: Stayed) -> wire.Stayed:
    evidence = out.evidence if math.isfinite(out.evidence) else None
    return wire.Stayed(out.memory.id, out.root, out.memory.first_line, out.why, evidence)


def _version(found: Memory) -> wire.Version:
    return wire.Version(found.id, found.version, found.created_at, found.first_line)


def record(home: VectorMap, found: Memory) -> wire.MemoryRecord:
    """All but what it speaks of, which takes as long as the rest of many memories."""
    return wire.MemoryRecord(
        id=found.id,
        scope=found.scope,
        category=found.category,
        version=found.version,
        content=found.content,
        created_at=found.created_at,
        updated_at=found.updated_at,
        session_id=found.session_id,
        trigger=found.trigger,
        root=home.root,
        supersedes=found.supersedes,
        related=tuple(wire.Edge(edge.id, edge.relationship) for edge in found.related),
        is_head=home.chains.is_head(found.id),
        origin=found.origin or Origin.FILE,
        redacted=found.redacted,
        rivals=home.chains.beside(found.id),
        cues=found.cues,
        evidence=tuple(map(str, found.evidence)),
        stale=found.stale,
    )


def without_texts(reply: wire.Reply) -> wire.Reply:
    """A reply as it may be put down: it names memories, and nothing of what they say."""
    if isinstance(reply, wire.Restored | wire.Undone):
        return msgspec.structs.replace(reply, memories=tuple(map(_named_only, reply.memories)))
    if isinstance(reply, wire.Reviewed):
        return wire.Reviewed(accepted=reply.accepted, kept=reply.kept, dropped=reply.dropped)
    return reply


def _named_only(told: wire.MemoryRecord) -> wire.MemoryRecord:
    bare = {"content": "", "cues": (), "metadata": {}, "entities": (), "relations": ()}
    return msgspec.structs.replace(told, **bare)


def with_entities(told: _Told, found: Memory) -> _Told:
    """The same with what it speaks of."""
    spoken = spoken_by(found)
    return msgspec.structs.replace(
        told,
        entities=tuple(each.name for each in spoken.entities),
        relations=tuple(wire.Relation(each.source, each.relation, each.target) for each in spoken.relations),
    )


def seconds_of(field: str, time: str) -> float:
    """A time as Unix seconds, 0 for none. Raises InvalidRequest."""
    if time and not memory.time_ns(time):
        raise InvalidRequest(f"{field} {time[:64]!r} is no time; say one such as 2026-11-20T14:00:00Z")
    return memory.time_ns(time) / 1e9


_MOST_IN_PAGE = 1000
_Item = TypeVar("_Item", bound=msgspec.Struct)


def page_of(found: Sequence[_Item], offset: int, limit: int) -> Sequence[_Item]:
    """So many of a record, from a place on; at most 1,000."""
    start = max(offset, 0)
    return found[start : start + min(max(limit, 0), _MOST_IN_PAGE)]


def fitting(items: Sequence[_Item]) -> tuple[_Item, ...]:
    """As many items, from the front, as a reply frame surely holds; the caller pages on."""
    room = wire.MAX_REPLY_BYTES // 2
    kept = []
    for item in items:
        room -= len(msgspec.msgpack.encode(item))
        if room < 0:
            break
        kept.append(item)
    return tuple(kept)
