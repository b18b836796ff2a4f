"""How a memory is shown: without the secrets in its file, and with the origin that is believed.

Goes in: what counts of a root, with the hash of each file, and what is on record of our own files. Come out
the same memories, of which those with a secret or a private span are shown without it, unless somebody
insisted on that very file; `redacted` names what is left out. `origin` is what is on record where this daemon
wrote the file as it is now, be it a copy of somebody else's. Everywhere else a file can say anything of
itself, so that it is believed only where it lowers: `import`, `model` and `agent` stay, all else is emptied.
A memory whose id holds a secret cannot be shown without it: it is a problem instead.

What was looked at once is not looked at again: between two builds almost every memory is the same object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from forged.memory import Entity, Evidence, Memory, Origin, Relation, unchanged_ends
from forged.state import OwnFile
from forged.text.private import without_private
from forged.text.redaction import redact, shapes_in

PRIVATE = "private span"

# What a file may say of its own origin without a record: none of these makes it the person's.
_LOWERING = frozenset({Origin.IMPORT, Origin.MODEL, Origin.AGENT})

# What nearly every file has: no secret, but longer than any word of prose, so that all would be looked at.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

Own = Callable[[str], OwnFile | None]
"""What is on record of the file that this daemon wrote for an id."""


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A memory as it is shown, or why it is not. `insisted`: with what looks like a secret."""

    memory: Memory | None
    insisted: bool = False
    problem: str = ""
    has_secret: bool = False


class Presented(msgspec.Struct, frozen=True):
    """Memories as they are, each with what is shown of it. `is_sure` says whether the records were.

    `memories` is all that is shown; `with_secrets` are those whose file holds a secret or a private span, as
    they are and as they are shown.
    """

    sources: tuple[Memory, ...] = ()
    rows: tuple[Shown, ...] = ()
    is_sure: bool = True
    memories: tuple[Memory, ...] = ()
    with_secrets: tuple[tuple[Memory, Shown], ...] = ()


def presented(
    sources: tuple[Memory, ...], hashes: Sequence[str], own: Own, before: Presented, *, is_sure: bool
) -> Presented:
    """Show `sources`. `before` is what it came to the last time, or empty.

    Without `is_sure` nobody knows what is on record.
    """
    if before.is_sure != is_sure:
        before = Presented()
    head, tail = unchanged_ends(sources, before.sources)
    end = len(sources) - tail
    fresh = [_shown(sources[row], hashes[row], own) for row in range(head, end)]
    behind = len(before.rows) - tail
    rows = (*before.rows[:head], *fresh, *before.rows[behind:])
    if before.with_secrets or any(row.has_secret for row in fresh):
        memories = tuple([row.memory for row in rows if row.memory is not None])
        secret = tuple([pair for pair in zip(sources, rows, strict=True) if pair[1].has_secret])
    else:
        new = [row.memory for row in fresh if row.memory is not None]
        memories, secret = (*before.memories[:head], *new, *before.memories[behind:]), ()
    return Presented(sources, rows, is_sure, memories, secret)


def _shown(source: Memory, sha256: str, own: Own) -> Shown:
    public = without_private(source.content)
    edges = (text for edge in source.related for text in (edge.id, edge.relationship))
    times = dict.fromkeys((source.created_at, source.updated_at))
    odd_times = (text for text in times if not _TIME.fullmatch(text))
    grounds = map(str, source.evidence)
    beside = (source.category, source.session_id, source.trigger, *odd_times, *source.cues, *grounds)
    beside = (*beside, *_spoken(source))
    found = shapes_in("\n\n".join((public, source.id, source.supersedes or "", *beside, *edges)))
    if source.cues != (cues := tuple(map(without_private, source.cues))):
        source = msgspec.structs.replace(source, cues=cues)
    if any("<" in text for text in _spoken(source)):
        source = _speaking(source, without_private)
    record = own(source.id)
    is_own = record is not None and record.sha256 == sha256
    claimed = source.origin if source.origin in _LOWERING else ""
    origin = (record.origin or source.origin) if record is not None and is_own else claimed
    if not found and public == source.content:
        return Shown(source if origin == source.origin else msgspec.structs.replace(source, origin=origin))
    if is_own and record is not None and record.insisted:
        return Shown(source, insisted=True, has_secret=True)
    if names := shapes_in(source.id):
        told = f"its id holds what looks like a secret ({', '.join(names)}); rename it"
        return Shown(None, problem=told, has_secret=True)
    return Shown(_without(source, public, found, origin), has_secret=True)


def _spoken(source: Memory) -> Iterator[str]:
    """What its front matter says that it speaks of."""
    for entity in source.entities:
        yield from (entity.name, entity.type, entity.description)
    for each in source.relations:
        yield from (each.source, each.relation, each.target)


def _speaking(source: Memory, shown: Callable[[str], str]) -> Memory:
    """The same with what it speaks of in names as they are `shown`."""
    return msgspec.structs.replace(
        source,
        entities=tuple(
            Entity(shown(each.name), shown(each.type), shown(each.description)) for each in source.entities
        ),
        relations=tuple(
            Relation(shown(each.source), shown(each.relation), shown(each.target), each.weight)
            for each in source.relations
        ),
    )


def _without(source: Memory, public: str, found: tuple[str, ...], origin: str) -> Memory:
    cut = (PRIVATE,) if public != source.content else ()
    return msgspec.structs.replace(
        _speaking(source, lambda text: redact(text).text),
        content=redact(public).text,
        category=redact(source.category).text,
        session_id=redact(source.session_id).text,
        trigger=redact(source.trigger).text,
        created_at=redact(source.created_at).text,
        updated_at=redact(source.updated_at).text,
        supersedes=redact(source.supersedes).text if source.supersedes else None,
        related=tuple(
            msgspec.structs.replace(
                edge, id=redact(edge.id).text, relationship=redact(edge.relationship).text
            )
            for edge in source.related
        ),
        origin=origin,
        cues=tuple(redact(cue).text for cue in source.cues),
        evidence=tuple(
            Evidence(redact(each.path).text, redact(each.lines).text, each.hash) for each in source.evidence
        ),
        redacted=cut + found,
    )
