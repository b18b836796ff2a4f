"""The daemon's parts as the handlers see them, and the wait for what a request may see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from forged import config
from forged.capture import Pipeline
from forged.config import Setting
from forged.counters import Metrics
from forged.daemon.handlers.convert import generation_of, without_texts
from forged.daemon.handlers.dispatch import RefusedWrites
from forged.daemon.handlers.notices import Notices
from forged.daemon.handlers.refusals import NotReady
from forged.daemon.handlers.sessions import Sessions
from forged.daemon.handlers.talks import Talks
from forged.daemon.handlers.turn import Lists
from forged.fair_queue import Activity
from forged.files import Watcher
from forged.maps import Indexer
from forged.models import Governor, Health
from forged.retrieval import Retriever
from forged.scopes import CjkViews, Resolver, SessionMemories, SessionViews, View, Workplace
from forged.state import Receipt, State
from forged.trust import TrustRegistry
from forged.writing import Writer
from forged_client.framing import HEADER_BYTES, encode
from forged_client.protocol import Reply

if TYPE_CHECKING:
    from forged.postgres import Machines, Shared

# Waiting for a map where no deadline comes with the request.
PATIENCE_S = 5.0
_ADDED_S = 1.0


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What `status` tells of a daemon that does not change while it runs.

    `embedding_model` is the one in use, also where the configuration says `auto`. `settings` is the
    configuration as it may be shown, `lacking` says why a model that it names cannot be had. `started_at` is
    of the monotonic clock. `build` is the identity of the code that runs.
    """

    socket: str
    build: str = ""
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...]
    lacking: tuple[str, ...] = ()
    embedding_model: str
    classifier: str
    started_at: float


class Probe(msgspec.Struct, frozen=True):
    """A model at an endpoint, and one real call to it, which ends at a time or raises ProviderError."""

    health: Health
    call: Callable[[float], Awaitable[object]]


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that build.py joined. `disabled` is why retrieval is off, or nothing.

    `reload` starts over if the configuration has changed, and tells whether it does. `shared` is the team's
    server, if there is one, and `machines` what keeps files in step with it. Documents are written and
    removed by whoever holds `ingesting`.
    """

    epoch: str
    config: config.Config
    disabled: str
    about: About
    metrics: Metrics
    activity: Activity = msgspec.field(default_factory=Activity)
    indexer: Indexer
    watcher: Watcher
    retriever: Retriever
    resolver: Resolver
    writer: Writer
    trust: TrustRegistry
    refused_writes: RefusedWrites
    notices: Notices = msgspec.field(default_factory=Notices)
    lists: Lists = msgspec.field(default_factory=Lists)
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    talks: Talks = msgspec.field(default_factory=Talks)
    session_memories: SessionMemories
    session_views: SessionViews
    cjk: CjkViews | None = None
    capture: Pipeline
    governor: Governor
    healths: tuple[Health, ...] = ()
    probes: tuple[Probe, ...] = ()
    state: State
    connections: Callable[[], int]
    reload: Callable[[], Awaitable[bool]]
    shared: Shared | None = None
    machines: Machines | None = None
    ingesting: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


R = TypeVar("R", bound=Reply)


class Keyed(msgspec.Struct):
    """The key of a request that may come again, and a digest of what it asks for.

    `reply` is what the same request was answered, or was about to be answered when a kill came.
    """

    key: str
    digest: str
    reply: Reply | None = None
    is_given: bool = False


class Context(msgspec.Struct, frozen=True):
    """Context of a request: the daemon, its arrival (monotonic clock), and its key, if it has one."""

    daemon: Daemon
    arrived: float
    keyed: Keyed | None = None

    def planned(self, kind: type[R]) -> R | None:
        """The reply that this request had, or was to have, when it came before; None if it is new."""
        reply = None if self.keyed is None else self.keyed.reply
        return reply if isinstance(reply, kind) else None

    async def plan(self, reply: Reply) -> None:
        """Put down what the reply will be, durably, before the first step. Raises StoreError."""
        if (keyed := self.keyed) is not None:
            receipt = Receipt(keyed.digest, encode(without_texts(reply))[HEADER_BYTES:])
            await self.daemon.state.receipts.put(keyed.key, receipt)

    async def view(self, place: Workplace, token: str) -> View:
        """What is visible of a workplace in a generation, after waiting at most 5 s for it.

        Memories that this daemon added are waited for a second unasked: a long build may stand before theirs.
        """
        now, asked = time.monotonic(), generation_of(self.daemon.epoch, token)
        added = place.files.added()
        if added > asked:
            await place.files.view(added, now + _ADDED_S)
        return await place.files.view(asked, now + PATIENCE_S)

    async def resumed(self) -> None:
        """Wait at most 5 s until the daemon has finished what a kill interrupted. Raises NotReady."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.daemon.state.intents.resumed.wait()
        except TimeoutError:
            raise NotReady(
                "the daemon is still finishing what was interrupted before its start; try again in a moment"
            ) from None
