"""The wire contract, whole: every request and every reply, as frozen tagged structs.

A frame is a 4-byte big-endian length and one msgpack map. The map's `type` names the struct and `id` ties
a reply to its request; replies may come out of order. The first request of a connection is `hello`. Each
request names the type of its reply; instead of that reply `failed` may come, also for an unknown verb.
Unknown fields are ignored, so either side may be newer.

Every reply carries `status` (ok, empty, not_ready, disabled, timeout, error, or unavailable when the
client could not reach the daemon) and a `reason`: an agent goes on without memories, a person can see why.
"""

# ruff: noqa: PLC0414 - an alias of the same name says that it may be imported from here

from __future__ import annotations

from typing import ClassVar

import msgspec

from forged_client.envelope import MAX_REQUEST_BYTES as MAX_REQUEST_BYTES
from forged_client.envelope import R as R
from forged_client.envelope import Reply as Reply
from forged_client.envelope import Request as Request
from forged_client.judged import Judged as Judged
from forged_client.judged import JudgedPage as JudgedPage
from forged_client.judged import ListJudged as ListJudged
from forged_client.proposed import Proposed as Proposed

PROTOCOL_VERSION = 1

MAX_CAPTURE_BYTES = 2 << 20
MAX_REPLY_BYTES = 4 << 20

# Characters. The end of a message that goes on in the next part of a capture stands there once more: what a
# cut goes through, a secret or a sentence, stands whole in one of the two.
CONTINUED_OVERLAP = 48_000

# Error codes of `Failed`; the message beside it is a sentence for a person.
CODES = (
    "invalid",
    "unknown_verb",
    "hello_required",
    "protocol_mismatch",
    "frame_too_large",
    "busy",
    "configuration",
    "not_found",
    "conflict",
    "not_permitted",
    "storage_error",
    "internal",
    "secret",
)


# --- shared values -----------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a message's content; only parts of a text type are read, and no `thought`."""

    type: str = "text"
    text: str = ""
    thought: bool = False


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation in OpenAI or Anthropic form; other fields are ignored.

    In Gemini's form the role of an assistant is `model`, and its text stands in `parts`.
    """

    role: str
    content: str | tuple[Part, ...] | None = None
    parts: tuple[Part, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """A link from one memory to another."""

    id: str
    relationship: str = "relates-to"


class Version(msgspec.Struct, frozen=True):
    """An older version of a memory, as it is listed under its head."""

    id: str
    version: int
    created_at: str
    first_line: str


class MemoryRecord(msgspec.Struct, frozen=True):
    """One memory with all its fields; times are RFC 3339 text as in the file.

    `origin` says where its text came from: typed, explicit, model, agent, import, or file if nobody knows.
    `redacted` are the secrets that its file holds and that are not in `content`, by name. `rivals` are newest
    versions that stand beside this one: neither replaces the other, as both were made elsewhere. `cues` are
    lines that say when it should come back, `evidence` the files that it stands on, as PATH, PATH:LINE or
    PATH:FIRST-LAST; `stale` are those of them that changed or went since.
    """

    id: str
    scope: str
    category: str
    version: int
    content: str
    created_at: str
    updated_at: str
    session_id: str
    trigger: str
    root: str
    supersedes: str | None = None
    related: tuple[Edge, ...] = ()
    is_head: bool = True
    origin: str = ""
    redacted: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True):
    """One memory of a retrieval. `score` orders; `cosine` is there when the dense leg answered.

    An id is of its `root`: a repository may have one that the user's own memories have, too. `rivals` stand
    beside it: neither replaces the other. `via`: search, hop, standing (it came with the session and without
    a search), heard (an earlier turn brought it), correction (it replaces one that the session has heard).
    `came` is why it was let in: strong, near, weak, hop, standing. `stale` names files that it stands
    on and that changed since.
    """

    id: str
    scope: str
    category: str
    version: int
    content: str
    created_at: str
    score: float
    cosine: float | None = None
    lexical: float | None = None
    via: str = "search"
    older: tuple[Version, ...] = ()
    root: str = ""
    rivals: tuple[Version, ...] = ()
    came: str = ""
    stale: tuple[str, ...] = ()


class Stayed(msgspec.Struct, frozen=True):
    """A memory near the top that stayed out.

    `why`: faint (too little speaks for it), far (too little beside the best), full (others came before it).
    `evidence` is in standard deviations above what everyday messages reach, None without a yardstick.
    """

    id: str
    root: str
    first_line: str
    why: str
    evidence: float | None = None


# --- replies -----------------------------------------------------------------------------------------


class Failed(Reply, frozen=True, tag="failed"):
    """The request was not carried out; `code` is one of CODES."""

    code: str = "internal"
    message: str = ""


class Welcome(Reply, frozen=True, tag="welcome"):
    protocol: int = PROTOCOL_VERSION
    version: str = ""
    pid: int = 0
    epoch: str = ""


class Pong(Reply, frozen=True, tag="pong"):
    pass


class FileProblem(msgspec.Struct, frozen=True):
    """A file that is not indexed, or only in part, and why."""

    path: str
    reason: str


class RootReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of one root. `state`: loading, building, ready, failed, or paused (no text may leave).

    Of `cut` memories only the beginning was embedded, as the model takes no more; `cut_ids` names some.
    `withheld` counts files that are not used until a person says so; `notice` is the sentence about them,
    with the command that mends it. `trust` is the state of a `RootTrust`, of a trusted root its mode.
    `redacted` counts memories that are shown without a secret in their file; `redacted_ids` names some.
    `forks` counts memories with more than one newest version; `fork_ids` names some.
    While texts are embedded, `rate` is how many a second, of all roots, and `left_s` how long this root's
    take if nobody asks for another; None while that is not known. `stale` counts memories that stand on files
    which changed or went since.
    """

    root: str
    scope: str
    state: str
    memories: int = 0
    generation: str = ""
    legs: tuple[str, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    quarantined: int = 0
    embedded: int = 0
    to_embed: int = 0
    build_ms: float = 0.0
    built_age_s: float = 0.0
    last_error: str = ""
    watch: str = ""
    watches: int = 0
    cut: int = 0
    cut_ids: tuple[str, ...] = ()
    withheld: int = 0
    trust: str = ""
    notice: str = ""
    redacted: int = 0
    redacted_ids: tuple[str, ...] = ()
    forks: int = 0
    fork_ids: tuple[str, ...] = ()
    rate: float = 0.0
    left_s: float | None = None
    stale: int = 0


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of capture. `state`: idle, busy, waiting, failing, paused, off; `reason` says why.

    `turns` events of turns wait; of any kind `spooled` are on disk (`spool_bytes`) and `dead` were given up.
    Counts are since the daemon started, `tokens_today` (of `token_limit`, 0: none) since midnight UTC.
    `to_review` is how many proposals wait for a person, of every root.
    `last_success` is a UTC time; ages are seconds. `finished` counts events that were classified, `memories`
    files written, `said_again` those of them that were forgotten once and kept because they were said since.
    """

    state: str = "off"
    reason: str = ""
    classifier: str = ""
    worker_pid: int = 0
    worker_restarts: int = 0
    turns: int = 0
    spooled: int = 0
    spool_bytes: int = 0
    in_hand: str = ""
    in_hand_age_s: float = 0.0
    last_success: str = ""
    last_error: str = ""
    finished: int = 0
    memories: int = 0
    accepted: int = 0
    coalesced: int = 0
    durable: int = 0
    rejected: int = 0
    replaced: int = 0
    duplicates: int = 0
    invalid: int = 0
    redacted: int = 0
    failures: int = 0
    dead: int = 0
    tokens_today: int = 0
    token_limit: int = 0
    paused: tuple[str, ...] = ()
    said_again: int = 0
    to_review: int = 0


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether anything is injected. `state`: off, words, learning, vectors, failing.

    `off`: all that is found is injected, and `reason` says why.
    `learning` and `failing` (then `reason` says why): with a model whose answers to everyday messages are not
    known yet, so that words decide.
    """

    state: str = ""
    reason: str = ""


class EndpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """A model at an endpoint, and how it fares. `state`: untried, ok, slow, failing.

    `uses` says what it is asked for. Ages are seconds, None where there was nothing; `next_s` is when it is
    asked again where it is skipped. `reason` is the word of the last failure, `message` its sentence.
    """

    host: str
    model: str
    uses: tuple[str, ...] = ()
    state: str = "untried"
    last_success_s: float | None = None
    failing_s: float | None = None
    reason: str = ""
    message: str = ""
    next_s: float | None = None


class SettingReport(msgspec.Struct, frozen=True):
    """A key of the configuration with the value that is in use, secrets masked, and where it came from."""

    key: str
    value: str
    origin: str


class StatusReport(Reply, frozen=True, tag="status_report"):
    """The daemon's health. `state`: ok, degraded, disabled. `engine` is what runs a model in its process."""

    state: str = "ok"
    version: str = ""
    pid: int = 0
    epoch: str = ""
    uptime_s: float = 0.0
    socket: str = ""
    strategy: str = ""
    embedding_model: str = ""
    retrieval_model: str = ""
    roots: tuple[RootReport, ...] = ()
    connections: int = 0
    counters: dict[str, int] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    capture: CaptureReport = CaptureReport()
    gate: GateReport = GateReport()
    settings: tuple[SettingReport, ...] = ()
    endpoints: tuple[EndpointReport, ...] = ()
    engine: str = ""


class Retrieved(Reply, frozen=True, tag="retrieved"):
    """`text` is the injection: empty unless status is ok (and not `unchanged`).

    `partial` says why it rests on fewer hypotheses than the model was about to write, or nothing.
    `notice` is a sentence for the person and never for the model: what is withheld here, and the one command
    that mends it. A session gets it once for each root, a request without a session each time.
    `memories` are those that stand in the text; the first `heard` of them the session had heard before.
    `captured` are sentences for the person: what of this session was kept or refused since the last reply,
    and how to take it back.
    """

    text: str = ""
    memories: tuple[Hit, ...] = ()
    included: int = 0
    omitted: int = 0
    digest: str = ""
    unchanged: bool = False
    strategy: str = ""
    legs: tuple[str, ...] = ()
    generation: str = ""
    cached: bool = False
    elapsed_ms: float = 0.0
    partial: str = ""
    notice: str = ""
    heard: int = 0
    captured: tuple[str, ...] = ()


class Found(Reply, frozen=True, tag="found"):
    """`notice` is a sentence for the person about what is withheld."""

    memories: tuple[Hit, ...] = ()
    legs: tuple[str, ...] = ()
    generation: str = ""
    elapsed_ms: float = 0.0
    notice: str = ""


class Explained(Reply, frozen=True, tag="explained"):
    """One ledger entry: what was asked, what was found, what was cut.

    `omitted_ids` did not fit the budget; `stayed` were near the top and stayed out, `far_ids` are their ids,
    and they are no part of `memories`. `partial` says why a model's hypotheses are fewer than it was about to
    write, or nothing. `notice` is a sentence for the person about what is withheld.
    """

    session_id: str = ""
    turn_id: str = ""
    at: str = ""
    strategy: str = ""
    legs: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    memories: tuple[Hit, ...] = ()
    included: int = 0
    omitted_ids: tuple[str, ...] = ()
    far_ids: tuple[str, ...] = ()
    generation: str = ""
    elapsed_ms: float = 0.0
    partial: str = ""
    notice: str = ""
    stayed: tuple[Stayed, ...] = ()


class Remembered(Reply, frozen=True, tag="remembered"):
    """`replaced` is the id of the version that this one replaces; `base_moved`: not the one that was named.

    `existed`: the same text was there, so nothing was written; `memory_id` is the one that is there.
    """

    memory_id: str = ""
    version: int = 0
    path: str = ""
    generation: str = ""
    replaced: str = ""
    base_moved: bool = False
    existed: bool = False
    scope: str = ""
    category: str = ""


class Captured(Reply, frozen=True, tag="captured"):
    """`outcome`: accepted, coalesced, durable, rejected (then `reason` says why).

    `durable` means all parts and all of them on disk; a part that is kept while others are missing is
    `accepted`. `slices` is in how many pieces the text is judged, `unread` how many messages held something
    that is no text, such as an image.
    """

    outcome: str = "rejected"
    slices: int = 0
    unread: int = 0

    @property
    def is_taken(self) -> bool:
        """Whether the daemon has what was sent."""
        return self.status == "ok" and self.outcome != "rejected"


class Memories(Reply, frozen=True, tag="memories"):
    """`notice` is a sentence for the person about what is withheld."""

    memories: tuple[MemoryRecord, ...] = ()
    total: int = 0
    missing: tuple[str, ...] = ()
    generation: str = ""
    notice: str = ""


class Chain(Reply, frozen=True, tag="chain"):
    """Oldest first. `flags` names what is odd: fork, cycle, missing:<id>."""

    memories: tuple[MemoryRecord, ...] = ()
    flags: tuple[str, ...] = ()
    generation: str = ""


class Forgotten(Reply, frozen=True, tag="forgotten"):
    """Receipt: ids taken away, where they went, and what forged cannot reach.

    `cut_sentences` is how many sentences with that text were taken out of `cut_events` events that waited to
    be judged or were given up; what else was said in them stays.
    """

    ids: tuple[str, ...] = ()
    trash: str = ""
    unreachable: tuple[str, ...] = ()
    generation: str = ""
    cut_sentences: int = 0
    cut_events: int = 0


class Undone(Reply, frozen=True, tag="undone"):
    """The batch that was (or with `preview` would be) taken back; nothing to take back is `empty`."""

    memories: tuple[MemoryRecord, ...] = ()
    trash: str = ""
    generation: str = ""


class Paused(Reply, frozen=True, tag="paused"):
    """What is paused now: `*` for everything, else the tops of repos."""

    paused: tuple[str, ...] = ()


class DeadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A capture event that was given up; `text` (its window, redacted) only when it is shown."""

    id: str
    kind: str = ""
    session_id: str = ""
    root: str = ""
    received_at: str = ""
    died_at: str = ""
    reason: str = ""
    bytes: int = 0
    text: str = ""


class DeadEvents(Reply, frozen=True, tag="dead_events"):
    """What the action was about; `missing` are ids that are not (or no longer) dead."""

    events: tuple[DeadEvent, ...] = ()
    missing: tuple[str, ...] = ()


class DayCost(msgspec.Struct, frozen=True):
    """One day (UTC) and purpose (`hyde`, `capture`, `query`, ...); `failed` calls are among `calls`.

    `said_tokens` are those among the prompt tokens that a conversation takes, beside instructions and lists.
    """

    day: str
    purpose: str
    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    said_tokens: int = 0


class Costs(Reply, frozen=True, tag="costs"):
    """`token_limit` 0 is none; `resets_at` is when today's count starts anew (UTC)."""

    days: tuple[DayCost, ...] = ()
    tokens_today: int = 0
    token_limit: int = 0
    calls_per_minute: int = 0
    resets_at: str = ""


RELOADING = "the configuration has changed; the daemon starts over with it"
"""Reason of a `Rebuilt` that did nothing yet: ask again, the same daemon will answer in a moment."""


class Rebuilt(Reply, frozen=True, tag="rebuilt"):
    """`status` ok when done, not_ready when it goes on in the background or the daemon is `RELOADING`."""

    generation: str = ""
    roots: tuple[RootReport, ...] = ()


class Progress(Reply, frozen=True, tag="progress"):
    """One event: `event` is scanning, embedding, swapped or failed.

    Of an embedding, `rate` is how many texts a second are embedded, of all roots, and `left_s` how long what
    is left of this one takes; None while that is not known.
    """

    event: str = ""
    root: str = ""
    done: int = 0
    total: int = 0
    generation: str = ""
    rate: float = 0.0
    left_s: float | None = None


class WithheldFile(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file of a repository that is not used.

    `sha256` is of its bytes, `why` it is withheld, `effect` what it would do if it were accepted: replace, be
    linked, or stand by itself. `text` (its memory) comes as far as the reply has room.
    """

    id: str
    path: str
    sha256: str
    why: str = ""
    effect: str = ""
    category: str = ""
    created_at: str = ""
    bytes: int = 0
    text: str = ""


class RootTrust(msgspec.Struct, frozen=True, kw_only=True):
    """How a root stands. `state`: unknown (never asked about), own (nothing foreign ever was there), trusted.

    `accepted` and `withheld` count its memories; `shown` stands for exactly those that are withheld, and a
    `Trust` that names it does nothing if they have changed. `sample` are a few of them.
    """

    root: str
    state: str = "unknown"
    mode: str = ""
    branch: str = ""
    trusted_at: str = ""
    accepted: int = 0
    withheld: int = 0
    shown: str = ""
    sample: tuple[WithheldFile, ...] = ()
    reason: str = ""


class Trusted(Reply, frozen=True, tag="trusted"):
    """The roots that an action was about, as they stand now."""

    roots: tuple[RootTrust, ...] = ()


class Reviewed(Reply, frozen=True, tag="reviewed"):
    """What is withheld of a root (still, after something was accepted), and the ids that were accepted.

    `waiting` is what capture proposes and a person has to decide about, of the repository and of the user;
    `elsewhere` names the roots in which more of it waits. `kept` and `dropped` are ids of what was asked for.
    """

    root: RootTrust | None = None
    files: tuple[WithheldFile, ...] = ()
    accepted: tuple[str, ...] = ()
    waiting: tuple[Proposed, ...] = ()
    elsewhere: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What one call to a model came to; `message` says why to nothing."""

    host: str
    model: str
    uses: tuple[str, ...] = ()
    ok: bool = False
    took_ms: float = 0.0
    reason: str = ""
    message: str = ""


class Tried(Reply, frozen=True, tag="tried"):
    """One trial for each model that is asked at an endpoint."""

    trials: tuple[Trial, ...] = ()


# --- requests ----------------------------------------------------------------------------------------


class Hello(Request[Welcome], frozen=True, tag="hello"):
    protocol_min: int = PROTOCOL_VERSION
    protocol_max: int = PROTOCOL_VERSION
    client: str = ""
    version: str = ""
    pid: int = 0


class Ping(Request[Pong], frozen=True, tag="ping"):
    pass


class Status(Request[StatusReport], frozen=True, tag="status"):
    """What the daemon is doing; with a workspace, also about its roots (which are loaded by it)."""

    workspace: str = ""


class Retrieve(Request[Retrieved], frozen=True, tag="retrieve"):
    """The memories for one turn, as a text block for the prompt.

    `last_summary_index` is the index of the first message after the last summary. Caller-supplied
    `hypotheses` replace the model call. `known_digest` is the digest of the block the caller already has:
    when it is still right the reply says `unchanged` and leaves the text out.

    A session, told by `session_id` and `agent`, hears a memory once. `mode`: `block` for an agent that builds
    its prompt anew each turn, whose reply has all that the session has heard and then what is new; `append`
    for one that adds to what stands, whose reply has only what is new; `plain` marks nothing as heard and is
    answered as if there were no session.
    """

    bypassable: ClassVar[bool] = True

    workspace: str
    session_id: str = ""
    turn_id: str = ""
    messages: tuple[Message, ...] = ()
    last_summary_index: int = 0
    hypotheses: tuple[str, ...] = ()
    token_budget: int | None = None
    timeout_s: float | None = None
    min_generation: str = ""
    known_digest: str = ""
    mode: str = "block"
    agent: str = ""


class Search(Request[Found], frozen=True, tag="search"):
    """Ranked memories for a query text, without injection and without the turn cache.

    `rated`: a hit's `came` says what speaks for it: strong, near or weak; nothing where that is not known.
    """

    bypassable: ClassVar[bool] = True

    workspace: str
    query: str
    limit: int = 10
    min_generation: str = ""
    rated: bool = False


class Why(Request[Explained], frozen=True, tag="why"):
    """Explain the last injection of a session, or (with `query`) what a retrieval would do now."""

    bypassable: ClassVar[bool] = True

    workspace: str = ""
    session_id: str = ""
    query: str = ""


class Remember(Request[Remembered], frozen=True, tag="remember"):
    """Write one memory durably; the reply comes after fsync.

    What is left out of `scope` and `category` is that of the memory it supersedes; of a new one the scope is
    repo, and the category `project-conventions` there and `user-facts` for the user. Links of what it
    supersedes are kept, and `related` added. A text with a secret is refused with the code `secret`, unless
    `allow_secret`. `origin`: `agent`, or `explicit` where a person gave the text. A request with a `key` may
    be sent twice, and is carried out once. `cues`: up to five short lines that say when it should come back;
    `evidence`: files of the repository that it stands on, as PATH, PATH:LINE or PATH:FIRST-LAST. Cues that
    are left out are those of the memory it supersedes.
    """

    repeatable: ClassVar[bool] = False
    bypassable: ClassVar[bool] = True

    workspace: str
    content: str
    scope: str = ""
    category: str = ""
    supersedes: str = ""
    related: tuple[Edge, ...] = ()
    session_id: str = ""
    allow_secret: bool = False
    origin: str = "agent"
    key: str = ""
    cues: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class Capture(Request[Captured], frozen=True, tag="capture"):
    """A finished turn, for the capture worker. `kind`: turn, compaction, explicit, session_end.

    `agent` is who hands it over, as in `Retrieve`.

    `messages` is the whole window: what of it the session has said before is known, and only the rest is
    judged (of a compaction and an explicit request all is). `window_id` says nothing any more.

    A window that one frame cannot hold comes in `parts`, numbered from 0 by `part`, in any order, all under
    one `event_id` that the client makes (letters, digits, `_` and `-`, at most 64). With such an id a capture
    may be sent again, in whole or in part, also after its reply got lost: what is done is answered and not
    done twice. A message that is longer than a part is sent as several: the last message of a part that
    `goes_on` is continued by the first message of the next one, which is `begun` and has the same role. Its
    text begins there with the last CONTINUED_OVERLAP characters that were sent of it. `last_summary_index`
    counts within the part.
    """

    limit_bytes: ClassVar[int] = MAX_CAPTURE_BYTES
    bypassable: ClassVar[bool] = True

    workspace: str
    session_id: str
    kind: str = "turn"
    messages: tuple[Message, ...] = ()
    last_summary_index: int = 0
    window_id: str = ""
    event_id: str = ""
    part: int = 0
    parts: int = 1
    begun: bool = False
    goes_on: bool = False
    agent: str = ""


class GetMemories(Request[Memories], frozen=True, tag="get"):
    """Memories by id. `scope` "" is both: an id that repository and user have comes twice."""

    workspace: str
    ids: tuple[str, ...] = ()
    min_generation: str = ""
    scope: str = ""


class ListMemories(Request[Memories], frozen=True, tag="list"):
    """Memories of the workspace, newest first; heads only unless `all_versions`. `scope` "" is both.

    `stale`: only those that stand on files which changed or went since. `since` is a time (RFC 3339) of their
    making, `session_id` how a session's id begins, `origin` one of a MemoryRecord's; all hold together.
    `all_repos`: of every repository that the daemon has seen, whatever the workspace; what is withheld in one
    is left out here, too.
    """

    workspace: str
    scope: str = ""
    category: str = ""
    all_versions: bool = False
    limit: int = 100
    offset: int = 0
    min_generation: str = ""
    stale: bool = False
    since: str = ""
    session_id: str = ""
    origin: str = ""
    all_repos: bool = False


class History(Request[Chain], frozen=True, tag="history"):
    """The version chain that a memory belongs to, oldest first; `scope` for an id that two roots have."""

    workspace: str
    memory_id: str
    min_generation: str = ""
    scope: str = ""


class Forget(Request[Forgotten], frozen=True, tag="forget"):
    """Take a memory's whole chain away (or one version), into a 7-day trash unless `erase_now`.

    What replaced a single version then replaces what that one had replaced. An id that repository and user
    have is refused without its `scope`. With a `key` it may be sent twice.
    """

    repeatable: ClassVar[bool] = False

    workspace: str
    memory_id: str
    version_only: bool = False
    erase_now: bool = False
    scope: str = ""
    key: str = ""


class Undo(Request[Undone], frozen=True, tag="undo"):
    """Take back the newest batch of captured memories that the workspace sees; `session_id` "" is any.

    With `preview` nothing is taken: the reply says what would be. With `ids` it is taken only if it is still
    just these memories.
    """

    repeatable: ClassVar[bool] = False

    workspace: str
    session_id: str = ""
    preview: bool = False
    ids: tuple[str, ...] = ()


class Pause(Request[Paused], frozen=True, tag="pause"):
    """Stop (or with `paused` false resume) capture and injection: of the workspace's repo, or everywhere."""

    workspace: str = ""
    everywhere: bool = False
    paused: bool = True


class Dead(Request[DeadEvents], frozen=True, tag="dead"):
    """Capture events that were given up. `action`: list, show, retry, drop; no `ids` means all."""

    repeatable: ClassVar[bool] = False

    action: str = "list"
    ids: tuple[str, ...] = ()


class Cost(Request[Costs], frozen=True, tag="cost"):
    """What model calls have cost, by day and purpose, newest day first."""

    days: int = 7


class Rebuild(Request[Rebuilt], frozen=True, tag="rebuild"):
    """Rescan the roots of a workspace; `full` also drops reused vectors; `wait` answers when it is done."""

    workspace: str
    full: bool = False
    wait: bool = False


class Events(Request[Progress], frozen=True, tag="events"):
    """Stream `progress` replies with this request's id until the connection closes."""

    workspace: str = ""


class Trust(Request[Trusted], frozen=True, tag="trust"):
    """Say whether the memories that lie in a repository may be used.

    `action`: show (the workspace's root), trust, revoke, under (every root with memories below the directory
    `workspace`), list (every root that was ever seen). `mode` is follow or pin, "" what the configuration
    says. With `shown`, of a `RootTrust`, a root is trusted only if just that is still withheld.
    """

    workspace: str = ""
    action: str = "show"
    mode: str = ""
    shown: str = ""


class Review(Request[Reviewed], frozen=True, tag="review"):
    """List what is withheld of the workspace's root, and accept some of it.

    `accept` are ids, or beginnings (from eight characters) of SHA-256 sums; `everything` accepts all that is
    there now, with `shown` only if it is just that. `keep` and `drop` are ids of what waits for a person, or
    beginnings of them; what is kept becomes a typed memory, one of them in the words of `text` if that is
    given. A text with a secret is refused with the code `secret`, unless `allow_secret`.
    """

    workspace: str
    accept: tuple[str, ...] = ()
    everything: bool = False
    shown: str = ""
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: str = ""
    allow_secret: bool = False


class Try(Request[Tried], frozen=True, tag="try"):
    """Make one real call to each model that is asked at an endpoint."""


class DayOutbound(msgspec.Struct, frozen=True):
    """One day (UTC), host and purpose; `failed` calls are among `calls`. Characters are of the `texts`."""

    day: str
    host: str
    purpose: str
    calls: int = 0
    failed: int = 0
    texts: int = 0
    characters: int = 0


class Departed(Reply, frozen=True, tag="departed"):
    """What left for endpoints, newest day first."""

    days: tuple[DayOutbound, ...] = ()


class Outbound(Request[Departed], frozen=True, tag="outbound"):
    """What left the machine, by day, host and purpose: counts and never text."""

    days: int = 7


# --- what a person does to a memory --------------------------------------------------------------------


class Moved(Reply, frozen=True, tag="moved"):
    """The memory in its new scope, and the `ids` of the versions that went to the trash for it.

    `unlinked` counts links that lead nowhere there and stayed behind.
    """

    memory_id: str = ""
    path: str = ""
    generation: str = ""
    scope: str = ""
    category: str = ""
    ids: tuple[str, ...] = ()
    trash: str = ""
    unlinked: int = 0


class Trashed(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of one memory that were taken away together and can be restored until `until`.

    `id` is that of the newest, `ids` are all of them, oldest first; times are RFC 3339. `why`: forget, undo,
    move.
    """

    id: str
    ids: tuple[str, ...] = ()
    scope: str = ""
    root: str = ""
    why: str = ""
    taken_at: str = ""
    until: str = ""
    first_line: str = ""


class Restored(Reply, frozen=True, tag="restored"):
    """What came back, oldest first; for a request without an id what could come back, newest first."""

    memories: tuple[MemoryRecord, ...] = ()
    restorable: tuple[Trashed, ...] = ()
    generation: str = ""


class Edit(Request[Remembered], frozen=True, tag="edit"):
    """Write a new version of a memory: another text, category, cues or evidence; the rest stays.

    `content`, `cues` and `evidence` None keep what is there; with another text, what it stands on is looked
    at anew. `base` is the id (or the number) of the version that the text was made from: if another one is
    the newest by now, nothing is written and the code is `conflict`. With a `key` it may be sent twice.
    """

    repeatable: ClassVar[bool] = False
    bypassable: ClassVar[bool] = True

    workspace: str
    memory_id: str
    content: str | None = None
    category: str = ""
    base: str = ""
    scope: str = ""
    session_id: str = ""
    allow_secret: bool = False
    origin: str = "agent"
    key: str = ""
    cues: tuple[str, ...] | None = None
    evidence: tuple[str, ...] | None = None


class Relate(Request[Remembered], frozen=True, tag="relate"):
    """Write a new version with other links: `related` are added, `remove` are ids of links to take away.

    A link that is there with another relationship gets this one. With a `key` it may be sent twice.
    """

    repeatable: ClassVar[bool] = False

    workspace: str
    memory_id: str
    related: tuple[Edge, ...] = ()
    remove: tuple[str, ...] = ()
    scope: str = ""
    allow_secret: bool = False
    key: str = ""


class Move(Request[Moved], frozen=True, tag="move"):
    """Write a memory in the other scope, `to` repo or user, and take it away where it was, into the trash.

    `scope` is where it is, for an id that both have. With a `key` it may be sent twice.
    """

    repeatable: ClassVar[bool] = False

    workspace: str
    memory_id: str
    to: str
    scope: str = ""
    allow_secret: bool = False
    key: str = ""


class Restore(Request[Restored], frozen=True, tag="restore"):
    """Take back a forget or an undo of the last 7 days: all versions that went with `memory_id`.

    Without an id the reply lists what could come back. What is there already is `empty` and no failure.
    """

    workspace: str
    memory_id: str = ""
    scope: str = ""
    key: str = ""


class HandedOver(Reply, frozen=True, tag="handed_over"):
    """The place of the daemon `pid` is the successor's: with this frame come descriptors.

    First the lock, then the listening socket, then any number of parcels of vectors. The successor answers
    READY once it has them, and the old daemon YOURS; then it ends. Without YOURS it goes on, and all of them
    are to be closed.
    """

    pid: int = 0


class HandOver(Request[HandedOver], frozen=True, tag="hand_over"):
    """A daemon that is ready to serve wants the place of the one that does; `pid` and `version` are its own.

    The old daemon answers what was begun, closes all that it has open, and then replies. No agent asks this.
    """

    repeatable: ClassVar[bool] = False

    pid: int = 0
    version: str = ""


READY, YOURS = b"r", b"y"
REQUESTS = tuple(Request.__subclasses__())
REPLIES = tuple(Reply.__subclasses__())
