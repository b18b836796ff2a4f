"""Values that the daemon and the capture worker exchange, and the interface of a classifier.

The worker gets one `Classify` at a time, and ends it with `Classified` or `TaskFailed`; before that it may
ask (`AskHeads`, `AskVectors`, `AskRetry`). All that crosses is msgspec bytes: an object that cannot be
pickled vanishes from a `multiprocessing.Queue` without an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from forged.counters import EgressRecord
from forged.errors import ProviderError
from forged.log import LogSettings
from forged.memory import Entity, EntityRelation, Origin, Related, Scope
from forged.program import Program
from forged.state import Event

# Of one event.
MOST_DOCUMENTS = 10
MAX_CONTENT_BYTES = 8 << 10


class KnownMemory(msgspec.Struct, frozen=True):
    """The newest version of an existing memory, as a classifier is told of it."""

    id: str
    scope: str
    category: str
    first_line: str


class Proposal(msgspec.Struct, frozen=True):
    """A memory to keep, unchecked: every field may hold anything.

    `evidence` are files as PATH, PATH:LINE or PATH:FIRST-LAST; `importance` is from 0 to 1, or unknown. `why`
    is request, rule, head, model, or empty for an author with one reason. What `update_only` is not sure to
    be worth keeping, unless it changes what is known: `penalty` nats must speak for that.
    """

    content: str
    scope: str = Scope.REPO
    category: str = ""
    supersedes: str = ""
    related: tuple[Related, ...] = ()
    cues: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[EntityRelation, ...] = ()
    importance: float | None = None
    source: str = ""
    why: str = ""
    update_only: bool = False
    penalty: float = 0.0


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


class Refused(msgspec.Struct, frozen=True):
    """What is not kept, in the person's words, and why, as a sentence; `asked`: it was to be kept."""

    text: str
    reason: str
    asked: bool = True


class Classified(msgspec.Struct, frozen=True, tag="classified"):
    """A classifier's answer about an event, which is mostly nothing: the last report about a task.

    `malformed` counts elements that were no memory; `is_answer`: it says what to keep, be it nothing. `cut`
    is a sentence why there may have been more. `author` has written the proposals. `refused` are explicit
    requests.
    """

    proposals: tuple[Proposal, ...] = ()
    usage: Usage = Usage()
    malformed: int = 0
    is_answer: bool = True
    cut: str = ""
    author: Origin = Origin.MODEL
    refused: tuple[Refused, ...] = ()
    event_id: str = ""


class Tally(msgspec.Struct, frozen=True):
    """Counts of proposals left out, secrets cut out, and forgotten texts kept as they were `said_again`."""

    invalid: int = 0
    duplicates: int = 0
    secrets: int = 0
    said_again: int = 0
    refused: tuple[Refused, ...] = ()


class CallFailed(ProviderError):  # noqa: N818 - reads as what happened
    """A classifier's calls came to nothing; `usage` is what they cost all the same."""

    def __init__(self, error: ProviderError, usage: Usage) -> None:
        super().__init__(
            str(error), reason=error.reason, status=error.status, retry_after_s=error.retry_after_s
        )
        self.usage = usage


class Classifier(Protocol):
    """Window to proposals."""

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return what to keep; `known` memories come nearest first.

        `deadline` is `time.monotonic()` seconds over all of at most `attempts` calls. Raises CallFailed.
        """
        ...


# --- daemon to worker, over the Queue -----------------------------------------------------------------


class Classify(msgspec.Struct, frozen=True, tag="classify"):
    """Find out what an event comes to; `known` memories and at most so many `attempts` are for a model."""

    event: Event
    known: tuple[KnownMemory, ...] = ()
    attempts: int = 2


class HeadsAnswer(msgspec.Struct, frozen=True, tag="heads_answer"):
    """The answer to Asked: the newest versions of memories whose first line names one of the things."""

    event_id: str
    heads: tuple[KnownMemory, ...] = ()


class VectorsAnswer(msgspec.Struct, frozen=True, tag="vectors_answer"):
    """The answer to AskedVectors: a row of float32 for each text, in the machine's byte order, or none."""

    event_id: str
    rows: tuple[bytes, ...] = ()


class RetryAnswer(msgspec.Struct, frozen=True, tag="retry_answer"):
    """The answer to AskedAgain: whether the event is still as the worker has it."""

    event_id: str
    may: bool


Task = Classify | HeadsAnswer | VectorsAnswer | RetryAnswer


# --- worker to daemon, over the Pipe ------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker is up and waits for a task; `problem` says why it cannot classify, or nothing."""

    pid: int
    problem: str = ""


class AskHeads(msgspec.Struct, frozen=True, tag="ask_heads"):
    """Which memories name one of these things? The worker waits for Heads."""

    event_id: str
    names: tuple[str, ...] = ()


class AskVectors(msgspec.Struct, frozen=True, tag="ask_vectors"):
    """What does the local model make of these texts? The worker waits for StatementVectors."""

    event_id: str
    texts: tuple[str, ...] = ()


class AskRetry(msgspec.Struct, frozen=True, tag="ask_retry"):
    """May the model be asked about the event once more? Something of it may be forgotten by now."""

    event_id: str


class TaskFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The task is not finished. `reason` is the word of a ProviderError, or one of the worker's own.

    `internal`: a bug. The daemon's own are `storage`: a disk is full or broken; `unwritten`: it takes some
    files and not others; `gone`: no root that they would go to exists.
    """

    event_id: str
    reason: str
    message: str
    usage: Usage = Usage()
    retry_after_s: float | None = None


class CallSent(msgspec.Struct, frozen=True, tag="call_sent"):
    """Something to count of a model call, told as it happens: a worker may be killed in the middle of it."""

    record: EgressRecord


Report = Ready | CallSent | AskHeads | AskVectors | AskRetry | Classified | TaskFailed


class WorkerSettings(msgspec.Struct, frozen=True):
    """All that a worker needs to know, sent to it once. `key` is the key itself: never shown or logged.

    Without a `classifier` the built-in rules decide. `proxy` and `plain_http_hosts` are of `[network]`. A
    `program` replaces an endpoint, and each of its calls has a folder in `scratch`. `has_vectors`: the daemon
    may have rows of texts.
    """

    classifier: str = ""
    base_url: str = ""
    key: str = ""
    timeout_s: float = 60.0
    proxy: str = ""
    plain_http_hosts: str = ""
    log: LogSettings = LogSettings()
    program: Program = Program()
    scratch: str = ""
    has_vectors: bool = True

    def __repr__(self) -> str:
        return f"WorkerSettings(classifier={self.classifier!r})"
