"""The team's server as one daemon shares it: stores of a recall, hidden rows, and reports for status.

Whatever the server holds, no answer here has what this machine has forgotten, removed or lost.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from forged import postgres
from forged.config import Config, install_command
from forged.errors import ConfigError
from forged.files import org_root
from forged.maps import Indexer
from forged.memories import document_store, removal
from forged.memories.parts import MemoryParts
from forged.memory import Scope
from forged.models import EgressGuard
from forged.state import DOCUMENTS, Owner, SharedOwners, State
from forged.stores import Store
from forged_client import address
from forged_client import protocol as wire

if TYPE_CHECKING:
    from forged.postgres import DocumentCopies, RootSync, SharedServer

_REASONS_SHOWN = 10


def make_server(  # noqa: PLR0917 - parts of one daemon
    config: Config,
    env: Mapping[str, str],
    state: State,
    egress: EgressGuard,
    indexer: Indexer,
    epoch: str,
) -> tuple[SharedServer | None, str]:
    """Return the team's server and "", or None and why it is unusable ("" if not configured)."""
    if not config.shared.url:
        return None, ""
    try:
        make = postgres.SharedServer  # needs an extra
        settings = postgres.settings_of(config, env)
        assert settings is not None
        name = f"{platform.node().split('.')[0] or 'machine'}/{epoch}"
        return make(
            settings, state=state, egress=egress, queue=indexer.queue, second=indexer.second, daemon=name
        ), ""
    except ImportError:
        lacks = "the shared server needs packages that are not installed"
        return None, f"nothing is shared: {lacks}: {install_command('postgres')}"
    except ConfigError as error:
        return None, f"nothing is shared: {error}"


def make_copies(
    config: Config,
    env: Mapping[str, str],
    server: SharedServer | None,
    indexer: Indexer,
    memories: Callable[[], MemoryParts],
) -> DocumentCopies | None:
    """Return the copies of the team's documents; None if turns do not search them, which erases them."""
    folder = os.path.join(address.state_dir(env), "documents")
    if server is None or Scope.ORG not in server.scopes & config.scopes.retrieved:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return postgres.DocumentCopies(
        server,
        indexer,
        folder,
        most_bytes=config.shared.documents_mib << 20,
        left_out=lambda: document_store.documents_without_copy(memories()),
        own_root=org_root(address.home(env)).top,
    )


def turn_stores(copies: DocumentCopies | None, tops: tuple[str, ...]) -> tuple[Store, ...]:
    """Return the stores of the team's documents for a turn in the roots `tops`; none without copies."""
    return () if copies is None else (postgres.CopiesStore(copies, tops),)


def connect(memories: MemoryParts, owners: SharedOwners) -> Sharing:
    """Return the parts that share a daemon's memories, and tell its removal marks the shared scopes.

    Machines are synchronized if the scope user or agent is shared.
    """
    server, machines = memories.shared, None
    memories.state.removal_marks.share(owners, server.scopes if server is not None else ())
    if server is not None and server.scopes & {Scope.USER, Scope.AGENT}:
        machines = postgres.RootSync(
            server,
            owners=owners,
            home=memories.resolver.home,
            state=memories.state,
            indexer=memories.indexer,
            writer=memories.writer,
            trust=memories.trust,
            take_away=partial(removal.apply_remote_forget, memories),
        )
    return Sharing(memories=memories, owners=owners, machines=machines)


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a daemon for its team's server; without a server only `owners` and `memories`."""

    memories: MemoryParts
    owners: SharedOwners = SharedOwners()
    machines: RootSync | None = None

    @property
    def server(self) -> SharedServer | None:
        """The team's server, None without one."""
        return self.memories.shared

    def stores(
        self,
        scopes: Iterable[Scope],
        named: Mapping[Scope, str],
        wanted: tuple[Mapping[str, Any], float],
        *,
        deadline: float,
        tops: tuple[str, ...],
    ) -> tuple[Store, ...]:
        """Return stores of the server for scopes and named sessions, users and agents; none without a server.

        `wanted` are filters and minimum importance, `tops` the roots of the caller.
        """
        if self.server is None:
            return ()
        agent = named.get(Scope.AGENT, "")
        named = {**named, Scope.AGENT: self.owners.of_agent(agent) if agent else ""}
        return postgres.stores_of(
            self.server, scopes, named, wanted, hidden=self._hidden, deadline=deadline, tops=tops
        )

    def _hidden(self, owner: Owner) -> frozenset[str]:
        """Return the ids of memories or documents that this machine has removed or lacks."""
        if owner == DOCUMENTS:
            return document_store.hidden_documents(self.memories)
        return self.machines.hidden(owner) if self.machines is not None else frozenset()

    # --- in status --------------------------------------------------------------------------------------

    @property
    def is_failing(self) -> bool:
        """Return True if a server is configured and fails or refuses memories."""
        condition = self.server.condition() if self.server is not None else None
        return condition is not None and bool(
            condition.state == "failing" or condition.problem or condition.refused
        )

    @property
    def warning(self) -> str:
        """Return a warning if memories met a server that this run lacks, or its models differ, else ""."""
        if self.server is not None and (problem := self.server.vectors.problem):
            return problem
        is_named = self.memories.config.shared.url
        if self.server is not None or is_named or not self.memories.state.replicas.has_met:
            return ""
        return (
            "memories here are shared with a team's server, and this daemon knows of none:"
            " set shared.url, or start it with PGVECTOR_URL; removals wait until then"
        )

    def report(self) -> wire.SharedReport | None:
        """Report the server and the synchronization of machines, None without a server."""
        if self.server is None:
            return None
        is_with_documents = self.memories.documents_server is not None
        absent = document_store.absent_documents(self.memories) if is_with_documents else ()
        return msgspec.structs.replace(
            self.server.condition(),
            absent_documents=len(absent),
            copies=self.memories.copies.report() if self.memories.copies is not None else None,
            sync=tuple(_sync_reports(self.machines)) if self.machines is not None else (),
            sync_problem=self.machines.problem if self.machines is not None else "",
        )


def _sync_reports(machines: RootSync) -> Iterator[wire.SyncReport]:
    """Yield the progress of machines' synchronization for each scope and owner."""
    for (scope, owner), progress in machines.progress.items():
        reasons = sorted(progress.kept_here.items())
        yield wire.SyncReport(
            scope=scope,
            owner=owner,
            behind=progress.behind,
            kept_here=len(reasons),
            reasons=dict(reasons[:_REASONS_SHOWN]),
            refused=progress.refused,
            absent=progress.absent,
            in_sync_s=round(time.time() - progress.at, 1) if progress.at else None,
            problem=progress.problem,
        )
