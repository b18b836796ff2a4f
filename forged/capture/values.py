"""What capture speaks: an event, the heads that go with it, what a classifier proposes, what a worker says.

Values only. Everything that crosses the process boundary is one of these, encoded with msgspec: an object
that cannot be pickled vanishes from a `multiprocessing.Queue` without an error (reliability-anchors.md m5).
"""

from __future__ import annotations

import secrets
import time
from typing import Literal

import msgspec

from forged.config.known_models import BUILTIN_RULES
from forged.conversation import Utterance
from forged.files.roots import Root
from forged.memory import Memory, Related, Scope, Trigger, utc_now

# Of one event, as reliability-anchors.md D5 has them.
MOST_DOCUMENTS = 10
MAX_CONTENT_BYTES = 8 << 10

Kind = Literal["turn", "compaction", "explicit", "session_end"]

# Only a turn's event may be replaced by a newer one; the others are on disk before they are acknowledged.
DURABLE: frozenset[str] = frozenset({"compaction", "explicit", "session_end"})
# What a file says about its origin, in the words of the file format (design.md D2).
TRIGGERS: dict[str, Trigger] = {
    "turn": Trigger.CADENCE,
    "session_end": Trigger.CADENCE,
    "compaction": Trigger.COMPACTION,
    "explicit": Trigger.EXPLICIT,
}


def new_event_id() -> str:
    """An id whose order as text is the order of acceptance, also across restarts; safe as a file name."""
    return f"ev_{time.time_ns():020d}_{secrets.token_hex(4)}"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One finished turn, compaction, explicit request or end of session, as it waits.

    `window` holds user and assistant text since the last summary, already without tool content, private
    spans, our own injections and secrets, the newest whole messages under a size cap. `window_id` names the
    message that the window starts with: a newer window of the same id contains this one. `roots` are those
    the workspace sees, repo before user.
    """

    id: str = msgspec.field(default_factory=new_event_id)
    kind: Kind = "turn"
    session_id: str = ""
    window_id: str = ""
    roots: tuple[Root, ...] = ()
    window: tuple[Utterance, ...] = ()
    received_at: str = msgspec.field(default_factory=utc_now)

    @property
    def is_durable(self) -> bool:
        return self.kind in DURABLE

    @property
    def size(self) -> int:
        """Estimated bytes in memory and in the spool."""
        return 512 + sum(len(utterance.text.encode()) + 64 for utterance in self.window)

    @property
    def tops(self) -> tuple[str, ...]:
        return tuple(root.top for root in self.roots)

    def root_of(self, scope: str) -> Root | None:
        return next((root for root in self.roots if root.scope == scope), None)


class Head(msgspec.Struct, frozen=True):
    """The newest version of an existing memory, as the classifier's prompt lists it (B75)."""

    id: str
    scope: str
    category: str
    version: int
    first_line: str


class Proposal(msgspec.Struct, frozen=True):
    """What a classifier wants to keep, unchecked: every field may hold anything."""

    content: str
    scope: str = Scope.REPO
    category: str = ""
    supersedes: str = ""
    related: tuple[Related, ...] = ()


class Usage(msgspec.Struct, frozen=True):
    """What model calls cost: calls, and tokens as the endpoint counted them or as estimated."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Classified(msgspec.Struct, frozen=True):
    """A classifier's answer. `malformed` counts elements of the reply that were no memory at all."""

    proposals: tuple[Proposal, ...] = ()
    usage: Usage = Usage()
    malformed: int = 0


class Document(msgspec.Struct, frozen=True):
    """A memory that is decided upon, with its id, and the root it goes to; journalled before it is linked."""

    root: Root
    memory: Memory


class Tally(msgspec.Struct, frozen=True):
    """How many proposals were left out, and why, and how many secrets were cut out of the rest."""

    invalid: int = 0
    duplicates: int = 0
    secrets: int = 0


# --- daemon to worker, over the Queue -----------------------------------------------------------------


class Task(msgspec.Struct, frozen=True, tag="task"):
    """One event for the worker. With `event` None only its journal is left: link what it names.

    `attempts` is how many calls the model may be asked at most.
    """

    event_id: str
    event: Event | None = None
    heads: tuple[Head, ...] = ()
    attempts: int = 2


# --- worker to daemon, over the Pipe ------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker is up and waits for a task; `problem` says why it cannot classify, or nothing."""

    pid: int
    problem: str = ""


class Journalled(msgspec.Struct, frozen=True, tag="journalled"):
    """The model has been asked and its documents are on disk beside the event: progress."""

    event_id: str
    usage: Usage = Usage()
    tally: Tally = Tally()


class Linked(msgspec.Struct, frozen=True, tag="linked"):
    """One document is in place, by this task or by an earlier attempt at it: progress."""

    event_id: str
    root: Root
    memory_id: str
    path: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The event is finished and may be removed. `failed` names documents that could not be written."""

    event_id: str
    usage: Usage = Usage()
    tally: Tally = Tally()
    written: int = 0
    failed: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The event is not finished. `reason` is the word of a ProviderError, or one of the worker's own.

    `storage`: a disk is full or broken; `unwritten`: it takes some files and not others; `gone`: no root that
    it would go to exists; `internal`: a bug.
    """

    event_id: str
    reason: str
    message: str
    usage: Usage = Usage()
    retry_after_s: float | None = None


Report = Ready | Journalled | Linked | Done | Failed


class WorkerSettings(msgspec.Struct, frozen=True):
    """All that a worker needs to know, sent to it once. `key` is the key itself: never shown, never logged.

    `spool` is the directory of events and journals, `dead` that of events that were given up, `forgotten`
    the file of texts that must not come back.
    """

    spool: str
    dead: str
    forgotten: str
    classifier: str = BUILTIN_RULES
    base_url: str = ""
    key: str = ""
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        return f"WorkerSettings(classifier={self.classifier!r})"
