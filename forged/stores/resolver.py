"""Resolver: maps the path that an agent works in, in any spelling, to its stores.

Raises WorkspaceError for a path that is no directory. Disks are read in threads of this module, never on the
event loop: 64 KiB of TOML took 336 ms. Answers are kept for 5 s. Concurrent requests share one look-up.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from forged import config
from forged.config import Config, MemoryConfig, RepoConfig
from forged.errors import WorkspaceError
from forged.files import AGENT_ID, Root, make_org_root, org_root, resolve, root_of_agent
from forged.map import Ranked, VectorMap
from forged.maps import Indexer
from forged.memory import Scope
from forged.state import State
from forged.stores.session_memories import SessionMemories
from forged.stores.session_views import SessionStore, SessionViews
from forged.stores.store import FileStore, Store
from forged_client.envelope import identity_of

KEPT_S = 5.0
MOST_KEPT = 1024
_MOST_SEEN = 64
_LONGEST = 4096  # characters of a cached key: a spelling of a path may hold any number of `/./`
_THREADS = 4  # a hanging disk blocks one; the others go on

_Key = TypeVar("_Key")
_T = TypeVar("_T")


class Workplace(msgspec.Struct, frozen=True, eq=False):
    """A resolved workspace: its roots (repo before user), their tops, its stores and settings.

    `files` is the store of those roots, `others` are searched with it. `off` is the reason why memory is off.
    """

    roots: tuple[Root, ...]
    files: FileStore
    tops: tuple[str, ...]
    settings: MemoryConfig
    off: str = ""
    warnings: tuple[str, ...] = ()
    others: tuple[Store, ...] = ()

    @property
    def stores(self) -> tuple[Store, ...]:
        return (self.files, *self.others)

    def maps(self) -> tuple[VectorMap, ...]:
        """Return the maps of all stores of the workplace that exist now."""
        return tuple(home for each in self.stores for home in each.maps())

    def map_versions(self) -> tuple[tuple[str, int], ...]:
        """Return root and generation of each map: they change whenever the map's memories do."""
        return tuple((home.root, home.generation) for home in self.maps())

    def still_has(self, found: Iterable[Ranked]) -> bool:
        """Return True if memories found in other stores still exist: those of a session expire."""
        elsewhere = (each for each in found if each.root not in self.tops)
        return all(any(store.has(each) for store in self.others) for each in elsewhere)


class Resolver:
    """Resolves the path that an agent works in to its roots, settings and stores, with a cache."""

    def __init__(
        self,
        home: str,
        user: Config,
        indexer: Indexer,
        clock: Callable[[], float] = time.monotonic,
        *,
        state: State | None = None,
        sessions: tuple[SessionMemories, SessionViews] | None = None,
        team: Callable[[tuple[str, ...]], tuple[Store, ...]] = lambda _: (),
    ) -> None:
        """Create a resolver for a `home`; `team` returns stores of team documents, for a caller's roots."""
        self.home = home
        self._user = user
        self._indexer = indexer
        self._state = state
        self._sessions = sessions
        self._team = team
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
        self._places = _LookupCache(self._look_up_place, clock)
        self._repositories = _LookupCache(self._look_up_repo, clock)
        self._agents = _LookupCache(self._look_up_agent, clock)
        self._versions: OrderedDict[str, _ConfigVersion] = OrderedDict()
        self._agreed: OrderedDict[frozenset[tuple[str, str]], float] = OrderedDict()  # valid until

    async def check_paths(self, seen: Mapping[str, str]) -> None:
        """Raise WorkspaceError if paths are other folders for the daemon than for the client.

        A mismatch is checked once more: a folder may have been replaced meanwhile. Raises WorkspaceError if
        they mean different folders, as in containers that share a HOME.
        """
        if len(seen) > _MOST_SEEN:
            raise WorkspaceError(f"a request may name {_MOST_SEEN} paths, and this one names {len(seen)}")
        for _ in range(2):
            found = await self._in_thread(partial(_identities, tuple(seen)))
            _keep(self._agreed, frozenset(found.items()), self._clock() + KEPT_S)
            if all(found[path] == seen[path] for path in seen):
                return
        path = next(path for path in seen if found[path] != seen[path])
        raise WorkspaceError(_disagreement(path, found[path], seen[path]))

    def has_checked(self, seen: Mapping[str, str]) -> bool:
        """Return True if `check_paths` found the same in the last 5 s, or for no paths."""
        return not seen or self._agreed.get(frozenset(seen.items()), 0.0) > self._clock()

    def resolve(self, workspace: str) -> Awaitable[Workplace]:
        """Return the workplace of a path, cached for some seconds. Raises WorkspaceError."""
        return self._places.find(workspace)

    async def with_others(self, place: Workplace, *, agent: str, session_id: str) -> Workplace:
        """Return the workplace with the agent's, session's and org's stores that `[scopes].retrieve` adds."""
        if not self._user.scopes.retrieve:
            return place
        wanted = self._user.scopes.retrieved
        named = agent if AGENT_ID.fullmatch(agent) else ""
        scopes = [scope for scope in (Scope.SESSION, Scope.AGENT, Scope.ORG) if scope in wanted]
        others = await self.stores(place, scopes, agent=named, session_id=session_id)
        others += self._team(place.tops) if Scope.ORG in wanted else ()
        return msgspec.structs.replace(place, others=others)

    async def stores(
        self, place: Workplace, scopes: Iterable[Scope], *, agent: str, session_id: str
    ) -> tuple[Store, ...]:
        """Return stores of scopes in their order, of this agent and session. Raises WorkspaceError."""
        found = list[Store]()
        for scope in scopes:
            if scope is not Scope.SESSION:
                roots = await self._roots_of(place, scope, agent)
                owner = agent if scope is Scope.AGENT else ""
                found += [self._make_file_store(roots[:1], scope, owner)] if roots else []
            elif session_id and self._sessions is not None:
                found.append(SessionStore(*self._sessions, session_id))
        return tuple(found)

    async def _roots_of(self, place: Workplace, scope: Scope, agent: str) -> tuple[Root, ...]:
        if scope is Scope.AGENT:
            return await self._agents.find(agent) if agent else ()
        if scope is Scope.ORG:
            return (org_root(self.home),)
        return tuple(root for root in place.roots if root.scope is scope)

    def _make_file_store(self, roots: Iterable[Root], scope: str = "", owner: str = "") -> FileStore:
        return FileStore(self._indexer, roots, scope=scope, owner=owner, state=self._state)

    async def within(
        self, place: Workplace, scope: str, agent_id: str = "", *, make: bool = False
    ) -> Workplace:
        """Return a workplace of the agent's or organization's root alone; `make` may create it.

        Raises WorkspaceError for an invalid agent id, StoreError if a root has to be made and cannot be.
        """
        roots: tuple[Root, ...]
        if scope == Scope.ORG:
            made = await self._in_thread(partial(make_org_root, self.home)) if make else None
            roots = (made or org_root(self.home),)
        elif make:
            root = await self._in_thread(partial(root_of_agent, self.home, agent_id, make=True))
            roots = () if root is None else (root,)
            self._agents.drop(agent_id)
        else:
            roots = await self._agents.find(agent_id)
        return self.of_roots(place, roots)

    def of_roots(self, place: Workplace, roots: tuple[Root, ...]) -> Workplace:
        """Return a workplace with other roots in place of its own, and their store."""
        tops = tuple(root.top for root in roots)
        return msgspec.structs.replace(place, roots=roots, files=self._make_file_store(roots), tops=tops)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up_place(self, workspace: str) -> tuple[Workplace, float]:
        """Resolve a path on disk; return its workplace, and the time until which it is valid."""
        found = await self._in_thread(partial(resolve, workspace, self.home))
        # The top of the work tree; a store in a bare clone's git directory has none.
        repos = [root for root in found if root.scope is Scope.REPO]
        top = next((root.top for root in sorted(repos, key=lambda each: not each.has_files)), None)
        if top is None:
            return self._make_workplace(found, self._user.memory, ()), self._clock() + KEPT_S
        settings, warnings, until = await self._repositories.find(top)
        return self._make_workplace(found, settings, warnings), until

    async def _look_up_agent(self, agent_id: str) -> tuple[tuple[Root, ...], float]:
        """Return the root of an agent, if it has one, and the time until which that is valid."""
        root = await self._in_thread(partial(root_of_agent, self.home, agent_id))
        return () if root is None else (root,), self._clock() + KEPT_S

    async def _look_up_repo(self, top: str) -> tuple[tuple[MemoryConfig, tuple[str, ...], float], float]:
        """Return a repository's memory settings, warnings about them, and the time of the next look."""
        version = await self._in_thread(partial(_read_config, top, self._versions.get(top)))
        _keep(self._versions, top, version)
        until = self._clock() + KEPT_S
        return (config.apply(self._user, version.asked), version.warnings, until), until

    def _make_workplace(
        self, roots: tuple[Root, ...], settings: MemoryConfig, warnings: tuple[str, ...]
    ) -> Workplace:
        off = "" if settings.enabled else "memory.enabled is false"
        tops = tuple(root.top for root in roots)
        return Workplace(roots, self._make_file_store(roots), tops, settings, off, warnings)

    def _in_thread(self, look: Callable[[], _T]) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, look)


class _ConfigVersion(msgspec.Struct, frozen=True):
    """One version of a repository's configuration file: its identity, settings and warnings."""

    identity: tuple[int, int, int] | None
    asked: RepoConfig
    warnings: tuple[str, ...]


class _LookupCache(Generic[_T]):
    """Cache of slow look-ups by key, each kept until its own time; one look-up at a time for a key."""

    def __init__(
        self, look: Callable[[str], Awaitable[tuple[_T, float]]], clock: Callable[[], float]
    ) -> None:
        self._look, self._clock = look, clock
        self._kept: OrderedDict[str, tuple[_T, float]] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[tuple[_T, float]]] = {}

    async def find(self, key: str) -> _T:
        """Return the answer for a key. Raises the error of the look-up; a failure is not kept."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[1]:
            return kept[0]
        look = self._under_way.get(key)
        if look is None:
            look = self._under_way[key] = asyncio.ensure_future(self._look(key))
            look.add_done_callback(partial(self._store_answer, key))
        answer, _ = await asyncio.shield(look)  # a cancelled caller does not cancel it for the others
        return answer

    def drop(self, key: str) -> None:
        """Forget the answer for a key, so that the next call looks again."""
        self._kept.pop(key, None)

    def _store_answer(self, key: str, look: asyncio.Future[tuple[_T, float]]) -> None:
        """Cache the result of a look-up that has ended without an error."""
        del self._under_way[key]
        if not look.cancelled() and look.exception() is None and len(key) <= _LONGEST:
            _keep(self._kept, key, look.result())


def _identities(paths: tuple[str, ...]) -> dict[str, str]:
    """Return the identity of the file or folder at each absolute path, "" for none."""
    return {path: identity_of(path) if os.path.isabs(path) else "" for path in paths}


def _disagreement(path: str, here: str, there: str) -> str:
    """Return the error text for a path that differs for daemon and client, or that one lacks."""
    if here and there:
        what = f"{path!r} is another folder or file for the daemon than for you"
    elif there:
        what = f"{path!r} does not exist for the daemon"
    else:
        what = f"{path!r} exists for the daemon but not for you"
    return (
        f"{what}: the daemon (pid {os.getpid()}) runs in another container, chroot or mount namespace. "
        "Start one here: set XDG_STATE_HOME and XDG_RUNTIME_DIR to folders of this container "
        "(`forgectl docs containers`)"
    )


def _keep(kept: OrderedDict[_Key, _T], key: _Key, answer: _T) -> None:
    """Put an answer into a cache, and drop the oldest while there are too many."""
    kept[key] = answer
    kept.move_to_end(key)
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _read_config(top: str, known: _ConfigVersion | None) -> _ConfigVersion:
    """Return the current version of a repository's configuration; `known` itself if it is unchanged."""
    identity = config.repo_identity(Path(top))
    if known is not None and identity is not None and known.identity == identity:
        return known
    asked, warnings = config.repo_overrides(Path(top))
    return _ConfigVersion(identity, asked, warnings)
