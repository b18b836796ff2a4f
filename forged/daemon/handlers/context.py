"""What is served, and how a request's workspace and generation are understood."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from forged import config
from forged.capture.service import Pipeline
from forged.config import Setting
from forged.counters import Metrics
from forged.errors import ConfigError, ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError
from forged.map.vector_map import View
from forged.maps.indexer import Indexer
from forged.maps.writer import Writer
from forged.models.budget import Governor
from forged.retrieval.retriever import Retriever
from forged.scopes import Resolver, Workplace
from forged.state.forgotten import Forgotten
from forged.state.pauses import Pauses

# Waiting for a map where no deadline comes with the request.
PATIENCE_S = 5.0


class InvalidRequest(ForgedError):  # noqa: N818 - reads as the state it names
    """The request cannot be carried out as it is; the message says what to change."""


class NotReady(ForgedError):  # noqa: N818
    """The answer is not known yet, because a root is being read for the first time."""


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


class Context:
    """The daemon as the handlers see it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    def workplace(self, workspace: str) -> Awaitable[Workplace]:
        """The roots and settings of a workspace; see `Resolver.resolve`. Raises WorkspaceError."""
        return self.daemon.resolver.resolve(workspace)

    async def view(self, place: Workplace, token: str) -> View:
        """What is visible of a workplace in a generation, after waiting at most 5 s for it."""
        deadline = time.monotonic() + PATIENCE_S
        return await place.files.see(self.generation(token), deadline)

    def token(self, generation: int) -> str:
        return f"{self.daemon.epoch}:{generation}"

    def generation(self, token: str) -> int:
        """The number in a token; one of another epoch counts as reached after the first scan."""
        epoch, _, number = token.partition(":")
        ours = epoch == self.daemon.epoch and number.isdecimal() and len(number) < 20
        return int(number) if ours else 0


def code_of(error: ForgedError) -> str:
    """The wire code of a domain error."""
    match error:
        case MemoryNotFound():
            return "not_found"
        case MemoryExists():
            return "conflict"
        case StoreError():
            return "storage_error"
        case InvalidRequest() | WorkspaceError():
            return "invalid"
        case NotReady():
            return "busy"
        case ConfigError():
            return "configuration"
    return "internal"
