"""Messages between the daemon and the capture worker, and the interface of a classifier.

The worker gets one `Classify` at a time and ends it with `Classified` or `TaskFailed`. Meanwhile it may ask
(`AskHeads`, `AskVectors`, `AskRetry`). Everything crosses as msgspec bytes, because an object that cannot be
pickled silently vanishes from a `multiprocessing.Queue`.
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

# Most documents of one event.
MOST_DOCUMENTS = 10
MAX_CONTENT_BYTES = 8 << 10


class KnownMemory(msgspec.Struct, frozen=True):
    """Newest version of an existing memory, as a classifier sees it: labels and first line only."""

    id: str
    scope: str
    category: str
    first_line: str


class Proposal(msgspec.Struct, frozen=True):
    """Proposal of a classifier for a memory, unchecked: every field may hold anything.

    `evidence` has files as PATH, PATH:LINE or PATH:FIRST-LAST. `importance` is from 0 to 1, or unknown. `why`
    is request, rule, linear, answer, model, or empty for an author with one reason. `update_only`: it is kept
    only if it changes a known memory, against a `penalty` in nats. `said` is the text with its lead-in ("No,
    ..."), without words of the agent. `agreed` has the words of the agent in it, which the person accepted;
    `waits` is the reason why the person must accept it again in the review.
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
    agreed: str = ""
    waits: str = ""
    said: str = ""

    @property
    def judged_text(self) -> str:
        """Return the text that is compared with memories: as it was said, or the content."""
        return (self.said or self.content).strip()


class Usage(msgspec.Struct, frozen=True):
    """Cost of model calls: calls, and tokens as counted by the endpoint or estimated."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of this cost and that of further calls."""
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    @property
    def tokens(self) -> int:
        """Return the prompt's and the completion's tokens together."""
        return self.prompt_tokens + self.completion_tokens


class Refused(msgspec.Struct, frozen=True):
    """Statement that is not kept, and the reason; `asked`: the person requested to keep it."""

    text: str
    reason: str
    asked: bool = True


class Classified(msgspec.Struct, frozen=True, tag="classified"):
    """Answer of a classifier about an event: proposals, refused requests and cost; it ends a task.

    `malformed` counts elements that were no memory. `is_answer`: the reply was valid, even if empty. `cut`
    explains why proposals may be missing. `author` wrote the proposals. `refused` are explicit requests.
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
    """Counts of one event: proposals dropped, secrets removed, forgotten texts kept anew; refusals."""

    invalid: int = 0
    duplicates: int = 0
    secrets: int = 0
    said_again: int = 0
    refused: tuple[Refused, ...] = ()


class CallFailed(ProviderError):  # noqa: N818 - named for the event
    """Raised if a classifier's model calls failed; `usage` is the cost of all of them."""

    def __init__(self, error: ProviderError, usage: Usage) -> None:
        super().__init__(
            str(error), reason=error.reason, status=error.status, retry_after_s=error.retry_after_s
        )
        self.usage = usage


class Classifier(Protocol):
    """Interface of classifiers, which propose memories from the conversation window of an event."""

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return proposals of memories for an event; `known` existing memories come nearest first.

        `deadline` is in `time.monotonic()` seconds, for at most `attempts` calls. Raises CallFailed.
        """
        ...


# --- daemon to worker, over the Queue -----------------------------------------------------------------


class Classify(msgspec.Struct, frozen=True, tag="classify"):
    """Task for the worker: classify an event; `known` memories and `attempts` are for a model."""

    event: Event
    known: tuple[KnownMemory, ...] = ()
    attempts: int = 2


class HeadsAnswer(msgspec.Struct, frozen=True, tag="heads_answer"):
    """Answer to AskHeads: current memories whose first line has one of the names."""

    event_id: str
    heads: tuple[KnownMemory, ...] = ()


class VectorsAnswer(msgspec.Struct, frozen=True, tag="vectors_answer"):
    """Answer to AskVectors: a float32 vector for each text, in native byte order, or none."""

    event_id: str
    rows: tuple[bytes, ...] = ()


class RetryAnswer(msgspec.Struct, frozen=True, tag="retry_answer"):
    """Answer to AskRetry: `may` is true if the event is unchanged and may be sent again."""

    event_id: str
    may: bool


Task = Classify | HeadsAnswer | VectorsAnswer | RetryAnswer


# --- worker to daemon, over the Pipe ------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Report: the worker waits for a task; `problem` explains why it cannot classify, or is empty."""

    pid: int
    problem: str = ""


class AskHeads(msgspec.Struct, frozen=True, tag="ask_heads"):
    """The worker's question for current memories with one of `names` in the first line."""

    event_id: str
    names: tuple[str, ...] = ()


class AskVectors(msgspec.Struct, frozen=True, tag="ask_vectors"):
    """The worker's question for the local model's vectors of texts; it waits for VectorsAnswer."""

    event_id: str
    texts: tuple[str, ...] = ()


class AskRetry(msgspec.Struct, frozen=True, tag="ask_retry"):
    """The worker's question if it may send an event to the model again: only an unchanged one."""

    event_id: str


class TaskFailed(msgspec.Struct, frozen=True, tag="failed"):
    """Report: the task failed. `reason` is that of a ProviderError, or one of the worker's own.

    `internal`: a bug. The daemon adds `storage`: a disk is full or broken; `unwritten`: it accepts some files
    and not others; `gone`: no root of the event exists.
    """

    event_id: str
    reason: str
    message: str
    usage: Usage = Usage()
    retry_after_s: float | None = None


class CallSent(msgspec.Struct, frozen=True, tag="call_sent"):
    """Report of one model call as it is sent, for the egress log; the worker may be killed later."""

    record: EgressRecord


Report = Ready | CallSent | AskHeads | AskVectors | AskRetry | Classified | TaskFailed


class WorkerSettings(msgspec.Struct, frozen=True):
    """Settings of a worker (model, network, log), sent once; `key` is a secret, never shown or logged.

    Without a `classifier` the built-in rules decide. `proxy` and `plain_http_hosts` are those of `[network]`.
    A `program` replaces an endpoint; each of its calls has a folder in `scratch`. `has_vectors`: the daemon
    may have vectors of texts.
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
