"""Values of capture events: an event, the documents decided for it, and a dead event.

`encoded` makes bytes of the first two, and raises StoreError for text that could not be read back.
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

# Kinds that are on disk before they are acknowledged; a turn is within a second.
DURABLE: frozenset[str] = frozenset({"compaction", "explicit", "session_end", "learned"})

_ID = re.compile(r"ev_[A-Za-z0-9_-]{1,64}")


def new_event_id() -> str:
    """Return a new id; ids sort in the order of acceptance, also across restarts."""
    return f"ev_{time.time_ns():020d}_{secrets.token_hex(4)}"


def is_event_id(text: str) -> bool:
    """Return True if a text has the form of an event id."""
    return _ID.fullmatch(text) is not None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Event of capture with messages, times and roots: a few turns, a compaction, a request, and so on.

    `asked` is the end of the agent's message before the window, which its first message may answer.
    `window` has user and assistant text without tool content, private spans, own injections and secrets.
    `said_at` has the Unix time of each message; () means the time of receipt. If the window is `begun`, its
    first message continues an earlier one; if it `goes_on`, its last message is continued. `roots` are those
    that the workspace sees, repository before user, and `identities` their folders when the event was
    accepted. `agent` is the sender, or "". In a `headless` event, sent by a script, only explicit requests
    are kept.
    """

    id: str = msgspec.field(default_factory=new_event_id)
    kind: Kind = "turn"
    session_id: str = ""
    roots: tuple[Root, ...] = ()
    asked: str = ""
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
        """Return the roots of the event, each with its identity when the event was accepted."""
        return tuple(zip(self.roots, self.identities, strict=False))

    @property
    def is_slice(self) -> bool:
        """Return True for one of several windows of a long capture."""
        return "-" in self.id

    @property
    def is_durable(self) -> bool:
        """Return True if an event of this kind is on disk before it is acknowledged."""
        return self.kind in DURABLE

    @property
    def times(self) -> tuple[float, ...]:
        """Return the Unix time of each message; that of receipt where times are unknown."""
        return self.said_at or (time_ns(self.received_at) / 1e9,) * len(self.window)

    @property
    def length(self) -> int:
        """Return the number of characters of all messages of the event."""
        return sum(len(utterance.text) for utterance in self.window)

    @property
    def size(self) -> int:
        """Return the estimated bytes of the event in memory and on disk."""
        return (
            512
            + len(self.asked.encode())
            + sum(len(utterance.text.encode()) + 64 for utterance in self.window)
        )

    @property
    def tops(self) -> tuple[str, ...]:
        """Return the paths of the roots of the event."""
        return tuple(root.top for root in self.roots)


class DecidedMemory(msgspec.Struct, frozen=True):
    """Memory that capture decided to write into a root, or to propose to a person if it `waits`.

    `why` is request, rule, linear, model or replaces. If it `waits`, a person must accept it first: `waits`
    is the reason, `pasted` the text that was pasted near it, and `agent` the session's agent. One from a past
    session was `learned_at` a Unix time, while the memory's times are those of the statement. `identity` is
    the root's folder.
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

    @property
    def is_question(self) -> bool:
        """Return True if it asks a person if a memory that counts replaces an older one."""
        return self.why == "replaces"


Decision = tuple[DecidedMemory, ...]
"""Documents that were decided for an event."""


def encoded(value: Event | Decision) -> bytes:
    """Return the bytes of an event or of its decided memories. Raises StoreError."""
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError as error:
        raise StoreError("it contains text that is not Unicode") from error


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Dead event that was given up, with reason, UTC time, size, and the memories decided for it.

    `documents` are those decided for it, or None. If the event cannot be read, only its id is known and the
    window is empty.
    """

    event: Event
    reason: str
    died_at: str
    bytes: int = 0
    documents: Decision | None = None
