"""Attributes of memories in requests and in replies: read, checked, looked up and counted.

Raises InvalidRequest, saying what to change.
"""

from __future__ import annotations

import os

import msgspec

from forged.attributes import Facts, FactsPatch, metadata_problem, patch_of
from forged.daemon.handlers.context import Context, Daemon
from forged.daemon.handlers.convert import record
from forged.errors import InvalidRequest
from forged.files import AGENT_ID
from forged.map import VectorMap
from forged.memory import TYPES, Memory, Scope
from forged.stores import facts_in_session
from forged.text.private import without_private
from forged_client import protocol as wire

_MOST_NAME = 200


def patch_in(request: wire.Remember, scope: str) -> FactsPatch:
    """Return the attributes that a request sets. The root of an agent's memory says the agent."""
    for name in (request.agent_id, request.user_id):
        if len(name) > _MOST_NAME or not name.isprintable():
            raise InvalidRequest(f"{name[:64]!r} is no id; use up to {_MOST_NAME} printable characters")
    patch = FactsPatch(
        memory_type=request.memory_type or None,
        importance=request.importance,
        metadata=request.metadata or None,
        agent_id=None if scope == Scope.AGENT else request.agent_id or None,
        user_id=request.user_id or None,
    )
    if problem := patch.problem(scope):
        raise InvalidRequest(problem)
    if any(without_private(text) != text for text in names_in(request)):
        raise InvalidRequest("metadata holds what is marked private; leave it out")
    return patch


def names_in(request: wire.Remember) -> tuple[str, ...]:
    if problem := metadata_problem(request.metadata):
        raise InvalidRequest(problem)
    metadata = msgspec.json.encode(request.metadata).decode() if request.metadata else ""
    return tuple(filter(None, (request.agent_id, request.user_id, metadata)))


def carried_over(facts: Facts, scope: str) -> FactsPatch:
    """Return the attributes of a memory that goes into another scope, where its type may be unknown."""
    if facts.memory_type not in TYPES.get(scope, ()):
        facts = msgspec.structs.replace(facts, memory_type="")
    return patch_of(facts)


def facts_of_file(daemon: Daemon, root: str, memory_id: str, *, agent_id: str = "") -> Facts:
    """Return those of a memory in a file; `agent_id` is whose root it lies in, where that is an agent's."""
    facts = daemon.state.facts(root, memory_id)
    return msgspec.structs.replace(facts, agent_id=agent_id) if agent_id else facts


def full_record(context: Context, home: VectorMap, found: Memory) -> wire.MemoryRecord:
    if home.scope == Scope.SESSION:
        facts = facts_in_session(context.daemon.session_memories, found.id)
    else:
        facts = facts_of_file(context.daemon, home.root, found.id, agent_id=agent_of(home))
    return record(home, found, facts)


def agent_of(home: VectorMap) -> str:
    """Return whose memories these are; nothing for those that no agent has for itself."""
    name = os.path.basename(home.root)
    return name if home.scope == Scope.AGENT and AGENT_ID.fullmatch(name) else ""
