"""What is known of a memory beside its text, wherever it lies, and the note that it was recalled."""

from __future__ import annotations

import os
from collections.abc import Iterable

from forged.daemon.handlers.context import Daemon
from forged.memory import Scope, utc
from forged.retrieval import Facts, Recollection


def facts_of_file(daemon: Daemon, root: str, memory_id: str, *, agent_id: str = "") -> Facts:
    """Of a memory in a file; `agent_id` is whose root it lies in, where that is an agent's."""
    detail, access = daemon.state.details.of(root, memory_id), daemon.state.accesses.of(root, memory_id)
    return Facts(
        memory_type=detail.memory_type,
        importance=detail.importance,
        access_count=access.count,
        last_accessed=utc(access.last / 1000) if access.last else "",
        metadata=detail.metadata,
        agent_id=agent_id or detail.agent_id,
        user_id=detail.user_id,
    )


def facts_in_session(daemon: Daemon, memory_id: str) -> Facts:
    """Of a memory of a session."""
    row = daemon.session_memories.find(memory_id)
    if row is None:  # it has expired while it was looked for
        return Facts(importance=0.0)
    known = daemon.session_memories.used(memory_id)
    return Facts(
        memory_type=row.memory_type,
        importance=row.importance,
        access_count=known.count,
        last_accessed=utc(known.last) if known.last else "",
        expires_at=utc(daemon.session_memories.expires(row)),
        metadata=row.metadata,
        agent_id=row.agent_id,
        user_id=row.user_id,
        source=row.source,
    )


def note_used(daemon: Daemon, found: Iterable[Recollection]) -> None:
    """Count that these were recalled, of sessions and of files."""
    in_files = []
    for each in found:
        if each.ranked.memory.scope == Scope.SESSION:
            daemon.session_memories.use(each.ranked.memory.id)
        elif os.path.isabs(each.ranked.root):
            in_files.append(each.ranked.key)
    daemon.state.accesses.hit(in_files)
