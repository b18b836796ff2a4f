"""The daemon's parts behind its handlers, in this process: real files and indexes, no socket."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import AsyncIterator
from pathlib import Path

from forged.config import Config
from forged.handlers import Daemon, Handlers
from forged.handlers.context import Context, code_of
from forged.indexer import Indexer
from forged.metrics import Metrics
from forged.providers import Embedder
from forged.retrieval.ledger import Ledger
from forged.retrieval.retriever import Retriever, Tuning
from forged.writer import Writer
from forged_client import protocol as wire

EPOCH = "e1"


class Parts:
    """Handlers, and the daemon that they see."""

    def __init__(
        self, home: Path, embedder: Embedder | None, config: Config, *, lexical: bool, disabled: str
    ) -> None:
        metrics = Metrics()
        self.woken = 0
        self.watch_state = "inotify"
        self.indexer = Indexer(embedder=embedder, lexical=lexical, metrics=metrics)
        self.retriever = Retriever(
            embedder=embedder,
            chat=None,
            tuning=Tuning(
                strategy="auto",
                hypothesis_count=5,
                lexical_weight=0.3 if lexical else 0.0,
                min_score=None,
            ),
            metrics=metrics,
        )
        self.daemon = Daemon(
            epoch=EPOCH,
            home=str(home),
            socket="/run/forged.sock",
            config=config,
            warnings=("from the start",),
            disabled=disabled,
            metrics=metrics,
            indexer=self.indexer,
            retriever=self.retriever,
            writer=Writer(str(home / "state/trash")),
            ledger=Ledger(),
            started_at=time.monotonic(),
            connections=lambda: 3,
            watch_state=lambda: self.watch_state,
            watch_count=lambda top: 2,
            woken=self._wake,
        )
        self.context = Context(self.daemon)
        self.handlers = Handlers(self.daemon)

    def _wake(self) -> None:
        self.woken += 1

    async def ask(self, request: wire.AnyRequest) -> wire.Reply:
        """Carry out one request. Raises what the handler raises."""
        answer = self.handlers.handle(request)
        return await answer if inspect.isawaitable(answer) else answer

    async def refusal(self, request: wire.AnyRequest) -> tuple[str, str]:
        """Code and sentence with which a request is refused."""
        from forged.errors import ForgedError

        try:
            reply = await self.ask(request)
        except ForgedError as error:
            return code_of(error), str(error)
        raise AssertionError(f"it was carried out: {reply}")

    async def loaded(self, workspace: Path) -> wire.Rebuilt:
        """Build what is on disk now, vectors and all."""
        reply = await self.ask(wire.Rebuild(workspace=str(workspace), wait=True))
        assert isinstance(reply, wire.Rebuilt)
        return reply


@contextlib.asynccontextmanager
async def assembled(
    home: Path,
    embedder: Embedder | None = None,
    config: Config | None = None,
    *,
    lexical: bool = True,
    disabled: str = "",
) -> AsyncIterator[Parts]:
    parts = Parts(home, embedder, config or Config(), lexical=lexical, disabled=disabled)
    try:
        yield parts
    finally:
        parts.retriever.close()
        await parts.indexer.close()
