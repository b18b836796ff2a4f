"""Settings of a team's PostgreSQL, and rows as values."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.attributes import UNKNOWN, Facts
from forged.config import Config, install_command, resolve_key
from forged.errors import ConfigError, SharedError
from forged.files import AGENT_ID
from forged.memory import Memory, Piece, Scope, Trigger, default_category
from forged.models import cleaned
from forged.postgres.schema import CJK, MAIN

Vector = NDArray[np.float32]


class EmbeddingModel(msgspec.Struct, frozen=True):
    """Embedding model of a database's vectors: its name and the length of a vector."""

    name: str
    dimension: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Address, login and shared scopes of a server, and the embedding models.

    `second` is the model for Chinese, Japanese and Korean (CJK), None without one.
    """

    url: str
    user: str = ""
    password: str = ""
    scopes: frozenset[Scope] = frozenset({Scope.ORG})
    user_id: str = ""
    model: EmbeddingModel
    second: EmbeddingModel | None = None

    @property
    def models(self) -> Mapping[str, EmbeddingModel]:
        """Return the models by name: main and, if there is one, second."""
        return {MAIN: self.model} | ({} if self.second is None else {CJK: self.second})

    def __repr__(self) -> str:
        """Return a text of user and model, without URL and password."""
        return f"Settings(user={self.user!r}, model={self.model!r})"


class Stored(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One row of a table of memories; fields without a column in its scope have their default.

    `owner` is the session's, user's or agent's id, "" for the organization. `model` made the vector: main or
    second. `distance` is the cosine distance to the query, smaller is nearer.
    """

    scope: Scope
    owner: str
    id: str
    content: str
    facts: Facts = UNKNOWN
    vector: Vector | None = None
    model: str = MAIN
    category: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    supersedes: str = ""
    is_head: bool = True
    document_id: str = ""
    chunk_index: int = 0
    file: bytes | None = None
    file_sha256: str = ""
    distance: float | None = None

    def as_memory(self) -> Memory:
        """Return the row as a memory, with its text and the name of its document redacted again."""
        is_piece, source = bool(self.document_id), cleaned(self.facts.source)
        return Memory(
            id=self.id,
            content=cleaned(self.content),
            created_at=_time_text(self.created_at),
            updated_at=_time_text(self.updated_at or self.created_at),
            version=self.version,
            scope=self.scope,
            category=self.category or default_category(self.scope),
            session_id=self.owner if self.scope == Scope.SESSION else "",
            trigger=Trigger.EXPLICIT,
            supersedes=self.supersedes or None,
            piece=Piece(self.document_id, self.chunk_index, 0, source) if is_piece else None,
        )


def _time_text(at: datetime | None) -> str:
    """Return a time as text in UTC, "" for None."""
    if at is None:
        return ""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def settings_of(config: Config, env: Mapping[str, str]) -> Settings | None:
    """Return the settings of `[shared]`, or None if it names no server.

    May run a command that prints the password: blocks. Raises ConfigError, and SharedError if the extra
    `postgres` is not installed.
    """
    shared, cjk = config.shared, config.cjk
    if not shared.url:
        return None
    if odd := sorted(name for name in shared.agents_of_team if not AGENT_ID.fullmatch(name)):
        raise ConfigError(f"shared.team_agents: {odd[0]!r} is not an agent id")
    if any(importlib.util.find_spec(name) is None for name in ("psycopg", "pgvector")):
        lacking = (
            f"the shared PostgreSQL needs packages that are not installed: {install_command('postgres')}"
        )
        raise SharedError(lacking, reason="not_installed")
    return Settings(
        url=shared.url,
        user=shared.user,
        password=resolve_key(shared.password, env),
        scopes=frozenset(map(Scope, shared.scopes.replace(",", " ").split())),
        user_id=shared.owner_id,
        model=EmbeddingModel(config.embedder, shared.dimension),
        second=None if cjk is None else EmbeddingModel(cjk.embedder, shared.cjk_dimension),
    )
