"""Parts of a daemon that the verbs on memories share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from forged.capture import CaptureService
from forged.config import Config
from forged.counters import Metrics
from forged.maps import Indexer
from forged.memory import Scope
from forged.sessions import Sessions
from forged.state import State
from forged.stores import Resolver, SessionMemories, SessionViews
from forged.trust import TrustRegistry
from forged.writing import Writer

if TYPE_CHECKING:
    from forged.postgres import SharedServer

# Time limit of a verb for the map that shows its effect.
PATIENCE_S = 5.0


class MemoryParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the daemon (indexer, writer, trust, state, ...) that all verbs on memories share.

    `shared` is the team's server, if there is one.
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
    ingesting: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    @property
    def documents_server(self) -> SharedServer | None:
        """The team's server if documents are shared there, else None."""
        return self.shared if self.shared is not None and Scope.ORG in self.shared.scopes else None
