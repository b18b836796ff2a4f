"""Wire types to domain types and back; the only place, so the domain may change without a new protocol.

Raises InvalidRequest, saying what to change, for a field that means nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import msgspec

from forged import conversation, memory
from forged.conversation import Speaker, Utterance
from forged.daemon.handlers.refusals import InvalidRequest
from forged.files import Root
from forged.map import VectorMap
from forged.memory import Category, Memory, Origin, Related, Relationship, Trigger
from forged.scopes import Ranked
from forged.text import harnesses
from forged.text.injected_text import InjectedText, without_blocks
from forged.text.private import open_before, without_private
from forged.text.tool_markup import without_tool_text
from forged_client import protocol as wire

_TEXT_PARTS = {"text", "input_text", "output_text"}
# What a client may say of a text's origin; the rest only this daemon knows.
_CLAIMED = (Origin.AGENT, Origin.EXPLICIT)
_SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", **harnesses.ROLES}
# Characters that are looked through on the event loop, a few milliseconds at most; more goes to a thread.
_INLINE_LENGTH = 64_000


class Heard(msgspec.Struct, frozen=True):
    """What was said, and how many blocks of our own injections stood in it."""

    said: tuple[Utterance, ...]
    echoes: int


async def heard(messages: Sequence[wire.Message], start: int) -> Heard:
    """User and assistant text since the summary, as it may be remembered or sent to a model.

    Private spans, our own injections, tool content, thoughts, what a harness put there and texts that are
    blank without them are left out. The client has cut private spans already, but not every client is ours.
    A `start` that is no place in `messages` means all of them, as it does in the client's window. A long
    conversation is read in a thread, so that nobody waits for it.
    """
    if sum(len(_text(message)) for message in messages) < _INLINE_LENGTH:
        return _heard(messages, start)
    return await asyncio.to_thread(_heard, messages, start)


def utterances(messages: Sequence[wire.Message], start: int) -> tuple[Utterance, ...]:
    """What `heard` says was said, at once."""
    return _heard(messages, start).said


def _heard(messages: Sequence[wire.Message], start: int) -> Heard:
    spans = open_before((message.role, (_text(message),)) for message in messages)
    first = start if start in range(len(messages) + 1) else 0
    found, echoes = [], 0
    for message, open_spans in zip(messages[first:], spans[first:], strict=True):
        speaker = _SPEAKERS.get(message.role)
        if speaker is None or (open_spans and speaker == "assistant"):
            continue
        text, blocks = without_blocks(without_private(_text(message), open_spans))
        echoes += blocks
        if (text := without_tool_text(text, speaker)).strip():
            found.append(Utterance(speaker, text))
    return Heard(tuple(found), echoes)


def without_echoes(said: Sequence[Utterance], injected: Collection[str]) -> tuple[Utterance, ...]:
    """What was said, without memories that the assistant repeats where a retrieval looks.

    A person who says one again asks about it.
    """
    ours, room = InjectedText(injected), conversation.WINDOW_LIMIT
    newest_first: list[Utterance] = []
    for utterance in reversed(said):
        text = utterance.text
        if injected and room > 0 and utterance.role == "assistant":
            text, _ = ours.cut(text, inline=True)
        room -= len(utterance.text)
        if text.strip():
            newest_first.append(Utterance(utterance.role, text))
    return tuple(reversed(newest_first))


def asked(text: str) -> str:
    """A query or hypothesis as it may be sent to a model; of one that is nothing but markup that is left."""
    public = without_private(text)
    said = without_tool_text(without_blocks(public)[0])
    return said if said.strip() else public


def _text(message: wire.Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return "\n".join(part.text for part in message.content if part.type in _TEXT_PARTS)


def token_of(epoch: str, generation: int) -> str:
    """A generation as clients hold it; `epoch` tells one run of the daemon from the next."""
    return f"{epoch}:{generation}"


def generation_of(epoch: str, token: str) -> int:
    """The number in a token; one of another epoch counts as reached after the first scan."""
    theirs, _, number = token.partition(":")
    ours = theirs == epoch and number.isdecimal() and len(number) < 20
    return int(number) if ours else 0


def draft(request: wire.Remember, root: Root) -> Memory:
    """The new memory as the caller wants it; the writer sets its version and links.

    Raises InvalidRequest.
    """
    if not request.content.strip():
        raise InvalidRequest("the content is blank; say what to remember")
    _check("category", request.category, Category)
    _check("origin", request.origin, _CLAIMED)
    for edge in request.related:
        _check("relationship", edge.relationship, Relationship)
    now = memory.utc_now()
    return Memory(
        id=memory.new_id(),
        content=request.content,
        created_at=now,
        updated_at=now,
        version=1,
        scope=root.scope,
        category=request.category,
        session_id=request.session_id or "explicit",
        trigger=Trigger.EXPLICIT,
        supersedes=request.supersedes or None,
        related=tuple(Related(edge.id, edge.relationship) for edge in request.related),
        origin=request.origin,
    )


def _check(field: str, value: str, allowed: Iterable[str]) -> None:
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
        older=tuple(
            wire.Version(older.id, older.version, older.created_at, older.first_line)
            for older in ranked.older
        ),
        root=ranked.root,
    )


def record(home: VectorMap, found: Memory) -> wire.MemoryRecord:
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
    )


_Item = TypeVar("_Item", bound=msgspec.Struct)


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
