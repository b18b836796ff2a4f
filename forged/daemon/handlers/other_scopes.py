"""Which scopes beside its workspace's roots a request searches: those of `[scopes].retrieve` that it names.

An agent's memories are in the place of a request of that agent alone, a session's in one of that session.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import msgspec

from forged.daemon.handlers.context import Context, Daemon
from forged.files import AGENT_ID, Root
from forged.memory import Scope
from forged.retrieval import Answer
from forged.scopes import FileRoots, OneSession, OtherScope, Ranked, Workplace, root_of_session


async def with_others(context: Context, place: Workplace, *, agent: str, session_id: str) -> Workplace:
    """The place with what the configuration wants beside it."""
    daemon, scopes = context.daemon, context.daemon.config.scopes
    if not scopes.retrieve:
        return place
    wanted, roots = scopes.retrieved, tuple[Root, ...]()
    if Scope.AGENT in wanted and AGENT_ID.fullmatch(agent):
        roots = await daemon.resolver.roots_of_agent(agent)
    if Scope.ORG in wanted:
        roots = (*roots, *daemon.resolver.roots_of_org())
    others = [OtherScope(each.scope, each.top, FileRoots(daemon.indexer, (each,))) for each in roots]
    if Scope.SESSION in wanted and session_id:
        seen = OneSession(daemon.session_views, session_id)
        others.insert(0, OtherScope(Scope.SESSION, root_of_session(session_id), seen))
    return msgspec.structs.replace(place, others=tuple(others))


def is_whole(place: Workplace, answer: Answer) -> bool:
    """Whether all that was found beside the workspace's roots is still there: a session's memories expire."""
    homes = {home.root: home for each in place.others for home in each.files.maps()}
    expected = {each.root for each in place.others}
    return all(
        (home := homes.get(each.root)) is not None and home.find(each.memory.id) is not None
        for each in answer.ranked
        if each.root in expected
    )


def count_found(daemon: Daemon, found: Iterable[Ranked]) -> None:
    """Let it be known that these were found."""
    in_files: list[tuple[str, str]] = []
    for each in found:
        if each.memory.scope == Scope.SESSION:
            daemon.session_memories.use(each.memory.id)
        else:
            in_files.append(each.key)
    daemon.state.accesses.hit(in_files)


def is_for(scope: str, root: str, *, agent: str, session_id: str) -> bool:
    """Whether what has this root may be shown to whoever names an agent and a session."""
    if scope == Scope.AGENT:
        return bool(agent) and PurePath(root).name == agent
    return scope != Scope.SESSION or (bool(session_id) and root == root_of_session(session_id))
