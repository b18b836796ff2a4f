"""What travels between forged and a team's PostgreSQL: how to reach it, and rows as values."""

from __future__ import annotations

import getpass
import importlib.util
from collections.abc import Mapping
from datetime import datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.attributes import UNKNOWN, Facts
from forged.config import Config, install_command, resolve_key
from forged.errors import ConfigError, SharedError
from forged.memory import Scope

SHAREABLE = (Scope.SESSION, Scope.USER, Scope.AGENT, Scope.ORG)

Vector = NDArray[np.float32]


class EmbeddingModel(msgspec.Struct, frozen=True):
    """Of which model the vectors of a set of tables are, and how many numbers each has."""

    name: str
    dimension: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is reached. `url` has no password; `model` is that of the main set of tables."""

    url: str
    user: str = ""
    password: str = ""
    scopes: frozenset[Scope] = frozenset({Scope.ORG})
    user_id: str = ""
    model: EmbeddingModel

    @property
    def models(self) -> Mapping[str, EmbeddingModel]:
        """The model of each set of tables, by the set's name."""
        return {"": self.model}

    def __repr__(self) -> str:
        """Nothing that may hold a password."""
        return f"Settings(user={self.user!r}, model={self.model!r})"


class Stored(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One row of a table of memories; what the table of its scope has no column for is at its default.

    `owner` is the session's, user's or agent's id, "" for the organization. `distance` is the cosine distance
    to what was asked, smaller is nearer.
    """

    scope: Scope
    owner: str
    id: str
    content: str
    facts: Facts = UNKNOWN
    vector: Vector | None = None
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


def settings_of(config: Config, env: Mapping[str, str]) -> Settings | None:
    """The settings that `[shared]` comes to, or None where it names no server.

    Fetches the password, which may run a command: call it while nothing waits. Raises ConfigError, and
    SharedError where the extra `postgres` is not installed.
    """
    shared = config.shared
    if not shared.url:
        return None
    if any(importlib.util.find_spec(name) is None for name in ("psycopg", "pgvector")):
        lacking = (
            f"the shared PostgreSQL needs packages that are not installed: {install_command('postgres')}"
        )
        raise SharedError(lacking, reason="not_installed")
    return Settings(
        url=shared.url,
        user=shared.user,
        password=resolve_key(shared.password, env),
        scopes=scopes_of(shared.scopes),
        user_id=shared.user_id or getpass.getuser(),
        model=EmbeddingModel(config.embedder, shared.dimension),
    )


def scopes_of(text: str) -> frozenset[Scope]:
    """The scopes that `[shared].scopes` names. Raises ConfigError for a word that is none."""
    words = text.replace(",", " ").split()
    known = {str(scope): scope for scope in SHAREABLE}
    for word in words:
        if word not in known:
            raise ConfigError(f"shared.scopes = {text!r}: {word!r} is none of {', '.join(known)}")
    return frozenset(known[word] for word in words)
