"""`remember` in scope session: a memory that lives in the daemon, until its session ends or its time is over.

It is no file: it has no versions, links, cues or evidence, and is lost when the daemon ends, which the reply
says. Raises InvalidRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from forged.attributes import UNKNOWN
from forged.daemon.handlers.attributes import patch_in
from forged.daemon.handlers.context import Daemon
from forged.daemon.handlers.refusals import InvalidRequest
from forged.files import MAX_FILE_BYTES
from forged.memory import Scope
from forged.scopes import SessionMemory, Workplace, in_session
from forged_client import protocol as wire

_MOST_NAME = 200
_OF_FILES = ("supersedes", "related", "cues", "evidence")


def remember_in_session(
    daemon: Daemon, place: Workplace, request: wire.Remember, content: str, noted: Sequence[str]
) -> wire.Remembered:
    """Keep a text that may be kept; `noted` is what else is to be said about it."""
    _check(request, content)
    memories = daemon.session_memories
    kept = in_session(
        content, request.session_id, memories.clock(), category=request.category, origin=request.origin
    )
    facts = patch_in(request, Scope.SESSION).apply(UNKNOWN)
    there = memories.add(SessionMemory(kept, facts, memories.clock(), place.tops))
    until = there.facts.expires_at
    lost = f"in the daemon's memory until {until} at the latest, and lost if the daemon ends before"
    return wire.Remembered(
        memory_id=there.id,
        version=1,
        existed=there.id != kept.id,
        scope=Scope.SESSION,
        category=there.memory.category,
        reason="; ".join((*noted, lost)),
    )


def _check(request: wire.Remember, content: str) -> None:
    if not request.session_id or not request.agent_id:
        raise InvalidRequest("a session's memory needs a session_id and an agent_id (--session, --agent)")
    if len(request.session_id) > _MOST_NAME or not request.session_id.isprintable():
        raise InvalidRequest(f"a session_id has up to {_MOST_NAME} printable characters")
    if not content.strip():
        raise InvalidRequest("the content is blank; say what to remember")
    if len(content.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise InvalidRequest(f"the content is larger than {MAX_FILE_BYTES >> 10} KiB")
    if given := [name for name in _OF_FILES if getattr(request, name)]:
        raise InvalidRequest(f"a session's memory is no file and has no {', '.join(given)}")
