"""`recall`: what a session, the user, an agent and the organization remember about a query, as one list.

Each scope is a place that is searched by itself: a session in the daemon's memory, the others in files below
the user's own directory; of what is shared a team's server is asked as well. Who names no session or agent is
not answered from one, and an id that is not the user's finds nothing of the user's here. What was found is
counted as used. Raised is InvalidRequest.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from forged.config import Config
from forged.daemon.handlers.context import Context, Daemon
from forged.daemon.handlers.convert import fitting
from forged.daemon.handlers.facts import facts_in_session, facts_of_file, note_used
from forged.daemon.handlers.heard import asked
from forged.daemon.handlers.recalled_rows import ServerRows
from forged.daemon.handlers.refusals import InvalidRequest
from forged.daemon.handlers.retrieve import budget_of, deadline_of, elapsed_ms
from forged.files import Root, org_root
from forged.memory import Scope
from forged.retrieval import (
    FIRST_BUILD,
    Facts,
    Known,
    Limits,
    Recollected,
    Recollection,
    combined,
    is_asked_for,
    render,
)
from forged.retrieval import Place as Asked
from forged.scopes import FileRoots, View, Workplace
from forged.state import metadata_problem
from forged_client import protocol as wire

_UNNAMED = "no scope could be searched: a session or an agent is named by its id, the user by this user's"
# How many memories each scope gives at most, in the order in which equals come.
_MOST = {Scope.SESSION: 10, Scope.USER: 5, Scope.AGENT: 3, Scope.ORG: 5}
_FOUR = tuple(_MOST)


async def recall(context: Context, place: Workplace, request: wire.Recall) -> wire.Recalled:
    """Search the scopes that are asked for, and make one list and one injection of what they found."""
    query, daemon = asked(request.query), context.daemon
    if not query.strip():
        raise InvalidRequest("the query is empty; say what to recall")
    _check_filters(request.filters)
    limits = _limits(daemon.config, place)
    scopes, deadline = _scopes(request, place), deadline_of(context, request.timeout_s, place)
    answering = [each for scope in scopes if (each := await _place(context, place, request, scope))]
    server = None if daemon.shared is None else ServerRows(daemon, daemon.shared, request, limits, deadline)
    owners = server.owners(scopes) if server is not None else {}
    found = await daemon.retriever.recaller.recall(
        query,
        answering,
        deadline=deadline,
        tops=place.tops,
        remote=partial(server.nearest, owners) if server is not None and owners else None,
        over=partial(server.reached, owners, query, place.tops) if server is not None and owners else None,
    )
    best = combined(found.lists, limits, found.reached)
    note_used(daemon, best)
    if server is not None:
        server.note_used(best)
    nothing = _nothing(request, found, here=bool(answering), there=bool(owners))
    return _reply(context, budget_of(request.token_budget, place), found, best, nothing)


def _reply(
    context: Context, budget: int, found: Recollected, best: Sequence[Recollection], nothing: str
) -> wire.Recalled:
    block = render([each.ranked for each in best], budget)
    status, reason = ("ok", "") if best else ("empty", nothing)
    if not best and found.is_waiting:
        status, reason = "not_ready", FIRST_BUILD
    return wire.Recalled(
        status=status,
        reason="; ".join(filter(None, (reason, *found.degraded))),
        memories=fitting([_recalled(each) for each in best]),
        text=block.text,
        included=block.included,
        omitted=block.omitted,
        degraded=found.degraded,
        legs=found.legs,
        elapsed_ms=elapsed_ms(context),
        embedding_ms=found.embedding_ms,
    )


def _nothing(request: wire.Recall, found: Recollected, *, here: bool, there: bool) -> str:
    """Return the reason for an empty result; `here` and `there` are the scopes of machine and server."""
    if not (here or there):
        return _UNNAMED
    if not (found.held or there):
        return "the scopes that were searched hold no memories yet"
    if request.filters:
        return "nothing is remembered about this that has the values of the filters"
    return "nothing is remembered about this"


def _recalled(each: Recollection) -> wire.RecalledMemory:
    memory = each.ranked.memory
    return wire.RecalledMemory(
        id=memory.id,
        scope=memory.scope,
        content=memory.content,
        score=each.score,
        distance=each.distance,
        created_at=memory.created_at,
        session_id=memory.session_id,
        root=each.ranked.root,
        path=each.path,
        **_beside(each),
    )


def _beside(each: Recollection) -> dict[str, Any]:
    """What is known beside the text; which part of a document it is, the memory itself says."""
    facts, piece = msgspec.structs.asdict(each.facts), each.ranked.memory.piece
    facts["metadata"] = dict(each.facts.metadata)
    if piece is not None:
        facts |= {"source": piece.source, "document_id": piece.document_id, "chunk_index": piece.index}
    return facts


# --- where to look -------------------------------------------------------------------------------------


def _scopes(request: wire.Recall, place: Workplace) -> tuple[Scope, ...]:
    """The scopes to search, in the order in which equals come. Raises InvalidRequest."""
    if Scope.REPO in request.scopes and not any(root.scope is Scope.REPO for root in place.roots):
        raise InvalidRequest("there is no repository to recall from; give a workspace that is in one")
    return tuple(scope for scope in (*_FOUR, Scope.REPO) if scope in (request.scopes or _FOUR))


def _limits(config: Config, place: Workplace) -> Limits:
    return Limits({**_MOST, Scope.REPO: place.settings.retrieval_top_k}, config.scopes.max_results)


async def _place(context: Context, place: Workplace, request: wire.Recall, scope: Scope) -> Asked | None:
    """Where memories of a scope lie for whoever asks; None if nowhere. Raises WorkspaceError for an agent."""
    daemon, limit = context.daemon, _limits(context.daemon.config, place).of[scope]
    if scope is Scope.SESSION:
        return _session(daemon, request, limit) if request.session_id else None
    root = await _root(daemon, place, request, scope)
    if root is None or not await _is_there(daemon, root):
        return None
    files = FileRoots(daemon.indexer, (root,))
    owner = request.agent_id if scope is Scope.AGENT else ""
    facts = partial(facts_of_file, daemon, agent_id=owner)
    return Asked(
        scope, partial(files.see, 0), limit, facts, _admits(daemon, request, daemon.state.details.of)
    )


def _session(daemon: Daemon, request: wire.Recall, limit: int) -> Asked:
    async def see(_: float) -> View:
        return daemon.session_views.view(request.session_id)

    def facts(_: str, memory_id: str) -> Facts:
        return facts_in_session(daemon, memory_id)

    def known(_: str, memory_id: str) -> Known | None:
        return daemon.session_memories.find(memory_id)

    return Asked(Scope.SESSION, see, limit, facts, _admits(daemon, request, known))


async def _root(daemon: Daemon, place: Workplace, request: wire.Recall, scope: Scope) -> Root | None:
    if scope is Scope.AGENT:
        found = await daemon.resolver.roots_of_agent(request.agent_id) if request.agent_id else ()
        return next(iter(found), None)
    if scope is Scope.ORG:
        return org_root(daemon.resolver.home)
    if scope is Scope.USER and not is_this_user(daemon.config, request.user_id):
        return None
    return next((root for root in place.roots if root.scope is scope), None)


async def _is_there(daemon: Daemon, root: Root) -> bool:
    """Whether the documents have a place: no request makes the daemon watch a mere name."""
    if root.scope is not Scope.ORG or any(index.root == root for index in daemon.indexer.indexes()):
        return True
    return await asyncio.to_thread(os.path.isdir, root.directories[0])


def is_this_user(config: Config, user_id: str) -> bool:
    """Whether an id names the user of this daemon, whose memories the files are."""
    return user_id in {"", config.shared.user_id or pwd.getpwuid(os.geteuid()).pw_name}


# --- filters -------------------------------------------------------------------------------------------


def _admits(
    daemon: Daemon, request: wire.Recall, known: Callable[[str, str], Known | None]
) -> Callable[[str, str], bool]:
    """Whether a memory may be found; `known` is asked of many, so it says no more than is looked at."""
    least, filters = daemon.config.scopes.min_importance, request.filters

    def admits(root: str, memory_id: str) -> bool:
        found = known(root, memory_id)
        return found is not None and is_asked_for(found, filters, least)

    return admits


def _check_filters(filters: Mapping[str, Any]) -> None:
    """A filter has the form of metadata. Raises InvalidRequest."""
    if problem := metadata_problem(filters):
        raise InvalidRequest(f"these filters match nothing that can be stored: {problem}")
