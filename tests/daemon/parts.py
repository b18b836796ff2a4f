"""The daemon's parts behind its handlers, in this process: real files, no socket, no worker."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from forged.capture.committer import Committer
from forged.capture.service import CaptureService
from forged.capture.values import WorkerSettings
from forged.config import Config
from forged.counters import Metrics
from forged.daemon import nearest_memories
from forged.daemon.connection import Peer
from forged.daemon.handlers import Daemon, DaemonFacts, DiskRefusals, Dispatcher
from forged.errors import WorkspaceError
from forged.files import resolve
from forged.maps.indexer import Indexer
from forged.memories import MemoryParts, sharing
from forged.memory import Scope
from forged.models import Embedder
from forged.models.budget import Governor
from forged.postgres import SharedServer
from forged.retrieval import Retriever
from forged.sessions import Sessions
from forged.state import SharedOwners, State
from forged.stores import Resolver, SessionMemories, SessionViews
from forged.trust import TrustRegistry
from forged.writing import Writer
from forged_client import protocol as wire
from forged_client.framing import HEADER_BYTES, decode_reply

EPOCH = "e1"


class StandInWatcher:
    """Watches nothing; `used_at` is when it was last told that an agent is at work."""

    def __init__(self) -> None:
        self.state = "inotify"
        self.used_at = 0.0

    def state_of(self, top: str) -> str:
        return self.state

    def watch_count_of(self, top: str) -> int:
        return 2


class _Person(Peer):
    """A person at a terminal, who a test is."""

    def doubt(self) -> str:
        return ""


PERSON = _Person(0, os.geteuid())


class Parts:
    """Handlers, and the daemon that they see.

    Unless `trusting` is false every repository that a request comes from is trusted before it is carried out,
    as a test that writes memories by hand is the person.
    """

    def __init__(
        self,
        home: Path,
        embedder: Embedder | None,
        config: Config,
        *,
        lexical: bool,
        disabled: str,
        trusting: bool,
        min_score: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._home = str(home)
        self._trusting = trusting and not disabled
        metrics = Metrics()
        self.watcher = StandInWatcher()
        self.governor = Governor(daily_token_limit=0, calls_per_minute=60)
        self.folder = home / "state"
        self.state = State(str(self.folder), self.governor)
        self.trust = TrustRegistry(self.state)
        self.indexer = Indexer(embedder=embedder, lexical=lexical, metrics=metrics, trust=self.trust)
        self.trust.connect_maps(self.indexer.refresh, self.indexer.snapshot)
        self.retriever = Retriever(
            replace(
                config,
                memory=replace(
                    config.memory,
                    retrieval_strategy="auto",
                    retrieval_lexical_weight=0.3 if lexical else 0.0,
                    retrieval_min_score=min_score,
                ),
            ),
            embedder=embedder,
            metrics=metrics,
        )
        self.session_memories = SessionMemories(clock=clock)
        self.session_views = SessionViews(self.session_memories, self.indexer)
        sessions = (self.session_memories, self.session_views)
        self.resolver = Resolver(str(home), config, self.indexer, state=self.state, sessions=sessions)
        writer = Writer(
            str(home / "state/trash"),
            self.trust,
            self.state.requests,
            self.state.intents,
            self.state.removal_marks,
        )
        self.capture = CaptureService(
            settings=WorkerSettings(),
            state=self.state,
            governor=self.governor,
            metrics=metrics,
            rank=lambda event: nearest_memories.nearest(event, self.indexer, self.retriever),
            committer=Committer(self.indexer, writer, self.state),
        )
        self.sessions = Sessions(
            config,
            self.state,
            self.capture,
            self.session_memories,
            retriever=self.retriever,
            resolver=self.resolver,
            metrics=metrics,
        )
        self.memories = MemoryParts(
            config=config,
            metrics=metrics,
            indexer=self.indexer,
            resolver=self.resolver,
            writer=writer,
            trust=self.trust,
            state=self.state,
            capture=self.capture,
            sessions=self.sessions,
            session_memories=self.session_memories,
            session_views=self.session_views,
        )
        self.daemon = Daemon(
            epoch=EPOCH,
            config=config,
            disabled=disabled,
            about=DaemonFacts(
                socket="/run/forged.sock",
                warnings=("from the start",),
                embedding_model=config.embedder,
                classifier=config.classifier,
                started_at=time.monotonic(),
            ),
            metrics=metrics,
            indexer=self.indexer,
            retriever=self.retriever,
            resolver=self.resolver,
            memories=self.memories,
            trust=self.trust,
            capture=self.capture,
            governor=self.governor,
            state=self.state,
            connections=lambda: 3,
            watcher=self.watcher,
            disk_refusals=DiskRefusals(metrics, self.state),
            sessions=self.sessions,
            session_memories=self.session_memories,
            session_views=self.session_views,
            reload=_never,
            sharing=sharing.Sharing(memories=self.memories),
        )
        self.handlers = Dispatcher(self.daemon)
        self.keeping: asyncio.Task[None] | None = None

    def open_state(self) -> None:
        """Have the state opened and kept, as the daemon does beside the first requests."""
        self.keeping = asyncio.create_task(self.state.run())

    def shares(self, shared: SharedServer) -> None:
        """Have a team's server, which somebody else runs."""
        self.memories = msgspec.structs.replace(self.memories, shared=shared)
        shares = sharing.Sharing(memories=self.memories, owners=SharedOwners(shared.settings.user_id))
        self.daemon = msgspec.structs.replace(self.daemon, memories=self.memories, sharing=shares)
        self.handlers = Dispatcher(self.daemon)

    async def ask(self, request: wire.Request, peer: Peer = PERSON) -> wire.Reply:
        """Carry out one request of a process. Raises what the handler raises."""
        await self.trusts(getattr(request, "workspace", ""))
        answer = self.handlers.handle(request, peer)
        if isinstance(answer, bytes):
            return decode_reply(answer[HEADER_BYTES:])
        return await answer if inspect.isawaitable(answer) else answer

    async def trusts(self, workspace: str) -> None:
        if not self._trusting:
            return
        with contextlib.suppress(WorkspaceError):
            for root in resolve(workspace, self._home):
                if root.scope is Scope.REPO and (await self.trust.describe(root.top)).state != "trusted":
                    await self.trust.trust(root.top)

    async def refusal(self, request: wire.Request) -> tuple[str, str]:
        """Code and sentence with which a request is refused."""
        from forged.errors import ForgedError

        try:
            reply = await self.ask(request)
        except ForgedError as error:
            return error.code, str(error)
        raise AssertionError(f"it was carried out: {reply}")

    async def loaded(self, workspace: Path) -> wire.Rebuilt:
        """Build what is on disk now, vectors and all."""
        reply = await self.ask(wire.Rebuild(workspace=str(workspace), wait=True))
        assert isinstance(reply, wire.Rebuilt)
        return reply


async def _never() -> bool:
    return False


@contextlib.asynccontextmanager
async def assembled(
    home: Path,
    embedder: Embedder | None = None,
    config: Config | None = None,
    *,
    lexical: bool = True,
    disabled: str = "",
    trusting: bool = True,
    min_score: float = 0.0,
    clock: Callable[[], float] = time.time,
    opens: bool = True,
) -> AsyncIterator[Parts]:
    """Parts with `state.db` open, or without `opens` as in the moments before: `open_state` ends these."""
    parts = Parts(
        home,
        embedder,
        config or Config(),
        lexical=lexical,
        disabled=disabled,
        trusting=trusting,
        min_score=min_score,
        clock=clock,
    )
    if opens:
        parts.open_state()
    embedding = asyncio.gather(*(queue.run() for queue in parts.indexer.queues))
    try:
        if opens:
            await parts.state.wait_until_open()
        yield parts
    finally:
        if parts.keeping is not None:
            parts.keeping.cancel()
        embedding.cancel()
        await parts.state.close()
        parts.retriever.close()
        parts.resolver.close()
        await parts.indexer.close()
