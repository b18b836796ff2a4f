"""Parts of a daemon that the verbs on memories share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from forged.capture import CaptureService
from forged.config import Config
from forged.counters import Metrics
from forged.maps import Indexer
from forged.memory import Scope
from forged.sessions import Sessions
from forged.state import DOCUMENTS, State, Write
from forged.stores import Resolver, SessionMemories, SessionViews
from forged.trust import TrustRegistry
from forged.writing import Writer

if TYPE_CHECKING:
    from forged.postgres import DocumentCopies, SharedServer

# Time limit of a verb for the map that shows its effect.
PATIENCE_S = 5.0


class MemoryParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the daemon (indexer, writer, trust, state, ...) that all verbs on memories share.

    `shared` is the team's server, if there is one, and `copies` are those of its documents on this machine.
    """

    config: Config
    metrics: Metrics
    indexer: Indexer
    resolver: Resolver
    writer: Writer
    trust: TrustRegistry
    state: State
    capture: CaptureService
    sessions: Sessions
    session_memories: SessionMemories
    session_views: SessionViews
    shared: SharedServer | None = None
    copies: DocumentCopies | None = None
    ingesting: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    @property
    def documents_server(self) -> SharedServer | None:
        """The team's server if documents are shared there, else None."""
        return self.shared if self.shared is not None and Scope.ORG in self.shared.scopes else None

    async def remove_from_server(
        self, kind: str, ids: Collection[str], newest: Mapping[str, datetime] = MappingProxyType({})
    ) -> None:
        """Remove pieces (`chain`) or documents from the server, now or when a run has one. Raises StoreError.

        `newest` are times of documents by a clock that may be ahead.
        """
        server, replicas = self.documents_server, self.state.replicas
        if kind == "document":
            ids = [each for each in ids if server is not None or each in replicas.of(DOCUMENTS)]
        elif server is None and not replicas.of(DOCUMENTS):
            return  # no document has ever met a server
        if server is None:
            at = datetime.fromtimestamp(self.state.server_clock.now(), UTC)
            await self.state.outbox.add(Write.removals(kind, *DOCUMENTS, ids, at))
        elif ids:
            late = max((newest[each] for each in ids if each in newest), default=None)
            await server.remove(*DOCUMENTS, tuple(ids), kind=kind, newest=late)
        if kind == "document":
            await replicas.drop(DOCUMENTS, ids)
        if self.copies is not None:
            await self.copies.drop(ids)
