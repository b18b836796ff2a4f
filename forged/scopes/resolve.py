"""From the workspace that a request names to the roots it may see and the settings that hold there.

In goes the path that an agent says it works in, in whatever spelling; out comes a `Workplace`. WorkspaceError
is raised when it is no directory that can be entered.

A repository is somebody else's text on somebody's disk, so it is looked at in threads of this module's own
and never on the event loop: 64 KiB of TOML took 336 ms. What was found is kept for 5 s, the roots by spelling
and the settings by the repository's top, so twelve subdirectories of one clone look at its
`.forge/config.toml` once; and that file is parsed once for each of its versions. Whoever asks for what is
being looked at waits for that look, and the number of answers that are kept is bounded.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from forged import config
from forged.config import Config, MemoryConfig, RepoConfig
from forged.errors import WorkspaceError
from forged.files import Root, made_org_root, org_root, resolve, root_of_agent
from forged.map import VectorMap
from forged.maps import Indexer
from forged.memory import Scope
from forged.scopes.others import OtherScope
from forged.scopes.view import FileRoots
from forged_client.envelope import identity_of

KEPT_S = 5.0
MOST_KEPT = 1024
_MOST_SEEN = 64
# Characters. No path is longer, and a spelling may hold any number of `/./`.
_LONGEST = 4096
# A disk that hangs holds one of them; the others go on.
_THREADS = 4

_T = TypeVar("_T")
_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


class Workplace(msgspec.Struct, frozen=True, eq=False):
    """A workspace, resolved: its roots (repo before user), their tops, and the settings that hold in it.

    `files` are those roots as they are searched, `others` the scopes that are searched beside them; `off` is
    why memory is off here, or nothing.
    """

    roots: tuple[Root, ...]
    files: FileRoots
    tops: tuple[str, ...]
    settings: MemoryConfig
    off: str = ""
    warnings: tuple[str, ...] = ()
    others: tuple[OtherScope, ...] = ()

    def maps(self) -> tuple[VectorMap, ...]:
        """The maps that are there now, of its roots and beside them."""
        own = self.files.maps()
        return (*own, *(home for each in self.others for home in each.files.maps())) if self.others else own


class Resolver:
    """Resolves workspaces for all requests of one daemon. To be used on its event loop."""

    def __init__(
        self, home: str, user: Config, indexer: Indexer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`home` is the user's directory, `user` the configuration; a repository may set four keys of it."""
        self.home = home
        self._user = user
        self._indexer = indexer
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
        self._places = _Looks(self._place, clock)
        self._repositories = _Looks(self._repository, clock)
        self._agents = _Looks(self._agent, clock)
        self._versions: OrderedDict[str, _Version] = OrderedDict()
        self._agreed: OrderedDict[frozenset[tuple[str, str]], float] = OrderedDict()  # until when

    async def agree(self, seen: Mapping[str, str]) -> None:
        """Compare what a client sees at its paths with what is there for the daemon, by a fresh look.

        A mismatch is looked at once more: a folder may have been replaced between the two looks. Raises
        WorkspaceError where they mean different folders, as in containers that share a HOME.
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

    def agrees(self, seen: Mapping[str, str]) -> bool:
        """Whether a look of the last seconds has found just this at these paths. Switches no task.

        What the client sees is looked at with each request, so only a mount that changes for the daemon alone
        is noticed later.
        """
        return not seen or self._agreed.get(frozenset(seen.items()), 0.0) > self._clock()

    def resolve(self, workspace: str) -> Awaitable[Workplace]:
        """What `workspace` stands for. Switches no task while it is known. Raises WorkspaceError."""
        return self._places.find(workspace)

    async def within(
        self, place: Workplace, scope: str, agent_id: str = "", *, make: bool = False
    ) -> Workplace:
        """A place of one root alone: an agent's, which may have none yet, or the organization's.

        Raises WorkspaceError for what is no agent's id, StoreError where a root is to be made and cannot be.
        """
        roots: tuple[Root, ...]
        if scope == Scope.ORG:
            made = await self._in_thread(partial(made_org_root, self.home)) if make else None
            roots = self.roots_of_org() if made is None else (made,)
        elif make:
            roots = await self._in_thread(partial(_made, self.home, agent_id))
            self._agents.drop(agent_id)
        else:
            roots = await self.roots_of_agent(agent_id)
        return self._of(place, roots)

    def without_roots(self, place: Workplace) -> Workplace:
        """A place of no files at all."""
        return self._of(place, ())

    def _of(self, place: Workplace, roots: tuple[Root, ...]) -> Workplace:
        files, tops = FileRoots(self._indexer, roots), tuple(root.top for root in roots)
        return msgspec.structs.replace(place, roots=roots, files=files, tops=tops)

    def roots_of_agent(self, agent_id: str) -> Awaitable[tuple[Root, ...]]:
        """The root of an agent, if it has one. Raises WorkspaceError for what is no id."""
        return self._agents.find(agent_id)

    def roots_of_org(self) -> tuple[Root, ...]:
        """The root of the documents that all agents may read."""
        return (org_root(self.home),)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _place(self, workspace: str) -> tuple[Workplace, float]:
        found = await self._in_thread(partial(resolve, workspace, self.home))
        # The work tree's own, which the store in a bare clone's git directory has not.
        repos = [root for root in found if root.scope is Scope.REPO]
        top = next((root.top for root in (*filter(_has_files, repos), *repos)), None)
        if top is None:
            return self._workplace(found, self._user.memory, ()), self._clock() + KEPT_S
        repository = await self._repositories.find(top)
        return self._workplace(found, repository.settings, repository.warnings), repository.until

    async def _agent(self, agent_id: str) -> tuple[tuple[Root, ...], float]:
        root = await self._in_thread(partial(root_of_agent, self.home, agent_id))
        return (() if root is None else (root,)), self._clock() + KEPT_S

    async def _repository(self, top: str) -> tuple[_Repository, float]:
        version = await self._in_thread(partial(_read, top, self._versions.get(top)))
        _keep(self._versions, top, version)
        until = self._clock() + KEPT_S
        settings = config.apply(self._user, version.asked)
        return _Repository(settings, version.warnings, until), until

    def _workplace(
        self, found: tuple[Root, ...], settings: MemoryConfig, warnings: tuple[str, ...]
    ) -> Workplace:
        files, tops = FileRoots(self._indexer, found), tuple(root.top for root in found)
        off = "" if settings.enabled else "memory.enabled is false"
        return Workplace(found, files, tops, settings, off, warnings)

    def _in_thread(self, look: Callable[[], _Found]) -> Awaitable[_Found]:
        return asyncio.get_running_loop().run_in_executor(self._threads, look)


def _has_files(root: Root) -> bool:
    return root.has_files


def _made(home: str, agent_id: str) -> tuple[Root, ...]:
    root = root_of_agent(home, agent_id, make=True)
    return () if root is None else (root,)


class _Version(msgspec.Struct, frozen=True):
    """One version of a repository's file: what tells it from the next, and what it asks for."""

    identity: tuple[int, int, int] | None
    asked: RepoConfig
    warnings: tuple[str, ...]


class _Repository(msgspec.Struct, frozen=True):
    """The settings of one repository, and until when they need no new look."""

    settings: MemoryConfig
    warnings: tuple[str, ...]
    until: float


class _Looks(Generic[_T]):
    """Answers of a slow look by key: each kept until a time that the look says, and one look at a time."""

    def __init__(
        self, look: Callable[[str], Awaitable[tuple[_T, float]]], clock: Callable[[], float]
    ) -> None:
        self._look = look
        self._clock = clock
        self._kept: OrderedDict[str, tuple[_T, float]] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[tuple[_T, float]]] = {}

    async def find(self, key: str) -> _T:
        """The answer for a key. Raises what the look raises; a failure is not kept."""
        if (known := self.known(key)) is not None:
            return known
        look = self._under_way.get(key)
        if look is None:
            look = self._under_way[key] = asyncio.ensure_future(self._look(key))
            look.add_done_callback(partial(self._ended, key))
        answer, _ = await asyncio.shield(look)  # one who gives up does not take it from the others
        return answer

    def known(self, key: str) -> _T | None:
        """The answer for a key if it is still good."""
        kept = self._kept.get(key)
        return kept[0] if kept is not None and self._clock() < kept[1] else None

    def drop(self, key: str) -> None:
        """Look again the next time."""
        self._kept.pop(key, None)

    def _ended(self, key: str, look: asyncio.Future[tuple[_T, float]]) -> None:
        del self._under_way[key]
        if not look.cancelled() and look.exception() is None and len(key) <= _LONGEST:
            _keep(self._kept, key, look.result())


def _identities(paths: tuple[str, ...]) -> dict[str, str]:
    return {path: identity_of(path) if os.path.isabs(path) else "" for path in paths}


def _disagreement(path: str, here: str, there: str) -> str:
    """Why a path cannot be used, for who asked and who may have never heard of another daemon."""
    if here and there:
        what = f"{path!r} is another folder or file for the daemon than for you"
    elif there:
        what = f"{path!r} is not there for the daemon"
    else:
        what = f"{path!r} is there for the daemon and not for you"
    return (
        f"{what}: the daemon (pid {os.getpid()}) runs in another container, chroot or mount namespace. "
        "Start one here: set XDG_STATE_HOME and XDG_RUNTIME_DIR to folders of this container "
        "(`forgectl docs containers`)"
    )


def _keep(kept: OrderedDict[_Key, _T], key: _Key, answer: _T) -> None:
    """Put an answer in, and drop the oldest while there are too many."""
    kept[key] = answer
    kept.move_to_end(key)
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _read(top: str, known: _Version | None) -> _Version:
    """The file of a repository as it is now; `known` itself if that has not changed. Runs in a thread."""
    identity = config.repo_identity(Path(top))
    if known is not None and identity is not None and known.identity == identity:
        return known
    asked, warnings = config.repo_overrides(Path(top))
    return _Version(identity, asked, warnings)
