"""Messages by which an agent recalls what a session, a user, it itself and an organization remember."""

from __future__ import annotations

from typing import Any

import msgspec

from forged_client.contract.memories import ScopeWord
from forged_client.envelope import Reply, Request


class RecalledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a recall, in the order of the reply; `score` is greater for a better place.

    `distance` is the cosine distance to the query, smaller is nearer, None where a vector is missing.
    Times are RFC 3339, "" where there is none. `chunk_index` is the place in `document_id`, -1 outside of
    documents. An id is of its `root`. `path` says in words over what the query leads to it, be it by no word
    that both share; "" for what was only found by itself.
    """

    id: str
    scope: str
    content: str
    score: float
    distance: float | None = None
    memory_type: str = ""
    importance: float = 1.0
    access_count: int = 0
    last_accessed: str = ""
    created_at: str = ""
    expires_at: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    agent_id: str = ""
    user_id: str = ""
    session_id: str = ""
    source: str = ""
    document_id: str = ""
    chunk_index: int = -1
    root: str = ""
    path: str = ""


class Recalled(Reply, frozen=True, tag="recalled"):
    """`memories` are of all scopes, the best first; `text` is an injection of those that fit the budget.

    `degraded` says in a few words each what could not take part; `embedding_ms` is the part of `elapsed_ms`
    that the query's vector took.
    """

    memories: tuple[RecalledMemory, ...] = ()
    text: str = ""
    included: int = 0
    omitted: int = 0
    degraded: tuple[str, ...] = ()
    legs: tuple[str, ...] = ()
    elapsed_ms: float = 0.0
    embedding_ms: float = 0.0


class Recall(Request[Recalled], frozen=True, tag="recall"):
    """Recall what a session, a user, an agent and the organization remember about a query, as one list.

    A scope whose id is left out is not searched, but for the user's, which is that of the daemon's user, and
    the organization's. `filters`: values that a memory's metadata must have, all of them. `scopes`: those to
    search instead of session, user, agent and org; `repo` can be named, too, if there is a workspace.
    """

    effect = "read"
    needs = ("workspace", "memory", "retrieval", "state")
    bypassable = True

    query: str
    workspace: str = ""
    session_id: str = ""
    user_id: str = ""
    agent_id: str = ""
    filters: dict[str, Any] = msgspec.field(default_factory=dict)
    scopes: tuple[ScopeWord, ...] = ()
    timeout_s: float | None = None
    token_budget: int | None = None
