"""The daemon's parts as the handlers see them, and the wait for what a request may see."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from forged import config
from forged.capture.service import Pipeline
from forged.config import Setting
from forged.counters import Metrics
from forged.daemon.handlers.translation import generation_of
from forged.map.view import View
from forged.maps.indexer import Indexer
from forged.maps.writer import Writer
from forged.models.budget import Governor
from forged.retrieval.retriever import Retriever
from forged.scopes import Resolver, Workplace
from forged.state.forgotten import Forgotten
from forged.state.pauses import Pauses

# Waiting for a map where no deadline comes with the request.
PATIENCE_S = 5.0


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that `daemon` wired. `disabled` is why retrieval is off, or nothing.

    `embedding_model` is the one in use, also where the configuration says `auto`. `settings` is the
    configuration as it may be shown.
    """

    epoch: str
    home: str
    socket: str
    config: config.Config
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...]
    disabled: str
    embedding_model: str
    metrics: Metrics
    indexer: Indexer
    retriever: Retriever
    resolver: Resolver
    writer: Writer
    capture: Pipeline
    governor: Governor
    pauses: Pauses
    forgotten: Forgotten
    started_at: float
    connections: Callable[[], int]
    watch_state: Callable[[], str]
    watch_count: Callable[[str], int]
    woken: Callable[[], None]  # called when an agent is at work
    reload: Callable[[], Awaitable[bool]]  # whether it starts over, as the configuration has changed


class Context(msgspec.Struct, frozen=True):
    """What a request meets: the daemon, and when it came (of the monotonic clock)."""

    daemon: Daemon
    arrived: float

    async def view(self, place: Workplace, token: str) -> View:
        """What is visible of a workplace in a generation, after waiting at most 5 s for it."""
        deadline = time.monotonic() + PATIENCE_S
        return await place.files.see(generation_of(self.daemon.epoch, token), deadline)
