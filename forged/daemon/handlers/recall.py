"""`recall`: memories of a session, the user, an agent and the organization about a query, as one list.

Each scope is a store with a limit of its own; for shared scopes a team's server is asked as well. A request
that names no session or agent gets none of their memories, and another user's id gets none of the user's. The
use of found memories is counted. Raises InvalidRequest.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

import msgspec

from forged.attributes import metadata_problem
from forged.config import Config
from forged.daemon.handlers.request_context import Context, Daemon
from forged.daemon.handlers.retrieve import deadline_of, elapsed_ms
from forged.daemon.handlers.wire_types import fitting, found_record
from forged.errors import InvalidRequest
from forged.files import Root, agent_ids, agent_root, org_root
from forged.memory import Scope
from forged.sessions import budget_of, clean_query, render
from forged.stores import (
    FIRST_BUILD,
    Limits,
    Ranked,
    SearchResult,
    SessionMemories,
    Store,
    Workplace,
    matches_filters,
    root_of_session,
)
from forged_client import protocol as wire

_UNNAMED = "no scope was searched; give the id of a session or an agent, or this user's id"
# Limit of each scope, in the order of equal results.
_FOUR = Scope.SESSION, Scope.USER, Scope.AGENT, Scope.ORG
_MOST = dict[str, int](zip(_FOUR, (10, 5, 3, 5), strict=True))


async def recall(context: Context, place: Workplace, request: wire.Recall) -> wire.Recalled:
    """Search the requested scopes; return one list of memories and its text; count their use."""
    query, daemon, sharing = clean_query(request.query), context.daemon, context.daemon.sharing
    if not query.strip():
        raise InvalidRequest("the query is empty; say what to look for")
    if problem := metadata_problem(request.filters):
        raise InvalidRequest(f"these filters match nothing that can be stored: {problem}")
    limits = Limits({**_MOST, Scope.REPO: place.settings.retrieval_top_k}, daemon.config.scopes.max_results)
    scopes, deadline = _scopes_to_search(request, place), deadline_of(context, request.timeout_s, place)
    here = [scope for scope in scopes if await _may_answer(daemon, request, scope)]
    stores = await daemon.resolver.stores(place, here, agent=request.agent_id, session_id=request.session_id)
    named = {Scope.SESSION: request.session_id, Scope.USER: request.user_id, Scope.AGENT: request.agent_id}
    wanted = request.filters, daemon.config.scopes.min_importance
    server = sharing.stores(scopes, named, wanted, deadline=deadline, tops=place.tops)
    found, embedding_ms = await daemon.retriever.recall(
        query,
        (*stores, *server),
        limits,
        admits=_attribute_filter(daemon, request),
        deadline=deadline,
        tops=place.tops,
    )
    block = render(found.ranked, budget_of(request.token_budget, place))
    status, reason = ("ok", "") if found.ranked else ("empty", _empty_reason(request, found, here, server))
    if not found.ranked and found.unread:
        status, reason = "not_ready", FIRST_BUILD
    recalled = [_recalled_record(each, (*stores, *server)) for each in found.ranked]
    for store in (*stores, *server):
        store.use(found.ranked)
    return wire.Recalled(
        status=status,
        reason="; ".join(filter(None, (reason, *found.missing))),
        memories=fitting(recalled),
        text=block.text,
        included=block.included,
        omitted=block.omitted,
        degraded=found.missing,
        indexes=tuple(sorted(found.indexes, reverse=True)),
        elapsed_ms=elapsed_ms(context),
        embedding_ms=embedding_ms,
    )


def _empty_reason(
    request: wire.Recall, found: SearchResult, here: Sequence[Scope], server: Sequence[Store]
) -> str:
    """Return why a recall found nothing; `here` are the scopes of this machine that may answer."""
    owners = {Scope.SESSION: request.session_id, Scope.AGENT: request.agent_id}
    named = [scope for scope in here if owners.get(scope, scope)]
    if not (named or server or Scope.ORG in request.scopes):
        return _UNNAMED
    searched = ", ".join(named or request.scopes)
    if not (found.held or server):
        return f"no memories yet; searched: {searched}"
    if request.filters:
        return f"no memory matches the query and has the values of the filters; searched: {searched}"
    return f"no memory matches the query; searched: {searched}"


def _recalled_record(each: Ranked, stores: tuple[Store, ...]) -> wire.MemoryRecord:
    """Return a recalled memory as a wire record with attributes."""
    facts = next(filter(None, (store.attributes(each) for store in stores)))
    found = wire.Ranking(score=each.score, distance=each.distance, found_by=each.found_by, path=each.path)
    return msgspec.structs.replace(found_record(each, facts), found=found, session_id=each.memory.session_id)


# --- where to look -------------------------------------------------------------------------------------


def _scopes_to_search(request: wire.Recall, place: Workplace) -> tuple[Scope, ...]:
    """Return the scopes that a recall searches; in this order equal results are ranked."""
    wanted = set(request.scopes or _FOUR)
    if not any(root.scope is Scope.REPO for root in place.roots):
        if wanted == {Scope.REPO}:
            raise InvalidRequest("there is no repository to search; give a workspace that is in one")
        wanted.discard(Scope.REPO)
    return tuple(scope for scope in (*_FOUR, Scope.REPO) if scope in wanted)


async def _may_answer(daemon: Daemon, request: wire.Recall, scope: Scope) -> bool:
    """Return False for the user scope of another user, and for an org scope without a folder."""
    if scope is Scope.USER:
        return is_this_user(daemon.config, request.user_id)
    root = org_root(daemon.resolver.home)
    if scope is not Scope.ORG or any(index.root == root for index in daemon.indexer.indexes()):
        return True
    return await asyncio.to_thread(os.path.isdir, root.directories[0])


def is_this_user(config: Config, user_id: str) -> bool:
    """Return True if an id names the user of this daemon, who owns the files, or is empty."""
    return user_id in {"", config.shared.owner_id}


def _attribute_filter(daemon: Daemon, request: wire.Recall) -> Callable[[str, str], bool]:
    """Return a filter of memories by importance and metadata for a recall; it is called for many."""
    least, filters = daemon.config.scopes.min_importance, request.filters
    attributes, memories = daemon.state.attributes, daemon.session_memories
    session = root_of_session(request.session_id)

    def admits(root: str, memory_id: str) -> bool:
        if root != session:
            return matches_filters(attributes.of(root, memory_id), filters, least)
        row = memories.find(memory_id)
        return row is not None and matches_filters(row.facts, filters, least)

    return admits


# --- in status -------------------------------------------------------------------------------------------


async def scope_reports(sessions: SessionMemories, config: Config, home: str) -> tuple[wire.ScopeReport, ...]:
    """Report the memories of sessions, agents and the organization, for `status`."""
    agents, org = await asyncio.to_thread(_count_files, home)
    rows, wanted = sum(1 for _ in sessions.all()), config.scopes.retrieved
    return (
        wire.ScopeReport(
            scope=Scope.SESSION,
            engine="memory",
            owners=sessions.sessions,
            memories=rows,
            retrieved=Scope.SESSION in wanted,
            lasts_s=sessions.ttl_s,
            dropped=sessions.dropped,
        ),
        wire.ScopeReport(
            scope=Scope.AGENT,
            engine="files",
            place=os.path.dirname(agent_root(home, "any").top),
            owners=len(agents),
            memories=sum(agents),
            retrieved=Scope.AGENT in wanted,
        ),
        wire.ScopeReport(
            scope=Scope.ORG,
            engine="files",
            place=org_root(home).top,
            owners=int(org > 0),
            memories=org,
            retrieved=Scope.ORG in wanted,
        ),
    )


def _count_files(home: str) -> tuple[list[int], int]:
    """Return the number of memory files of each agent, and of the organization."""
    agents = [_count_files_in(agent_root(home, each)) for each in agent_ids(home)]
    return agents, _count_files_in(org_root(home))


def _count_files_in(root: Root) -> int:
    """Return the number of memory files of a root."""
    names = 0
    for directory in root.directories:
        try:
            names += sum(name.endswith(".md") and not name.startswith(".") for name in os.listdir(directory))
        except OSError:
            continue
    return names
