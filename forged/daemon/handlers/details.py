"""What a request says of a memory beside its text, checked; and a memory's record with what is known of it.

Raises InvalidRequest, saying what to change.
"""

from __future__ import annotations

import os

import msgspec

from forged import memory
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import record
from forged.daemon.handlers.refusals import InvalidRequest
from forged.files import AGENT_ID
from forged.map import VectorMap
from forged.memory import Memory, Scope
from forged.scopes import facts_in_session
from forged.state import Detail, Said, metadata_problem, problem_of
from forged.text.private import without_private
from forged_client import protocol as wire

_MOST_NAME = 200


def said_of(request: wire.Remember, scope: str) -> Said:
    """What is said of a memory that comes into a scope. Of whom an agent's memory is, its root says."""
    for name in (request.agent_id, request.user_id):
        if len(name) > _MOST_NAME or not name.isprintable():
            raise InvalidRequest(f"{name[:64]!r} is no id; use up to {_MOST_NAME} printable characters")
    said = Said(
        memory_type=request.memory_type,
        importance=request.importance,
        metadata=request.metadata,
        agent_id="" if scope == Scope.AGENT else request.agent_id,
        user_id=request.user_id,
    )
    if problem := problem_of(said, scope):
        raise InvalidRequest(problem)
    if any(without_private(text) != text for text in names_in(request)):
        raise InvalidRequest("metadata holds what is marked private; leave it out")
    return said


def names_in(request: wire.Remember) -> tuple[str, ...]:
    """What of it could hold a secret."""
    if problem := metadata_problem(request.metadata):
        raise InvalidRequest(problem)
    metadata = msgspec.json.encode(request.metadata).decode() if request.metadata else ""
    return tuple(filter(None, (request.agent_id, request.user_id, metadata)))


def carried_over(detail: Detail, scope: str) -> Said:
    """What is known of a memory that goes into another scope, where there may be no such type."""
    kept = detail.memory_type if detail.memory_type in wire.TYPES.get(scope, ()) else ""
    return Said(kept, detail.importance, detail.metadata, detail.agent_id, detail.user_id)


def full_record(context: Context, home: VectorMap, found: Memory) -> wire.MemoryRecord:
    """A memory with what `state.db` knows of it."""
    if home.scope == Scope.SESSION:
        return _in_session(context, home, found)
    state = context.daemon.state
    detail, access = state.details.of(home.root, found.id), state.accesses.of(home.root, found.id)
    return msgspec.structs.replace(
        record(home, found),
        memory_type=detail.memory_type,
        importance=detail.importance,
        metadata=detail.metadata,
        agent_id=agent_of(home) or detail.agent_id,
        access_count=access.count,
        last_accessed=memory.utc(access.last / 1000) if access.last else "",
    )


def _in_session(context: Context, home: VectorMap, found: Memory) -> wire.MemoryRecord:
    facts = facts_in_session(context.daemon.session_memories, found.id)
    return msgspec.structs.replace(
        record(home, found),
        importance=facts.importance,
        metadata=dict(facts.metadata),
        agent_id=facts.agent_id,
        access_count=facts.access_count,
        last_accessed=facts.last_accessed,
    )


def agent_of(home: VectorMap) -> str:
    """Whose memories these are; nothing for those that no agent has for itself."""
    name = os.path.basename(home.root)
    return name if home.scope == Scope.AGENT and AGENT_ID.fullmatch(name) else ""
