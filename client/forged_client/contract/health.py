"""Messages about the daemon: its health, its builds, and the cost and egress of its models."""

from __future__ import annotations

import msgspec

from forged_client.contract.hooks import AgentReport
from forged_client.envelope import Reply, Request

RELOADING = "the configuration has changed; the daemon starts over with it"
"""Reason of a `Rebuilt` that has done nothing yet; the same daemon will answer in a moment."""

OFF_HERE = "this repository's .forge/config.toml switches memory off here"
"""Warning of a `StatusReport` about a workspace whose repository switches memory off."""


class FileProblem(msgspec.Struct, frozen=True):
    """A file or directory to report, with the reason: not read, or read with something to correct.

    `loses`: answers lack text of it.
    """

    path: str
    reason: str
    loses: bool = False


class RootReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of one memory root in a status report. `state`: loading, building, ready, failed, held.

    Of a root that is held no text may leave; see `held`. Of `cut` memories only the beginning was embedded,
    because the model takes no more; `cut_ids` names some. `withheld` counts files that are not used before a
    person accepts them; `notice` is the sentence about them, with the command that fixes it. `trust` is the
    state of a `RootTrust`, of a trusted root its mode. With `unread` the files count while the daemon's
    records cannot be read, and no decision is needed. `redacted` counts memories that are shown without a
    secret in their file; `redacted_ids` names some. `forks` counts memories with concurrent heads;
    `fork_ids` names some.

    While texts are embedded, `rate` is texts a second over all roots, and `left_s` the estimate for this
    root if no agent asks for another; None if it is unknown. `stale` counts memories whose evidence files
    changed or are gone. `owner` is the result of giving files that root made to the owner of `root`. New
    memories go to `directory`. `git` is a sentence on whether git ignores them, `git_problem` the reason
    that this differs from the setting. `no_memories` are files in its folders that are ignored, which is no
    problem.
    """

    root: str
    scope: str
    state: str
    memories: int = 0
    generation: str = ""
    indexes: tuple[str, ...] = ()
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
    owner: str = ""
    directory: str = ""
    git: str = ""
    git_problem: str = ""
    held: str = ""
    no_memories: tuple[FileProblem, ...] = ()


class WaitsElsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of pending work of a root whose folder is not at its path now, with the `reason`.

    `events` of capture are not classified or written, `proposals` not shown for review, and `steps`
    (removals, returns and moves that a kill interrupted) not completed.
    """

    root: str
    reason: str = ""
    events: int = 0
    proposals: int = 0
    steps: int = 0


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """State and counts of capture. `state`: idle, busy, waiting, failing, paused, off, with `reason`.

    `turns` events of turns are pending. Of any kind `spooled` are on disk (`spool_bytes`) and `dead` were
    given up. Counts are since the daemon started, `tokens_today` (of `token_limit`, 0: none) since midnight
    UTC. `to_review` is the number of proposals that wait for review, of every root.

    `last_success` is a UTC time; ages are seconds. `finished` counts classified events and `memories`
    written files. `said_again` counts those of them that were forgotten once and saved because they were
    stated again. `paused` are the places where a person paused memory, `*` for everywhere. With `doubt`, the
    reason that the pauses are unknown, no memory is injected or captured, although no person has paused it.
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
    doubt: str = ""
    said_again: int = 0
    to_review: int = 0
    elsewhere: tuple[WaitsElsewhere, ...] = ()


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of the gate for injections. `state`: off, words, learning, vectors, failing.

    `off`: everything found is injected, and `reason` explains it. `learning` and `failing` (with `reason`):
    the model is not calibrated with everyday messages yet, so words decide.
    """

    state: str = ""
    reason: str = ""


class EndpointReport(msgspec.Struct, frozen=True, kw_only=True):
    """Health of a model at an endpoint. `state`: untried, ok, slow, failing.

    `uses` are its purposes. Ages are seconds, None if there was nothing. `next_s` is the time until a
    skipped model is tried again. `reason` is the word of the last failure, `message` its sentence.
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


class SyncReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of the synchronization of one owner's files with the owner's other machines.

    `behind` is the number of memories to send or fetch at the last look, `in_sync_s` the time since there
    were none. `kept_here` is the number of files that the server does not get, `reasons` says why for some of
    them, by id. `refused` are rows of the server that are no memories. `absent` files were removed here by
    hand and stay on the server. `problem` stops this owner's files.
    """

    scope: str
    owner: str
    behind: int = 0
    kept_here: int = 0
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    refused: int = 0
    absent: int = 0
    in_sync_s: float | None = None
    problem: str = ""


class CopiesReport(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of the team's documents on this machine, which turns search: their number and size in bytes.

    `has_more`: beyond `limit` bytes the server has others, which it is asked for. Copies are left out of
    turns unless `is_shown`. `looked_s` is the time since they were compared with the server, `problem` the
    reason that they were not.
    """

    documents: int = 0
    pieces: int = 0
    size: int = 0
    limit: int = 0
    has_more: bool = False
    is_shown: bool = False
    looked_s: float | None = None
    problem: str = ""


class SharedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Health of a team's server. `state`: untried, ok, failing.

    `server` is host and database, `message` the reason that it fails, `problem` the reason that it cannot be
    used although it answers. `waiting` writes are stored here until it takes them; `waits` are the reasons of
    those that failed, each after their number. `without_vector` rows wait for the model. `odd` rows, by id,
    cannot be read and are left out of answers. `refused` are writes that it will never take, each with the
    reason. `replayed_s` is the time since the last stored write was sent. `writers` are other daemons with
    the time since their last write; changes arrive while `listening`. `absent_documents` are on the server
    and no longer in this machine's files. `copies` are those of the team's documents, None if turns do not
    search them. `sync` are the files that other machines have as well, `sync_problem` the reason that none
    are synchronized now.
    """

    server: str
    scopes: tuple[str, ...] = ()
    state: str = "untried"
    last_success_s: float | None = None
    failing_s: float | None = None
    message: str = ""
    next_s: float | None = None
    problem: str = ""
    waiting: int = 0
    waits: tuple[str, ...] = ()
    without_vector: int = 0
    odd: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    replayed_s: float | None = None
    listening: bool = False
    writers: dict[str, float] = msgspec.field(default_factory=dict)
    absent_documents: int = 0
    copies: CopiesReport | None = None
    sync: tuple[SyncReport, ...] = ()
    sync_problem: str = ""


class SettingReport(msgspec.Struct, frozen=True):
    """A key of the configuration with its value, secrets masked, and its source."""

    key: str
    value: str
    origin: str


class ScopeReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of a scope besides the roots of a workspace: session, agent or org.

    `engine` is files, or memory (of the daemon, lost when it ends). `owners` is the number of sessions or
    agents with memories. `retrieved`: an injection may contain them. `lasts_s` is the lifetime of a memory,
    0 without limit; `dropped` are those removed earlier for space.
    """

    scope: str
    engine: str
    place: str = ""
    owners: int = 0
    memories: int = 0
    retrieved: bool = False
    lasts_s: float = 0.0
    dropped: int = 0


class StatusReport(Reply, frozen=True, tag="status_report"):
    """Reply to `Status`: the daemon's health. `state`: ok, degraded, disabled.

    `here`: the workspace's roots, none if its repository turns memory off. `engine` runs a model in-process.
    """

    state: str = "ok"
    version: str = ""
    build: str = ""
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
    agents: tuple[AgentReport, ...] = ()
    scopes: tuple[ScopeReport, ...] = ()
    shared: SharedReport | None = None
    here: tuple[str, ...] = ()


class Status(Request[StatusReport], frozen=True, tag="status"):
    """Request the daemon's state; with a workspace, its roots are loaded and reported, too."""

    effect = "read"

    workspace: str = ""


class Rebuilt(Reply, frozen=True, tag="rebuilt"):
    """Reply to `Rebuild`: states of the roots; not_ready if it goes on or the daemon is `RELOADING`."""

    generation: str = ""
    roots: tuple[RootReport, ...] = ()


class Rebuild(Request[Rebuilt], frozen=True, tag="rebuild"):
    """Request a rescan of a workspace's roots; `full` embeds all anew, `wait` waits for the end."""

    effect = "write"

    workspace: str
    full: bool = False
    wait: bool = False


class Progress(Reply, frozen=True, tag="progress"):
    """One event of a build: `event` is scanning, embedding, swapped or failed.

    Of an embedding, `rate` is texts a second over all roots, and `left_s` the estimate for the rest of this
    one; None if it is unknown.
    """

    event: str = ""
    root: str = ""
    done: int = 0
    total: int = 0
    generation: str = ""
    rate: float = 0.0
    left_s: float | None = None


class Events(Request[Progress], frozen=True, tag="events"):
    """Request a stream of the steps of builds: `Progress` replies until the connection closes."""

    effect = "stream"

    workspace: str = ""


class DayCost(msgspec.Struct, frozen=True):
    """Cost of model calls of one day (UTC) and purpose (`hyde`, `capture`, `query`, ...).

    `calls` include `failed` ones. `said_tokens` are the prompt tokens of the conversation, without
    instructions and lists.
    """

    day: str
    purpose: str
    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    said_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Return the tokens of prompts and completions."""
        return self.prompt_tokens + self.completion_tokens


class Costs(Reply, frozen=True, tag="costs"):
    """Reply to `Cost`: costs by day; `token_limit` 0 is none; at `resets_at` a new day starts."""

    days: tuple[DayCost, ...] = ()
    tokens_today: int = 0
    token_limit: int = 0
    calls_per_minute: int = 0
    resets_at: str = ""


class Cost(Request[Costs], frozen=True, kw_only=True, tag="cost"):
    """Request the cost of model calls in the last `days`, by day and purpose, newest day first."""

    effect = "read"

    days: int = 7


class DayEgress(msgspec.Struct, frozen=True):
    """Counts of text sent to one host for one purpose on a day (UTC); `calls` include failures."""

    day: str
    host: str
    purpose: str
    calls: int = 0
    failed: int = 0
    texts: int = 0
    characters: int = 0


class EgressReport(Reply, frozen=True, tag="egress_report"):
    """Reply to `Egress`: counts of text sent to models and servers, newest day first."""

    days: tuple[DayEgress, ...] = ()


class Egress(Request[EgressReport], frozen=True, kw_only=True, tag="egress"):
    """Request counts of text sent to models and servers, local ones too, by day and purpose."""

    effect = "read"

    days: int = 7


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one call to a model; `message` is the reason of a failure."""

    host: str
    model: str
    uses: tuple[str, ...] = ()
    ok: bool = False
    took_ms: float = 0.0
    reason: str = ""
    message: str = ""


class Tried(Reply, frozen=True, tag="tried"):
    """Reply to `Try`: one trial for each model at an endpoint."""

    trials: tuple[Trial, ...] = ()


class Try(Request[Tried], frozen=True, tag="try"):
    """Request a trial: one real call to each model at an endpoint."""

    effect = "read"
