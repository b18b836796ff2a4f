"""Synchronize the user's and the agents' roots of this machine with those of other machines.

Files are the truth, and the server is the meeting point. A round starts when a map has changed here, when the
server reports a change, when it returns, and every half a minute. While the server is away nothing is lost
and no caller waits: later the changes are found in the files and in `state.db`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from functools import partial

from forged.errors import ProviderError, SharedError, StoreError
from forged.files import Root, agent_ids, agent_root, root_at
from forged.maps import BuildEvent, Indexer
from forged.memory import Scope
from forged.postgres.listening import OwnerChange
from forged.postgres.owner_rows import OwnerRows
from forged.postgres.replicating import Replication, SyncState
from forged.postgres.root_files import RootFiles, TakeAway
from forged.postgres.shared import SharedServer
from forged.postgres.writing import owner_digest
from forged.state import Owner, SharedOwners, State
from forged.trust import TrustRegistry
from forged.writing import Writer

logger = logging.getLogger(__name__)

# Interval of rounds, and of rounds after a problem, which is growing.
_EVERY_S, _AGAIN_S, _LONGEST_AGAIN_S = 30.0, 1.0, 5.0
# Interval of complete comparisons, because a server may have been restored from a backup.
_ALL_EVERY_S = 600.0
_MOST_ROUNDS = 10


class RootSync:
    """Background synchronization of all shared roots with the server; lives in the event loop."""

    def __init__(
        self,
        shared: SharedServer,
        *,
        owners: SharedOwners,
        home: str,
        state: State,
        indexer: Indexer,
        writer: Writer,
        trust: TrustRegistry,
        take_away: TakeAway,
    ) -> None:
        """Take `owners` of the roots in `home`, and `take_away`, which applies forgets of other machines."""
        self.problem = ""
        self._shared = shared
        self._owners = owners
        self._home = home
        self._state = state
        self._indexer = indexer
        self._files_of = partial(
            RootFiles,
            indexer=indexer,
            writer=writer,
            trust=trust,
            attributes=state.attributes,
            take_away=take_away,
        )
        self._roots: dict[Root, Replication] = {}
        self._wanted = asyncio.Event()
        self._compared_at = -math.inf  # of the monotonic clock

    def hidden(self, owner: Owner) -> frozenset[str]:
        """Return the ids of an owner's memories that this machine has removed or lacks."""
        return next((each.hidden for each in self._roots.values() if each.owner == owner), frozenset())

    @property
    def progress(self) -> Mapping[tuple[str, str], SyncState]:
        """Return the progress of each root, by scope and owner."""
        return {each.owner: each.progress for each in self._roots.values()}

    async def run(self) -> None:
        """Synchronize all shared roots until cancelled: after each change, and every half minute."""
        # A forgotten memory may be in no map that would report it.
        self._state.replicas.marked = self._wanted.set
        self._state.accesses.on_hit = self._count_access
        ends = (self._shared.listen(self._on_server_change), self._indexer.events.listen(self._on_map_change))
        try:
            await self._state.wait_until_open()
            again_s = _AGAIN_S
            while True:
                self._wanted.clear()
                is_in_step = await self._sync_all()
                again_s = _EVERY_S if is_in_step else min(2 * again_s, _LONGEST_AGAIN_S)
                await _wait_until_set(self._wanted, again_s)
                again_s = _AGAIN_S if is_in_step or self._wanted.is_set() else again_s
        finally:
            for end in ends:
                end()

    def _count_access(self, top: str, memory_id: str) -> None:
        """Count the use of a memory in a file of a shared root on the server, too."""
        for root, replication in self._roots.items():
            if root.top == top:
                self._shared.count_access(root.scope, replication.owner[1], memory_id)

    def _on_server_change(self, change: OwnerChange) -> None:
        """Request a round after a change on the server, if it concerns a root here."""
        if not change.scope:
            self._compared_at = -math.inf
        owners = {owner for scope, owner in self.progress if scope == change.scope}
        if change.scope == Scope.AGENT:  # an agent may be new on this machine
            owners |= set(map(self._owners.of_agent, agent_ids(self._home)))
        if not change.scope or change.owner_digest in map(owner_digest, owners):
            self._wanted.set()

    def _on_map_change(self, event: BuildEvent) -> None:
        """Request a round after a change of the map of a shared root."""
        tops = {root.top for root in self._roots}
        if event.kind == "swapped" and (event.root in tops or self._is_agent_root(event.root)):
            self._wanted.set()

    def _is_agent_root(self, top: str) -> bool:
        """Return True if this root belongs to an agent."""
        return root_at(top, self._home).scope is Scope.AGENT

    async def _sync_all(self) -> bool:
        """Synchronize every shared root, new ones too; return True if no root has a problem."""
        self.problem = self._state.problem  # common state and forgets are unknown
        if self.problem:
            return False
        await self._add_roots()
        if time.monotonic() - self._compared_at > _ALL_EVERY_S:
            self._compared_at = time.monotonic()
            for each in self._roots.values():
                each.start_over()
        for each in self._roots.values():
            await _replicate(each)
        return not any(each.progress.problem for each in self._roots.values())

    async def _add_roots(self) -> None:
        """Add a replication for each shared root that has none, also for agents that exist on record only."""
        wanted = list[Root]()
        if Scope.USER in self._shared.scopes:
            wanted.append(Root(self._home, Scope.USER))
        if Scope.AGENT in self._shared.scopes:
            names = set(await asyncio.to_thread(agent_ids, self._home))
            names |= set(map(SharedOwners.agent_of, self._state.replicas.agents()))
            wanted += [agent_root(self._home, name) for name in sorted(names)]
        for root in wanted:
            if root not in self._roots:
                owner = self._owners.of(root)
                rows = OwnerRows(self._shared, root.scope, owner[1], root.top)
                author = self._owners.user_id if SharedOwners.is_of_team(owner) else ""
                self._roots[root] = Replication(
                    owner, self._files_of(root), rows, self._state.replicas, author
                )


async def _replicate(replication: Replication) -> None:
    """Synchronize one root in at most ten steps; record the problem that stops it."""
    problem = ""
    try:
        for _ in range(_MOST_ROUNDS):
            if not await replication.step():
                break
    except (SharedError, StoreError, ProviderError) as error:
        problem = str(error)
        if replication.progress.problem != problem:
            logger.info("not in step with the shared server owner=%s error=%s", replication.owner, error)
    replication.record_problem(problem)


async def _wait_until_set(wanted: asyncio.Event, at_most_s: float) -> None:
    """Wait until an event is set, but at most so many seconds."""
    try:
        async with asyncio.timeout(at_most_s):
            await wanted.wait()
    except TimeoutError:
        pass
