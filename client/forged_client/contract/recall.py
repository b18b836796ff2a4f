"""Messages to recall the memories of a session, a user, an agent and an organization."""

from __future__ import annotations

from typing import Any

import msgspec

from forged_client.contract.memories import MemoryRecord, ScopeWord
from forged_client.envelope import Reply, Request


class Recalled(Reply, frozen=True, tag="recalled"):
    """Reply to `Recall`: memories, best first; `text` is an injection of those that fit the budget.

    `degraded` names in a few words each store that could not take part. `embedding_ms` is the part of
    `elapsed_ms` spent on the query's vector.
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
    """Request the memories of a session, user, agent and organization about a query, as one list.

    A scope without an id is not searched, except those of the daemon's user and of the organization.
    `filters` are values that a memory's metadata must have, all of them. `scopes` are searched instead of
    session, user, agent and org; `repo` is allowed too if there is a workspace.
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
