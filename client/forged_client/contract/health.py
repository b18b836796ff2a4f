"""Messages about the daemon: how it fares, what it builds, what its models cost and were sent."""

from __future__ import annotations

import msgspec

from forged_client.contract.hooks import AgentReport
from forged_client.envelope import Reply, Request

RELOADING = "the configuration has changed; the daemon starts over with it"
"""Reason of a `Rebuilt` that did nothing yet: ask again, the same daemon will answer in a moment."""

OFF_HERE = "this repository's .forge/config.toml switches memory off here"
"""Warning of a `StatusReport` about a workspace whose repository switches memory off."""


class FileProblem(msgspec.Struct, frozen=True):
    """A file that is not indexed, or only in part, and why. `loses`: answers lack text of it."""

    path: str
    reason: str
    loses: bool = False


class RootReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of one root. `state`: loading, building, ready, failed, held (no text may leave, `held`: why).

    Of `cut` memories only the beginning was embedded, as the model takes no more; `cut_ids` names some.
    `withheld` counts files that are not used until a person says so; `notice` is the sentence about them,
    with the command that mends it. `trust` is the state of a `RootTrust`, of a trusted root its mode; with
    `unread` the files count as long as the daemon's records cannot be read, and nobody need decide on them.
    `redacted` counts memories that are shown without a secret in their file; `redacted_ids` names some.
    `forks` counts memories with more than one newest version; `fork_ids` names some.
    While texts are embedded, `rate` is how many a second, of all roots, and `left_s` how long this root's
    take if nobody asks for another; None while that is not known. `stale` counts memories that stand on files
    which changed or went since. `owner` says what root made there and could not give to the owner of `root`.
    New memories go to `directory`. `git` is a sentence on whether git ignores them, `git_problem` on why that
    is not as was chosen. `no_memories` are files in its folders that are passed by, which is no problem.
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
    owner: str = ""
    directory: str = ""
    git: str = ""
    git_problem: str = ""
    held: str = ""
    no_memories: tuple[FileProblem, ...] = ()


class WaitsElsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """Count of what waits because another folder, or none, is at the path of a root; `reason` says which.

    `events` of capture are not judged or written, `proposals` not shown for review, and `steps` (removals,
    returns and moves that a kill interrupted) not brought to their end.
    """

    root: str
    reason: str = ""
    events: int = 0
    proposals: int = 0
    steps: int = 0


class CaptureReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of capture. `state`: idle, busy, waiting, failing, paused, off; `reason` says why.

    `turns` events of turns wait; of any kind `spooled` are on disk (`spool_bytes`) and `dead` were given up.
    Counts are since the daemon started, `tokens_today` (of `token_limit`, 0: none) since midnight UTC.
    `to_review` is how many proposals wait for a person, of every root.
    `last_success` is a UTC time; ages are seconds. `finished` counts events that were classified, `memories`
    files written, `said_again` those of them that were forgotten once and kept because they were said since.
    `paused` are the places where a person stopped memory, `*` for everywhere. With `doubt`, which says why
    what is paused cannot be known, nothing is injected or captured, and nothing of that is a person's pause.
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


class InStepReport(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one owner, and how far they are from those of the owner's other machines.

    `behind` is how many memories there were to send or fetch at the last look, `in_step_s` how long ago there
    were none. `kept_here` may not leave this machine, `refused` are rows of the server that are no memories.
    """

    scope: str
    owner: str
    behind: int = 0
    kept_here: int = 0
    refused: int = 0
    in_step_s: float | None = None


class SharedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The server of a team, and how it fares. `state`: untried, ok, failing.

    `server` is host and database; `message` why it fails, `problem` why it cannot be used though it answers.
    `waiting` writes are kept here until it is back, `without_vector` rows until the model is; `refused` are
    those that it will never take, each with why. `replayed_s` is how long ago the last that had waited was
    taken. `writers` are other daemons, and how long ago they wrote; they are heard while it is `listening`.
    `in_step` are the files that other machines have as well, `not_in_step` why they cannot be now.
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
    without_vector: int = 0
    refused: tuple[str, ...] = ()
    replayed_s: float | None = None
    listening: bool = False
    writers: dict[str, float] = msgspec.field(default_factory=dict)
    in_step: tuple[InStepReport, ...] = ()
    not_in_step: str = ""


class SettingReport(msgspec.Struct, frozen=True):
    """A key of the configuration with the value that is in use, secrets masked, and where it came from."""

    key: str
    value: str
    origin: str


class ScopeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A scope beside the roots of a workspace: session, agent or org.

    `engine` is files, or memory (that of the daemon, which loses it when it ends). `owners` are how many
    sessions or agents have any. `retrieved`: an injection may hold them. `lasts_s` is how long one is kept, 0
    for good; `dropped` are those that had to make room before.
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
    """The daemon's health. `state`: ok, degraded, disabled. `engine` is what runs a model in its process.

    `here` are the roots of the workspace that was asked for, none where its repository switches memory off.
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
    """Report what the daemon is doing; with a workspace, also about its roots (which are loaded by it)."""

    effect = "read"

    workspace: str = ""


class Rebuilt(Reply, frozen=True, tag="rebuilt"):
    """`status` ok when done, not_ready when it goes on in the background or the daemon is `RELOADING`."""

    generation: str = ""
    roots: tuple[RootReport, ...] = ()


class Rebuild(Request[Rebuilt], frozen=True, tag="rebuild"):
    """Rescan the roots of a workspace; `full` also drops reused vectors; `wait` answers when it is done."""

    effect = "write"

    workspace: str
    full: bool = False
    wait: bool = False


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


class Events(Request[Progress], frozen=True, tag="events"):
    """Stream `progress` replies with this request's id until the connection closes."""

    effect = "stream"

    workspace: str = ""


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

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Costs(Reply, frozen=True, tag="costs"):
    """`token_limit` 0 is none; `resets_at` is when today's count starts anew (UTC)."""

    days: tuple[DayCost, ...] = ()
    tokens_today: int = 0
    token_limit: int = 0
    calls_per_minute: int = 0
    resets_at: str = ""


class Cost(Request[Costs], frozen=True, kw_only=True, tag="cost"):
    """List what model calls have cost, by day and purpose, newest day first."""

    effect = "read"

    days: int = 7


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


class Outbound(Request[Departed], frozen=True, kw_only=True, tag="outbound"):
    """Count what left the machine, by day, host and purpose: never text."""

    effect = "read"

    days: int = 7


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


class Try(Request[Tried], frozen=True, tag="try"):
    """Make one real call to each model that is asked at an endpoint."""

    effect = "read"
