"""Messages to inject memories into a turn, to search them, and to explain the result."""

from __future__ import annotations

import msgspec

from forged_client.contract.memories import MemoryRecord
from forged_client.envelope import Reply, Request


class ContentPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a message's content; only parts of a text type are read, and no `thought`."""

    type: str = "text"
    text: str = ""
    thought: bool = False


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation in OpenAI or Anthropic form; other fields are ignored.

    In Gemini's form the role of an assistant is `model`, and its text is in `parts`.
    """

    role: str
    content: str | tuple[ContentPart, ...] | None = None
    parts: tuple[ContentPart, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """A memory that the search found near the top and the gate kept out, with the reason.

    `why`: faint (too little evidence), far (too little next to the best), full (others came first), given (it
    fits, and the session has it in context). `evidence` is in standard deviations above everyday messages,
    None without a baseline.
    """

    id: str
    root: str
    first_line: str
    why: str
    evidence: float | None = None


class Retrieved(Reply, frozen=True, tag="retrieved"):
    """Reply to `retrieve`: the block to inject in `text`, empty unless ok and not `unchanged`.

    `partial` is the reason for fewer hypotheses than the model was about to write, or "". `notice` is a
    sentence for the person and never for the model: it names withheld memories and the command that helps. A
    session gets it once for each root, a request without a session each time. `memories` are those in the
    text; the session already had the first `already_injected` of them. `captured` are sentences for the
    person about statements of this session that were kept or refused since the last reply.
    """

    text: str = ""
    memories: tuple[MemoryRecord, ...] = ()
    included: int = 0
    omitted: int = 0
    digest: str = ""
    unchanged: bool = False
    strategy: str = ""
    indexes: tuple[str, ...] = ()
    generation: str = ""
    cached: bool = False
    elapsed_ms: float = 0.0
    partial: str = ""
    notice: str = ""
    already_injected: int = 0
    captured: tuple[str, ...] = ()


class Retrieve(Request[Retrieved], frozen=True, tag="retrieve"):
    """Request the memories for one turn, as a text block for the prompt.

    `last_summary_index` is the index of the first message after the last summary. `hypotheses` of the caller
    replace the model call. `known_digest` is the digest of the block that the caller already has. If it is
    still right the reply says `unchanged` and leaves the text out.

    A memory is injected once into a session, which `session_id` and `agent` identify. `mode` is `block` for
    an agent that builds its prompt anew each turn: the reply has the whole injected set and then the new
    memories. It is `append` for an agent that adds to its prompt: the reply has only new memories. With
    `plain` nothing is added to the injected set and the answer is that of a request without a session.
    `compacts`: the caller reports each compaction, so a long session keeps its injected set.
    """

    effect = "read"
    needs = ("workspace", "memory", "retrieval", "state")
    injects = True
    bypassable = True

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
    compacts: bool = False


class Found(Reply, frozen=True, tag="found"):
    """Reply with the memories of a search; `notice` is a sentence for the person about withheld ones."""

    memories: tuple[MemoryRecord, ...] = ()
    indexes: tuple[str, ...] = ()
    generation: str = ""
    elapsed_ms: float = 0.0
    notice: str = ""


class Search(Request[Found], frozen=True, tag="search"):
    """Request ranked memories for a query text, without injection and without the turn cache.

    With `rated` the `admitted_as` of a memory is its confidence label: strong, near or weak; "" if unknown.
    `agent` adds this agent's own memories where the configuration says so, as in Retrieve. `hypotheses` are
    sentences that a wanted memory may hold. They are queries next to the text, which may then be empty. A
    memory is ranked by the query that it answers best.
    """

    effect = "read"
    needs = ("workspace", "memory", "retrieval")
    bypassable = True

    workspace: str
    query: str
    limit: int = 10
    min_generation: str = ""
    rated: bool = False
    hypotheses: tuple[str, ...] = ()
    agent: str = ""
    session_id: str = ""


class Explained(Reply, frozen=True, tag="explained"):
    """Reply to `Why`: the queries of one retrieval, the memories that it found, and those left out.

    `omitted_ids` did not fit the budget. `rejected` were near the top and are not in `memories`;
    `rejected_ids` are their ids. `partial` is the reason for fewer hypotheses than the model was about to
    write, or "". `notice` is a sentence for the person about withheld memories.
    """

    session_id: str = ""
    turn_id: str = ""
    at: str = ""
    strategy: str = ""
    indexes: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    memories: tuple[MemoryRecord, ...] = ()
    included: int = 0
    omitted_ids: tuple[str, ...] = ()
    rejected_ids: tuple[str, ...] = ()
    generation: str = ""
    elapsed_ms: float = 0.0
    partial: str = ""
    notice: str = ""
    rejected: tuple[Rejected, ...] = ()


class InjectedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of an injection; `found_by` and `admitted_as` are those of its Ranking.

    `sessions` counts the sessions so far that got this version because a search found it.
    """

    id: str
    root: str
    version: int
    found_by: str = ""
    admitted_as: str = ""
    sessions: int = 0


class InjectedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that one turn added to its session. `roots` are those that the turn saw."""

    at: str
    roots: tuple[str, ...] = ()
    session_id: str = ""
    agent: str = ""
    turn_id: str = ""
    strategy: str = ""
    memories: tuple[InjectedMemory, ...] = ()


class InjectionsPage(Reply, frozen=True, tag="injections_page"):
    """Reply to `ListInjections`: a page of injections, newest first; `total` counts all of them."""

    injections: tuple[InjectedTurn, ...] = ()
    total: int = 0


class ListInjections(Request[InjectionsPage], frozen=True, tag="list_injections"):
    """Request a list of the last 30 days' injections: in the workspace, or (`all_repos`) anywhere.

    A turn is recorded once its reply was delivered in time; requests with mode `plain` are not. `since` is a
    time (RFC 3339). `session_id` is the beginning of a session's id; "" is any.
    """

    effect = "read"

    workspace: str = ""
    since: str = ""
    session_id: str = ""
    all_repos: bool = False
    limit: int = 100
    offset: int = 0


class Why(Request[Explained], frozen=True, tag="why"):
    """Request to explain a session's last injection, or (with `query`) a retrieval done now.

    Memories of an agent or a session are explained only to a caller that names it by `agent` or `session_id`.
    """

    effect = "read"
    needs = ("workspace", "memory", "retrieval")
    bypassable = True

    workspace: str
    session_id: str = ""
    query: str = ""
    agent: str = ""
