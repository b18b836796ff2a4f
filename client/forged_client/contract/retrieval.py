"""Messages by which an agent gets memories for a turn and a person looks for them."""

from __future__ import annotations

import msgspec

from forged_client.contract.memories import MemoryRecord
from forged_client.envelope import Reply, Request


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


class Rejected(msgspec.Struct, frozen=True):
    """A memory near the top that stayed out.

    `why`: faint (too little speaks for it), far (too little beside the best), full (others came before it),
    given (it fits, and the session has it in context).
    `evidence` is in standard deviations above what everyday messages reach, None without a yardstick.
    """

    id: str
    root: str
    first_line: str
    why: str
    evidence: float | None = None


class Retrieved(Reply, frozen=True, tag="retrieved"):
    """`text` is the injection: empty unless status is ok (and not `unchanged`).

    `partial` says why it rests on fewer hypotheses than the model was about to write, or nothing. `notice` is
    a sentence for the person and never for the model: what is withheld here, and the one command that mends
    it. A session gets it once for each root, a request without a session each time. `memories` are those that
    stand in the text; the first `already_injected` of them the session had heard before. `captured` are
    sentences for the person: what of this session was kept or refused since the last reply, and how to take
    it back.
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
    """The memories for one turn, as a text block for the prompt.

    `last_summary_index` is the index of the first message after the last summary. Caller-supplied
    `hypotheses` replace the model call. `known_digest` is the digest of the block the caller already has:
    when it is still right the reply says `unchanged` and leaves the text out.

    A session, told by `session_id` and `agent`, hears a memory once. `mode`: `block` for an agent that builds
    its prompt anew each turn, whose reply has all that the session has heard and then what is new; `append`
    for one that adds to what stands, whose reply has only what is new; `plain` marks nothing as heard and is
    answered as if there were no session. `compacts`: whoever asks tells by itself when the conversation was
    compacted, so what the session has heard is not thought gone because it has become long.
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
    """`notice` is a sentence for the person about what is withheld."""

    memories: tuple[MemoryRecord, ...] = ()
    indexes: tuple[str, ...] = ()
    generation: str = ""
    elapsed_ms: float = 0.0
    notice: str = ""


class Search(Request[Found], frozen=True, tag="search"):
    """Ranked memories for a query text, without injection and without the turn cache.

    `rated`: `admitted_as` of a memory says what speaks for it: strong, near or weak; nothing where it is not
    known. `agent` is whose memories are found beside the others where the configuration says so, as in
    Retrieve. `hypotheses`, sentences that a memory looked for may hold, are queries beside the text, which
    may then be empty; a memory is ranked by the query that it answers best.
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
    """One ledger entry: what was asked, what was found, what was cut.

    `omitted_ids` did not fit the budget; `rejected` were near the top and stayed out, `rejected_ids` are
    their ids, and they are no part of `memories`. `partial` says why a model's hypotheses are fewer than it
    was about to write, or nothing. `notice` is a sentence for the person about what is withheld.
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

    `sessions` is in how many sessions, up to now, this version of it was injected because it was found.
    """

    id: str
    root: str
    version: int
    found_by: str = ""
    admitted_as: str = ""
    sessions: int = 0


class InjectedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn of a session got that the session did not have before. `roots` are those that it saw."""

    at: str
    roots: tuple[str, ...] = ()
    session_id: str = ""
    agent: str = ""
    turn_id: str = ""
    strategy: str = ""
    memories: tuple[InjectedMemory, ...] = ()


class InjectionsPage(Reply, frozen=True, tag="injections_page"):
    """Newest first; `total` is how many there are of them in all."""

    injections: tuple[InjectedTurn, ...] = ()
    total: int = 0


class ListInjections(Request[InjectionsPage], frozen=True, tag="list_injections"):
    """List what was injected where in the last 30 days: in the workspace, or with `all_repos` anywhere.

    A turn is on record once its reply was handed over in time; what a person asked for by `plain` is not.
    `since` is a time (RFC 3339), `session_id` how a session's id begins; "" is any.
    """

    effect = "read"

    workspace: str = ""
    since: str = ""
    session_id: str = ""
    all_repos: bool = False
    limit: int = 100
    offset: int = 0


class Why(Request[Explained], frozen=True, tag="why"):
    """Explain the last injection of a session, or (with `query`) what a retrieval would do now.

    What is an agent's or a session's own is explained to whoever names it by `agent` or `session_id`.
    """

    effect = "read"
    needs = ("workspace", "memory", "retrieval")
    bypassable = True

    workspace: str
    session_id: str = ""
    query: str = ""
    agent: str = ""
