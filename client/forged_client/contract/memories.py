"""Messages about memories: values, and the requests and replies of the verbs on memories."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from forged_client.envelope import R, Reply, Request, one_of

# Words that a request may use. A file, and so a reply, may contain others.


class Scope(StrEnum):
    """Audience of a memory: users of a repository, a user, agent or session, or an organization."""

    REPO = "repo"
    USER = "user"
    AGENT = "agent"
    SESSION = "session"
    ORG = "org"


class Category(StrEnum):
    """Subject of a memory, one of six."""

    CODING_PREFERENCES = "coding-preferences"
    PROJECT_CONVENTIONS = "project-conventions"
    ARCHITECTURAL_DECISIONS = "architectural-decisions"
    USER_FACTS = "user-facts"
    CORRECTIONS = "corrections"
    PATTERNS = "patterns"


class Relationship(StrEnum):
    """Meaning of a link from a memory to another."""

    SUPERSEDES = "supersedes"
    REFINES = "refines"
    CONTRADICTS = "contradicts"
    RELATES_TO = "relates-to"


class Origin(StrEnum):
    """Source of a memory's text, as far as this daemon knows.

    `typed` by a person in a conversation and captured by rules; `explicit`, given by a person to be saved;
    `agreed`, the answer of a person to an agent's question; `model`, written by a classifier model; `agent`,
    written by a program; `import`; `team`, of an agent that a team has in common; `file` for all others.
    """

    TYPED = "typed"
    EXPLICIT = "explicit"
    AGREED = "agreed"
    MODEL = "model"
    AGENT = "agent"
    IMPORT = "import"
    TEAM = "team"
    FILE = "file"


CLAIMED = (Origin.AGENT, Origin.EXPLICIT)
"""Origins that a client may claim; the daemon decides on the others."""

TYPES: dict[str, tuple[str, ...]] = {
    Scope.USER: ("fact", "preference", "summary"),
    Scope.AGENT: ("learning", "state", "persona", "scratchpad"),
}
"""Types that memories of a scope may have; those of the others have none."""

ScopeWord = Annotated[str, one_of("scope", Scope)]
CategoryWord = Annotated[str, one_of("category", Category)]
OriginWord = Annotated[str, one_of("origin", Origin)]
ClaimedOrigin = Annotated[str, one_of("origin", CLAIMED)]
RelationshipWord = Annotated[str, one_of("relationship", Relationship)]


class Edge(msgspec.Struct, frozen=True):
    """Link of a memory to the memory `id`, with its meaning."""

    id: str
    relationship: RelationshipWord = "relates-to"


class Relation(msgspec.Struct, frozen=True):
    """Relation between two entities that a memory names, both by name."""

    source: str
    relation: str
    target: str


class Version(msgspec.Struct, frozen=True):
    """Another version of a memory, listed with its head: id, number, time and first line."""

    id: str
    version: int
    created_at: str
    first_line: str


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attributes of a memory that are not in its file. Times are RFC 3339, "" if there is none.

    `agent_id` is the owner in scope agent, elsewhere the agent that wrote it, if known. `access_count` is how
    often it was found, `last_accessed` when last. `source` is the place that it came from.
    """

    memory_type: str = ""
    importance: float = 1.0
    metadata: dict[str, Any] = {}
    agent_id: str = ""
    user_id: str = ""
    access_count: int = 0
    last_accessed: str = ""
    expires_at: str = ""
    source: str = ""


class Ranking(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rank, scores and gate decision of a memory in a search result; results are ordered by `score`.

    `cosine` is set if the dense index answered. A recall has `distance` instead; smaller is nearer.
    `found_by` is one of: search; link (linked to a result); pinned (at the start of the session); injected
    (in the session's context already); correction (replaces a memory of the injected set); entity (names the
    same entity; `path` describes the connection). `admitted_as` is the decision of the gate: strong, near,
    weak, link or pinned. `older` are the versions before it. `concurrent_heads` are other newest versions of
    it; none of them replaces another.
    """

    score: float
    cosine: float | None = None
    distance: float | None = None
    lexical: float | None = None
    found_by: str = "search"
    admitted_as: str = ""
    path: str = ""
    older: tuple[Version, ...] = ()
    concurrent_heads: tuple[Version, ...] = ()


class MemoryRecord(Facts, frozen=True, kw_only=True):
    """One memory with its attributes; its id is unique in its `root` only, and times are RFC 3339 text.

    `origin` is the source of the text, one of Origin: `file` if it is unknown.
    `redacted` names the kinds of secrets that the file contains and `content` leaves out. `concurrent_heads`
    are ids of other newest versions, made elsewhere; none of them replaces another. `cues` are lines that say
    when the memory is useful. `evidence` are files that it depends on, as PATH, PATH:LINE or PATH:FIRST-LAST;
    `stale` are those that changed or disappeared since. `entities` are names in its front matter and text,
    and `relations` connect them; a list has both only on request. `path` is that of the file, in a chain and
    in such a list. `chunk_index` is the position in the document `document_id`, -1 outside of documents.

    With `found` a record has the fields that a turn needs: id, scope, category, version, content,
    `created_at`, `root` and `stale`. A search adds entities and relations, a recall attributes and session.
    On the wire, fields with their default are left out.
    """

    id: str
    scope: str
    category: str
    version: int
    content: str
    created_at: str
    updated_at: str = ""
    session_id: str = ""
    trigger: str = ""
    root: str = ""
    supersedes: str | None = None
    related: tuple[Edge, ...] = ()
    is_head: bool = True
    origin: str = ""
    redacted: tuple[str, ...] = ()
    concurrent_heads: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    document_id: str = ""
    chunk_index: int = -1
    found: Ranking | None = None
    path: str = ""


class Remembered(Reply, frozen=True, tag="remembered"):
    """Reply to `Remember` and `Edit`: the written memory's id, or (`existed`) that of an equal one.

    `replaced` is the id of the replaced version; `base_moved`: another than the named one.
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


class Remember(Request[Remembered], frozen=True, tag="remember"):
    """Request to write one memory durably; the reply comes after fsync.

    Without `scope` and `category` those of the superseded memory are used; a new one has scope repo with
    `project-conventions`, or scope user with `user-facts`. Links of the superseded memory are kept, and
    `related` added. A text with a secret is refused with the code `secret`, unless `allow_secret`. `origin`
    `explicit` is believed from a terminal without an agent above it. With a `key` it may be sent twice and is
    carried out once. `cues` are up to five short lines that say when the memory is useful; without them those
    of the superseded memory are kept. `evidence` are repository files that it depends on, as PATH, PATH:LINE
    or PATH:FIRST-LAST.

    In scope `agent` it belongs to `agent_id` alone. In scope `session` it belongs to `session_id`, which is
    named with the writing `agent_id`, and expires an hour later. `memory_type` is, for a user, fact,
    preference or summary; for an agent learning, state, persona or scratchpad. `importance` is 0 to 1,
    `metadata` a JSON object of at most 32 keys and 4 KiB to filter by; a new version inherits missing ones.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False
    bypassable = True
    paths = ("workspace", "evidence")

    workspace: str
    content: str
    scope: ScopeWord = ""
    category: CategoryWord = ""
    supersedes: str = ""
    related: tuple[Edge, ...] = ()
    session_id: str = ""
    allow_secret: bool = False
    origin: ClaimedOrigin = "agent"
    key: str = ""
    cues: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    agent_id: str = ""
    user_id: str = ""
    memory_type: str = ""
    importance: float | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class Memories(Reply, frozen=True, tag="memories"):
    """Reply with memories, by id or listed; `notice` is for the person, about withheld files."""

    memories: tuple[MemoryRecord, ...] = ()
    total: int = 0
    missing: tuple[str, ...] = ()
    generation: str = ""
    notice: str = ""


class _ByIdOptions(Request[R], frozen=True, kw_only=True):
    """Options of requests that return memories by id."""

    min_generation: str = ""
    scope: ScopeWord = ""
    agent_id: str = ""


class GetMemories(_ByIdOptions[Memories], frozen=True, tag="get"):
    """Request memories by id, of `scope` or of repository and user; an id of both is returned twice.

    Here and in the following requests, scope `agent` needs the `agent_id`, because memories of one agent are
    only visible with its name. Scope `org` is readable for all.
    """

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str
    ids: tuple[str, ...]


class _ListMemoriesOptions(Request[Memories], frozen=True, kw_only=True):
    """Filters of a list of memories, and the page to return."""

    scope: ScopeWord = ""
    category: str = ""
    all_versions: bool = False
    limit: int = 100
    offset: int = 0
    min_generation: str = ""
    stale: bool = False
    since: str = ""
    session_id: str = ""
    origin: OriginWord = ""
    all_repos: bool = False
    agent_id: str = ""
    entities: bool = False


class ListMemories(_ListMemoriesOptions, frozen=True, tag="list"):
    """Request the workspace's memories, newest first; only heads unless `all_versions`.

    `scope` "": repo and user. `stale`: with changed or lost evidence. `since`: time of creation (RFC 3339),
    `session_id` a prefix, `origin` one of a MemoryRecord's; all filters must match. `all_repos`: of every
    repository that the daemon has seen, whatever the workspace, without withheld files. `entities`: include
    entities and relations.
    """

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str


class Forgotten(Reply, frozen=True, tag="forgotten"):
    """Reply to a removal: removed ids, their place in the trash, copies that forged cannot reach.

    `cut_sentences` counts sentences with that text that were removed from `cut_events` pending or failed
    events; the rest of these events is kept.
    """

    ids: tuple[str, ...] = ()
    trash: str = ""
    unreachable: tuple[str, ...] = ()
    generation: str = ""
    cut_sentences: int = 0
    cut_events: int = 0


class _ForgetOptions(Request[Forgotten], frozen=True, kw_only=True):
    """Options of a removal: one version or all, trash or erasure, and the memory's scope."""

    version_only: bool = False
    erase_now: bool = False
    scope: ScopeWord = ""
    key: str = ""
    agent_id: str = ""


class Forget(_ForgetOptions, frozen=True, tag="forget"):
    """Request to remove a memory's chain (or one version), into a 7-day trash unless `erase_now`.

    A version that replaced a single removed one then replaces its predecessor. An id of both repository and
    user is refused without its `scope`. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str
    memory_id: str


# --- actions of a person on a memory ----------------------------------------------------------------------


class Chain(Reply, frozen=True, tag="chain"):
    """Reply with all versions of a memory, oldest first; `flags`: fork, cycle, missing:<id>."""

    memories: tuple[MemoryRecord, ...] = ()
    flags: tuple[str, ...] = ()
    generation: str = ""


class History(_ByIdOptions[Chain], frozen=True, tag="history"):
    """Request a memory's version chain, oldest first; `scope` for an id that two roots have."""

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str
    memory_id: str


class Edit(Request[Remembered], frozen=True, tag="edit"):
    """Request a new version of a memory: another text, category, cues, evidence or links.

    `content`, `cues` and `evidence` None keep the old value; with another text the evidence is hashed again.
    `relate` are links to add; an existing one may get another relationship. `unrelate` are ids of links to
    remove. `base` is the id (or the number) of the version that was changed: if another one is the newest by
    now, nothing is written and the code is `conflict`. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False
    bypassable = True
    paths = ("workspace", "evidence")

    workspace: str
    memory_id: str
    content: str | None = None
    category: CategoryWord = ""
    base: str = ""
    scope: ScopeWord = ""
    session_id: str = ""
    allow_secret: bool = False
    origin: ClaimedOrigin = "agent"
    key: str = ""
    cues: tuple[str, ...] | None = None
    evidence: tuple[str, ...] | None = None
    relate: tuple[Edge, ...] = ()
    unrelate: tuple[str, ...] = ()
    agent_id: str = ""


class Moved(Reply, frozen=True, tag="moved"):
    """Reply to a move: the new id, path and scope, and `ids` of the old versions in the trash.

    `unlinked` counts links that were dropped, because they lead nowhere there.
    """

    memory_id: str = ""
    path: str = ""
    generation: str = ""
    scope: str = ""
    category: str = ""
    ids: tuple[str, ...] = ()
    trash: str = ""
    unlinked: int = 0


class _MoveOptions(Request[Moved], frozen=True, kw_only=True):
    """Options of a move: the memory's current scope, and permission for a secret."""

    scope: ScopeWord = ""
    allow_secret: bool = False
    key: str = ""
    agent_id: str = ""


class Move(_MoveOptions, frozen=True, tag="move"):
    """Request to move a memory from its scope to another: `to` repo, user or agent.

    The old versions go into the trash. `scope` is the old one: agent, or for an id of both repository and
    user. `agent_id` names the agent that it comes from or goes to. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str
    memory_id: str
    to: ScopeWord


class Trashed(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of one memory that were removed together and can be restored until `until`.

    `id` is that of the newest, `ids` are all of them, oldest first; times are RFC 3339. `why`: forget, undo,
    move, prune. A prune removes documents: then these are their ids, and `first_line` is a source.
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
    """Reply to a restore: restored versions, oldest first, or without an id the restorable ones."""

    memories: tuple[MemoryRecord, ...] = ()
    restorable: tuple[Trashed, ...] = ()
    generation: str = ""


class _RestoreOptions(Request[Restored], frozen=True, kw_only=True):
    """Options of a restore: the memory's former scope."""

    scope: ScopeWord = ""
    key: str = ""
    agent_id: str = ""


class Restore(_RestoreOptions, frozen=True, tag="restore"):
    """Request to restore all versions removed with `memory_id`, or, without it, to list restorable ones.

    They are in the trash for 7 days. The id or source of a document restores all documents that were removed
    with it. An existing memory gives status `empty`, which is no failure.
    """

    effect = "write"
    needs = ("workspace", "memory")

    workspace: str
    memory_id: str = ""

    @property
    def only_shows(self) -> bool:
        """Return True for a request without `memory_id`, which only lists restorable memories."""
        return not self.memory_id
