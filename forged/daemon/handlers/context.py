"""What is served, and how a request's workspace and generation are understood."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from forged import config
from forged.capture import Pipeline
from forged.config import Setting
from forged.counters import Metrics
from forged.errors import ConfigError, ForgedError, MemoryExists, MemoryNotFound, StoreError, WorkspaceError
from forged.files import roots
from forged.files.roots import Root
from forged.map.view import View
from forged.maps.indexer import Indexer
from forged.maps.writer import Writer
from forged.memory import Scope
from forged.models.budget import Governor
from forged.retrieval.ledger import Ledger
from forged.retrieval.retriever import Retriever
from forged.state import State

_ROOTS_TTL_S = 5.0
_WORKSPACES_KEPT = 1024
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
    writer: Writer
    ledger: Ledger
    capture: Pipeline
    governor: Governor
    state: State
    started_at: float
    connections: Callable[[], int]
    watch_state: Callable[[], str]
    watch_count: Callable[[str], int]
    woken: Callable[[], None]  # called when an agent is at work
    reload: Callable[[], Awaitable[bool]]  # whether it starts over, as the configuration has changed


class Workplace(msgspec.Struct, frozen=True):
    """A workspace, resolved: its roots (repo before user) and the settings that hold in it."""

    roots: tuple[Root, ...]
    settings: config.MemoryConfig
    warnings: tuple[str, ...] = ()

    @property
    def tops(self) -> tuple[str, ...]:
        return tuple(root.top for root in self.roots)

    @property
    def off(self) -> str:
        """Why memory is off here, or nothing."""
        return "" if self.settings.enabled else "memory.enabled is false"


class Context:
    """The daemon as the handlers see it."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._workplaces: dict[str, tuple[Workplace, float]] = {}

    def workplace(self, workspace: str) -> Workplace:
        """Resolve a workspace; kept for 5 s, since every request names one and resolving reads the disk.

        Raises WorkspaceError.
        """
        known, expires = self._workplaces.get(workspace, (None, 0.0))
        now = time.monotonic()
        if known is not None and now < expires:
            return known
        if len(self._workplaces) >= _WORKSPACES_KEPT:
            self._workplaces.clear()
        place = self._resolve(workspace)
        self._workplaces[workspace] = (place, now + _ROOTS_TTL_S)
        return place

    def _resolve(self, workspace: str) -> Workplace:
        found = roots.resolve(workspace, self.daemon.home)
        repo = next((root for root in found if root.scope is Scope.REPO), None)
        if repo is None:
            return Workplace(found, self.daemon.config.memory)
        asked, warnings = config.repo_overrides(Path(repo.top))
        return Workplace(found, config.apply(self.daemon.config, asked), warnings)

    async def view(self, place: Workplace, token: str) -> View:
        """What is visible of a workplace in a generation, after waiting at most 5 s for it."""
        deadline = time.monotonic() + PATIENCE_S
        return await self.daemon.indexer.view(place.roots, self.generation(token), deadline)

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
