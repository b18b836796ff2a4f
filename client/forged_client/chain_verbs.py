"""What a person does to one memory: one method per verb, as in verbs.py, which these belong to.

A memory is named by its id or by the beginning of it, as long as only one begins so.
"""

from __future__ import annotations

from collections.abc import Iterable

from forged_client.memory_verbs import MemoryVerbs
from forged_client.protocol import (
    Edge,
    Edit,
    Move,
    Moved,
    Relate,
    Remembered,
    Restore,
    Restored,
)


class ChainVerbs(MemoryVerbs):
    """The verbs that write a new version, or take one back."""

    def edit(
        self,
        workspace: str,
        memory_id: str,
        content: str | None = None,
        *,
        category: str = "",
        base: str = "",
        scope: str = "",
        session_id: str = "",
        allow_secret: bool = False,
        key: str = "",
        cues: Iterable[str] | None = None,
        evidence: Iterable[str] | None = None,
        agent_id: str = "",
    ) -> Remembered:
        """Write a new version with another text, category, cues or evidence; what is None stays.

        With `base`, the version that the text was made from, it is refused if there is a newer one by now.
        """
        request = Edit(
            workspace=workspace,
            memory_id=memory_id,
            content=content,
            category=category,
            base=base,
            scope=scope,
            session_id=session_id,
            allow_secret=allow_secret,
            key=key,
            cues=None if cues is None else tuple(cues),
            evidence=None if evidence is None else tuple(evidence),
            agent_id=agent_id,
        )
        return self.ask(request)

    def relate(
        self,
        workspace: str,
        memory_id: str,
        related: Iterable[Edge] = (),
        *,
        remove: Iterable[str] = (),
        scope: str = "",
        allow_secret: bool = False,
        key: str = "",
        agent_id: str = "",
    ) -> Remembered:
        """Write a new version with links added, or with those to the ids of `remove` taken away."""
        request = Relate(
            workspace=workspace,
            memory_id=memory_id,
            related=tuple(related),
            remove=tuple(remove),
            scope=scope,
            allow_secret=allow_secret,
            key=key,
            agent_id=agent_id,
        )
        return self.ask(request)

    def move(
        self,
        workspace: str,
        memory_id: str,
        to: str,
        *,
        scope: str = "",
        allow_secret: bool = False,
        key: str = "",
        agent_id: str = "",
    ) -> Moved:
        """Give a memory another scope, `to` repo, user or agent: anew there, the old ones in the trash."""
        request = Move(
            workspace=workspace,
            memory_id=memory_id,
            to=to,
            scope=scope,
            allow_secret=allow_secret,
            key=key,
            agent_id=agent_id,
        )
        return self.ask(request)

    def restore(
        self, workspace: str, memory_id: str = "", *, scope: str = "", key: str = "", agent_id: str = ""
    ) -> Restored:
        """Take back a forget or an undo of the last 7 days; without an id say what could be taken back."""
        request = Restore(workspace=workspace, memory_id=memory_id, scope=scope, key=key, agent_id=agent_id)
        return self.ask(request)
