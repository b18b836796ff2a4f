"""What an agent does with memories by hand: one method per verb, as in verbs.py, which these belong to.

`scope` is repo, user, org, or agent with an `agent_id`: what an agent remembers for itself is in no place
that does not name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forged_client.protocol import (
    Chain,
    Edge,
    Forget,
    Forgotten,
    GetMemories,
    History,
    ListMemories,
    Memories,
    R,
    Remember,
    Remembered,
    Request,
)
from forged_client.shell import Shell


class MemoryVerbs(Shell):
    """The verbs that write a memory, show some, or take one away."""

    def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """The reply to any request."""
        raise NotImplementedError

    def remember(
        self,
        workspace: str,
        content: str,
        *,
        scope: str = "",
        category: str = "",
        supersedes: str = "",
        related: Iterable[Edge] = (),
        session_id: str = "",
        allow_secret: bool = False,
        key: str = "",
        cues: Iterable[str] = (),
        evidence: Iterable[str] = (),
        agent_id: str = "",
        user_id: str = "",
        memory_type: str = "",
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Remembered:
        """Write one memory; the reply comes when it is safe on disk.

        Scope and category that are left out are those of what it supersedes, else repo and a default. A text
        with a password or key in it is refused, unless `allow_secret`: agents will see it. `cues`: up to five
        short lines that say when it should come back; `evidence`: files of the repository that it stands on,
        as PATH, PATH:LINE or PATH:FIRST-LAST. With scope `agent` it is for `agent_id` alone, with scope
        `session` for a session and an hour. What may be said beside the text is told in `protocol`.
        """
        request = Remember(
            workspace=workspace,
            content=content,
            scope=scope,
            category=category,
            supersedes=supersedes,
            related=tuple(related),
            session_id=session_id,
            allow_secret=allow_secret,
            key=key,
            cues=tuple(cues),
            evidence=tuple(evidence),
            agent_id=agent_id,
            user_id=user_id,
            memory_type=memory_type,
            importance=importance,
            metadata=dict(metadata or {}),
        )
        return self.ask(request)

    def get(
        self,
        workspace: str,
        ids: Iterable[str],
        *,
        min_generation: str = "",
        scope: str = "",
        agent_id: str = "",
    ) -> Memories:
        """Memories by id; without a `scope` of the repository and of the user."""
        request = GetMemories(
            workspace=workspace, ids=tuple(ids), min_generation=min_generation, scope=scope, agent_id=agent_id
        )
        return self.ask(request)

    def history(
        self,
        workspace: str,
        memory_id: str,
        *,
        min_generation: str = "",
        scope: str = "",
        agent_id: str = "",
    ) -> Chain:
        """All versions of a memory, oldest first; of an id that two roots have, say the `scope`."""
        request = History(
            workspace=workspace,
            memory_id=memory_id,
            min_generation=min_generation,
            scope=scope,
            agent_id=agent_id,
        )
        return self.ask(request)

    def forget(
        self,
        workspace: str,
        memory_id: str,
        *,
        version_only: bool = False,
        erase_now: bool = False,
        scope: str = "",
        key: str = "",
        agent_id: str = "",
    ) -> Forgotten:
        """Take a memory away, with all its versions unless `version_only`; `scope` as for `history`."""
        request = Forget(
            workspace=workspace,
            memory_id=memory_id,
            version_only=version_only,
            erase_now=erase_now,
            scope=scope,
            key=key,
            agent_id=agent_id,
        )
        return self.ask(request)

    def list(
        self,
        workspace: str,
        *,
        scope: str = "",
        category: str = "",
        all_versions: bool = False,
        limit: int = 100,
        offset: int = 0,
        min_generation: str = "",
        stale: bool = False,
        since: str = "",
        session_id: str = "",
        origin: str = "",
        all_repos: bool = False,
        agent_id: str = "",
    ) -> Memories:
        """Memories of the workspace, newest first; what the filters mean is said in `protocol`."""
        request = ListMemories(
            workspace=workspace,
            scope=scope,
            category=category,
            all_versions=all_versions,
            limit=limit,
            offset=offset,
            min_generation=min_generation,
            stale=stale,
            since=since,
            session_id=session_id,
            origin=origin,
            all_repos=all_repos,
            agent_id=agent_id,
        )
        return self.ask(request)
