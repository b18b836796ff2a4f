"""Messages by which an agent recalls what a session, a user, it itself and an organization remember."""

from __future__ import annotations

from typing import Any

import msgspec

from forged_client.contract.memories import MemoryRecord, ScopeWord
from forged_client.envelope import Reply, Request


class Recalled(Reply, frozen=True, tag="recalled"):
    """`memories` are of all scopes, the best first; `text` is an injection of those that fit the budget.

    `degraded` says in a few words each what could not take part; `embedding_ms` is the part of `elapsed_ms`
    that the query's vector took.
    """

    memories: tuple[MemoryRecord, ...] = ()
    text: str = ""
    included: int = 0
    omitted: int = 0
    degraded: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
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
