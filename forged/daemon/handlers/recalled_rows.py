"""What a team's server has for a recall: its rows as memories like those of files, and how they are used.

A row was written by somebody else's daemon, so its text is shown without secrets, whatever that one did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from forged.daemon.handlers.context import Daemon
from forged.memory import Memory, Piece, Scope, Trigger, default_category
from forged.models import Vectors, cleaned
from forged.retrieval import Facts, Limits, Recollection, compared_by, is_asked_for
from forged.scopes import Ranked
from forged_client import protocol as wire

if TYPE_CHECKING:
    from forged.postgres import ReachedRow, Shared, Stored

_MOST_NEAR = 5

ROOT = "shared"
"""What stands for the root of a row: no path, so that no file root is called like it."""


class ServerRows:
    """The rows of one recall."""

    def __init__(
        self, daemon: Daemon, shared: Shared, request: wire.Recall, limits: Limits, deadline: float
    ) -> None:
        self._daemon, self._shared, self._request = daemon, shared, request
        self._limits, self._deadline = limits, deadline
        self._rows: dict[tuple[str, str], Stored] = {}

    def owners(self, scopes: Iterable[Scope]) -> dict[Scope, str]:
        """Whose rows answer, by scope; none of who is not named."""
        request = self._request
        named = {
            Scope.SESSION: request.session_id,
            Scope.USER: request.user_id or self._shared.settings.user_id,
            Scope.AGENT: request.agent_id,
        }
        asked = [scope for scope in scopes if scope in self._shared.scopes]
        return {scope: named.get(scope, "") for scope in asked if scope is Scope.ORG or named.get(scope)}

    async def nearest(self, owners: dict[Scope, str], vector: Vectors) -> Sequence[Sequence[Recollection]]:
        """The rows nearest to a vector, a list for each scope. Raises SharedError."""
        found = await self._shared.recall(
            owners,
            vector,
            self._request.filters,
            {scope: self._limits.of[scope] for scope in owners},
            self._deadline,
            least=self._daemon.config.scopes.min_importance,
        )
        self._rows |= {(row.scope, row.id): row for rows in found.values() for row in rows}
        key = self._key
        return [[_recollection(row, key) for row in rows] for rows in found.values()]

    async def reached(
        self, owners: dict[Scope, str], query: str, tops: tuple[str, ...]
    ) -> Sequence[Recollection]:
        """The rows that the query leads to over what they speak of. Raises SharedError, ProviderError.

        Half of those that may come at most speak of what is named themselves.
        """
        filters, least = self._request.filters, self._daemon.config.scopes.min_importance
        found = await self._shared.reached(owners, query, filters, self._deadline, least=least, tops=tops)
        asked = [each for each in found if is_asked_for(each.row, filters, least)]
        near = {each.row.id for each in [each for each in asked if not each.hops][:_MOST_NEAR]}
        chosen = [each for each in asked if each.hops or each.row.id in near]
        self._rows |= {(each.row.scope, each.row.id): each.row for each in chosen}
        return [_over_entities(each, self._key) for each in chosen]

    @property
    def _key(self) -> str | None:
        identity = self._daemon.indexer.identity
        return identity.key if identity is not None else None

    def note_used(self, best: Iterable[Recollection]) -> None:
        """Count that these were recalled, as far as they are the server's."""
        ours = [each.same for each in best if each.ranked.root == ROOT]
        self._shared.hit([self._rows[same] for same in ours])


def _over_entities(reached: ReachedRow, key: str | None) -> Recollection:
    found = _recollection(reached.row, key)
    ranked = msgspec.structs.replace(found.ranked, score=reached.strength, via="entity")
    return msgspec.structs.replace(found, ranked=ranked, path=cleaned(reached.path))


def _recollection(row: Stored, key: str | None) -> Recollection:
    cosine = None if row.distance is None else 1.0 - row.distance
    memory = _memory(row)
    facts = Facts(
        memory_type=row.memory_type,
        importance=row.importance,
        access_count=row.access_count,
        last_accessed=_time(row.last_accessed),
        expires_at=_time(row.expires_at),
        metadata=row.metadata,
        agent_id=row.agent_id,
        user_id=row.user_id,
        source=row.source,
    )
    ranked = Ranked(memory, cosine or 0.0, cosine=cosine, root=ROOT)
    return Recollection(ranked, facts, compared_by(key, memory.content))


def _memory(row: Stored) -> Memory:
    is_piece = bool(row.document_id)
    return Memory(
        id=row.id,
        content=cleaned(row.content),
        created_at=_time(row.created_at),
        updated_at=_time(row.updated_at or row.created_at),
        version=row.version,
        scope=row.scope,
        category=row.category or default_category(row.scope),
        session_id=row.owner if row.scope == Scope.SESSION else "",
        trigger=Trigger.EXPLICIT,
        supersedes=row.supersedes or None,
        piece=Piece(row.document_id, row.chunk_index, 0, row.source) if is_piece else None,
    )


def _time(at: datetime | None) -> str:
    if at is None:
        return ""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
