"""A capture event as it waits, what was decided about it, and an event that was given up. Values only.

`encoded` makes bytes of the first two and raises StoreError for what could not be read back.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Literal

import msgspec

from forged.attributes import UNCHANGED, FactsPatch
from forged.conversation import Utterance
from forged.errors import StoreError
from forged.files import Root
from forged.memory import Memory, time_ns, utc_now
from forged_client.protocol import CaptureKind

Kind = Literal[CaptureKind, "learned"]

# What is on disk before it is acknowledged; a turn is within a second.
DURABLE: frozenset[str] = frozenset({"compaction", "explicit", "session_end", "learned"})

_ID = re.compile(r"ev_[A-Za-z0-9_-]{1,64}")


def new_event_id() -> str:
    """An id whose order as text is the order of acceptance, also across restarts."""
    return f"ev_{time.time_ns():020d}_{secrets.token_hex(4)}"


def is_event_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A few turns, a compaction, an explicit request, an end of session, a past session, or a slice of one.

    `window` holds user and assistant text, already without tool content, private spans, our own injections
    and secrets. `said_at` is when each message of it was first heard, in Unix seconds; () says that all of
    them were when the event was received. Of a message that is too long for one window the first message may
    be the rest, if the window is `begun`, and the last one only the beginning, if it `goes_on`. `roots` are
    those the workspace sees, repo before user, and `identities` which folder each of them was when the event
    was accepted. `agent` is who handed it over, or nothing. Of a `headless` one, which a script said, at most
    explicit requests are kept.
    """

    id: str = msgspec.field(default_factory=new_event_id)
    kind: Kind = "turn"
    session_id: str = ""
    roots: tuple[Root, ...] = ()
    window: tuple[Utterance, ...] = ()
    received_at: str = msgspec.field(default_factory=utc_now)
    said_at: tuple[float, ...] = ()
    begun: bool = False
    goes_on: bool = False
    agent: str = ""
    identities: tuple[str, ...] = ()
    headless: bool = False

    @property
    def stored_roots(self) -> tuple[tuple[Root, str], ...]:
        """Its roots, each with the identity that it had."""
        return tuple(zip(self.roots, self.identities, strict=False))

    @property
    def is_slice(self) -> bool:
        """Whether it is one of several that a capture was too long for."""
        return "-" in self.id

    @property
    def is_durable(self) -> bool:
        return self.kind in DURABLE

    @property
    def times(self) -> tuple[float, ...]:
        """When each message was first heard."""
        return self.said_at or (time_ns(self.received_at) / 1e9,) * len(self.window)

    @property
    def length(self) -> int:
        """Characters of all messages."""
        return sum(len(utterance.text) for utterance in self.window)

    @property
    def size(self) -> int:
        """Estimated bytes in memory and on disk."""
        return 512 + sum(len(utterance.text.encode()) + 64 for utterance in self.window)

    @property
    def tops(self) -> tuple[str, ...]:
        return tuple(root.top for root in self.roots)


class DecidedMemory(msgspec.Struct, frozen=True):
    """A memory that is decided upon, with its id, and the root that it will be written to.

    `why` it was taken up: request, rule, head, model. One that `waits` is not written until a person says so:
    the sentence says why, `pasted` is what was pasted next to it, and `agent` whose session it was. One of a
    past session was `learned_at` a time (Unix seconds): the memory's own are of when it was said. `said` are
    its attributes. `identity` is which folder the root was.
    """

    root: Root
    memory: Memory
    why: str = ""
    waits: str = ""
    pasted: str = ""
    agent: str = ""
    learned_at: float = 0.0
    attributes: FactsPatch = UNCHANGED
    identity: str = ""


Decision = tuple[DecidedMemory, ...]
"""What an event comes to."""


def encoded(value: Event | Decision) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError as error:
        raise StoreError("it contains text that is not Unicode") from error


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that was given up: why, when (UTC), how many bytes its row takes.

    `documents` are what had been decided about it, None if nothing had. Of an event that could not be read
    only the id is known, and its window is empty.
    """

    event: Event
    reason: str
    died_at: str
    bytes: int = 0
    documents: Decision | None = None
