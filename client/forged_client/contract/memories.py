"""A memory as a value, and the messages about it, also those about its versions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from forged_client.envelope import R, Reply, Request, one_of

# Words that a request may use for what a memory is. A file, and so a reply, may hold others.


class Scope(StrEnum):
    """Audience of a memory: all who work in a repository, a user, an agent, one session, or everybody."""

    REPO = "repo"
    USER = "user"
    AGENT = "agent"
    SESSION = "session"
    ORG = "org"


class Category(StrEnum):
    """Subject of a memory."""

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
    """Source of the text of a memory, as far as this daemon knows.

    `typed` by a person in a conversation and kept by rules; `explicit`, given by a person to be kept;
    `model`, written by a classifier model; `agent`, remembered by a program; `import`; `file`, all that
    nobody saw being written.
    """

    TYPED = "typed"
    EXPLICIT = "explicit"
    MODEL = "model"
    AGENT = "agent"
    IMPORT = "import"
    FILE = "file"


CLAIMED = (Origin.AGENT, Origin.EXPLICIT)
"""What a client may say of a text's origin; the rest only the daemon knows."""

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
    """A link from one memory to another."""

    id: str
    relationship: RelationshipWord = "relates-to"


class Relation(msgspec.Struct, frozen=True):
    """How one thing that a memory speaks of relates to another, both by name."""

    source: str
    relation: str
    target: str


class Version(msgspec.Struct, frozen=True):
    """An older version of a memory, as it is listed under its head."""

    id: str
    version: int
    created_at: str
    first_line: str


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attributes of a memory that are not in its file. Times are RFC 3339, "" where there is none.

    `agent_id` is whose memory it is in scope agent, and elsewhere which agent wrote it, if that was told.
    `access_count` is how often it was found, `last_accessed` when last. `source` is where it came from.
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
    """Position and scores of a memory in a search result. Results are ordered by `score`.

    `cosine` is there when the dense index answered; a recall has its `distance`, smaller is nearer, instead.
    `found_by`: search, hop, standing (it came with the session and without a search), heard (an earlier turn
    brought it), correction (it replaces one that the session has heard), entity (over what it speaks of;
    `path` says in words over what). `admitted_as` is why it was let in: strong, near, weak, hop, standing.
    `older` are the versions before it; `concurrent_heads` stand beside it: neither replaces the other.
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
    """One memory with its attributes; times are RFC 3339 text as in the file. An id is of its `root`.

    `origin` says where its text came from: typed, explicit, model, agent, import, or file if nobody knows.
    `redacted` are the secrets that its file holds and that are not in `content`, by name. `concurrent_heads`
    are newest versions that stand beside this one: neither replaces the other, as both were made elsewhere.
    `cues` are lines that say when it should come back, `evidence` the files that it stands on, as PATH,
    PATH:LINE or PATH:FIRST-LAST; `stale` are those of them that changed or went since. `entities` are names
    of what it speaks of, by its front matter and by its text, and `relations` how these relate; a list has
    them, and the
    `path` of the file, only if it was asked for them. `chunk_index` is the place in `document_id`, -1 outside
    of documents.

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


class Remember(Request[Remembered], frozen=True, tag="remember"):
    """Write one memory durably; the reply comes after fsync.

    What is left out of `scope` and `category` is that of the memory it supersedes; of a new one the scope is
    repo, and the category `project-conventions` there and `user-facts` for the user. Links of what it
    supersedes are kept, and `related` added. A text with a secret is refused with the code `secret`, unless
    `allow_secret`. `origin`: `agent`, or `explicit` where a person gave the text. A request with a `key` may
    be sent twice, and is carried out once. `cues`: up to five short lines that say when it should come back;
    `evidence`: files of the repository that it stands on, as PATH, PATH:LINE or PATH:FIRST-LAST. Cues that
    are left out are those of the memory it supersedes.

    In scope `agent` it is a memory of `agent_id` alone. In scope `session` it belongs to `session_id`, which
    is named with the `agent_id` that writes it, and is gone an hour later. `memory_type`: of the user's fact,
    preference or summary, of an agent's learning, state, persona or scratchpad. `importance` is 0 to 1,
    `metadata` a JSON object of at most 32 keys and 4 KiB to filter by; a new version has those of the one
    before it where they are left out.
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
    """`notice` is a sentence for the person about what is withheld."""

    memories: tuple[MemoryRecord, ...] = ()
    total: int = 0
    missing: tuple[str, ...] = ()
    generation: str = ""
    notice: str = ""


class _Shown(Request[R], frozen=True, kw_only=True):
    """Options of what shows memories by id."""

    min_generation: str = ""
    scope: ScopeWord = ""
    agent_id: str = ""


class GetMemories(_Shown[Memories], frozen=True, tag="get"):
    """Memories by id. `scope` "" is both: an id that repository and user have comes twice.

    Here and in all that follows scope `agent` needs the `agent_id`: what one agent remembers is no other's,
    and in no place that does not name it. Scope `org` is what all may read.
    """

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str
    ids: tuple[str, ...]


class _ListMemoriesOptions(Request[Memories], frozen=True, kw_only=True):
    """Filters, and a page of what they leave."""

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
    """Memories of the workspace, newest first; heads only unless `all_versions`. `scope` "" is both.

    `stale`: only those that stand on files which changed or went since. `since` is a time (RFC 3339) of their
    making, `session_id` how a session's id begins, `origin` one of a MemoryRecord's; all hold together.
    `all_repos`: of every repository that the daemon has seen, whatever the workspace; what is withheld in one
    is left out here, too. `entities`: say of each what it speaks of.
    """

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str


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


class _ForgetOptions(Request[Forgotten], frozen=True, kw_only=True):
    """Scope of a forget, and where the memory is."""

    version_only: bool = False
    erase_now: bool = False
    scope: ScopeWord = ""
    key: str = ""
    agent_id: str = ""


class Forget(_ForgetOptions, frozen=True, tag="forget"):
    """Take a memory's whole chain away (or one version), into a 7-day trash unless `erase_now`.

    What replaced a single version then replaces what that one had replaced. An id that repository and user
    have is refused without its `scope`. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str
    memory_id: str


# --- what a person does to a memory --------------------------------------------------------------------


class Chain(Reply, frozen=True, tag="chain"):
    """Versions of a memory, oldest first. `flags` names problems: fork, cycle, missing:<id>.

    `path` is that of the file of the version that was asked for.
    """

    memories: tuple[MemoryRecord, ...] = ()
    flags: tuple[str, ...] = ()
    generation: str = ""
    path: str = ""


class History(_Shown[Chain], frozen=True, tag="history"):
    """The version chain that a memory belongs to, oldest first; `scope` for an id that two roots have."""

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str
    memory_id: str


class Edit(Request[Remembered], frozen=True, tag="edit"):
    """Write a new version of a memory: another text, category, cues, evidence or links; the rest stays.

    `content`, `cues` and `evidence` None keep what is there; with another text, what it stands on is looked
    at anew. `relate` are links to add: one that is there with another relationship gets this one. `unrelate`
    are ids of links to take away. `base` is the id (or the number) of the version that the text was made of:
    if another one is the newest by now, nothing is written and the code is `conflict`. With a `key` it may be
    sent twice.
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


class _MoveOptions(Request[Moved], frozen=True, kw_only=True):
    """Place of the memory now."""

    scope: ScopeWord = ""
    allow_secret: bool = False
    key: str = ""
    agent_id: str = ""


class Move(_MoveOptions, frozen=True, tag="move"):
    """Write a memory in another scope, `to` repo, user or agent, and take it away where it was.

    What was there goes into the trash. `scope` is where it is: agent, or for an id that repository and user
    both have. `agent_id` names the agent that it comes from or goes to. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str
    memory_id: str
    to: ScopeWord


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


class _RestoreOptions(Request[Restored], frozen=True, kw_only=True):
    """Place of the memory before."""

    scope: ScopeWord = ""
    key: str = ""
    agent_id: str = ""


class Restore(_RestoreOptions, frozen=True, tag="restore"):
    """Take back a forget or an undo of the last 7 days: all versions that went with `memory_id`.

    Without an id the reply lists what could come back. What is there already is `empty` and no failure.
    """

    effect = "write"
    needs = ("workspace", "memory")

    workspace: str
    memory_id: str = ""

    @property
    def only_shows(self) -> bool:
        return not self.memory_id
