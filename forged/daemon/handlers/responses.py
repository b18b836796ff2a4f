"""What an agent answers goes into the memory of its session, where `[scopes].retrieve` names sessions.

Of a finished turn that was taken for capture it is the newest response: without tool output and private
spans, as capture has heard it, without what we injected ourselves and without secrets, and no more than a
piece of a document has. It goes with its session, and is no file. Nothing is raised.
"""

from __future__ import annotations

import asyncio

from forged.attributes import Facts
from forged.capture import Submission, response_in
from forged.daemon.handlers.context import Daemon
from forged.memory import Origin, Scope
from forged.scopes import SessionMemory, Workplace, in_session


async def remember_response(daemon: Daemon, place: Workplace, spoken: Submission) -> None:
    """Keep what ends a turn, if it is a response. A turn that comes again says nothing new."""
    is_wanted = Scope.SESSION in daemon.config.scopes.retrieved and spoken.session_id
    is_whole = spoken.parts == 1 and not (spoken.begun or spoken.goes_on)
    newest = spoken.said[-1:]
    if spoken.kind != "turn" or not (is_wanted and is_whole) or any(each.role == "user" for each in newest):
        return
    text = await asyncio.to_thread(response_in, newest, spoken.injected)
    if not text:
        return
    memories = daemon.session_memories
    now = memories.clock()
    kept = in_session(text, spoken.session_id, now, origin=Origin.AGENT)
    memories.add(SessionMemory(kept, Facts(agent_id=spoken.agent), now, place.tops))
