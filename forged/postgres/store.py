"""A team's rows as a store of a recall: rows near a query, and rows reached over entities.

Rows were written by other daemons, so texts are redacted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from forged.attributes import Facts
from forged.map import VectorMap
from forged.memory import Scope
from forged.models import cleaned
from forged.postgres.relating import ReachedRow
from forged.postgres.schema import CJK, MAIN
from forged.postgres.shared import SharedServer
from forged.postgres.values import Stored
from forged.state import Owner
from forged.stores import Question, Ranked, SearchResult, View, comparison_key, matches_filters

if TYPE_CHECKING:
    from forged.postgres.copies import DocumentCopies

_MOST_NEAR = 5
_MOST_HIDDEN = 50  # so many more rows are asked for at first

ROOT = "shared"
"""The root of every row: no path, so that it equals no root of files."""


class CopiesStore:
    """Documents of the team for a turn: their copies, and the rows beyond them that the server has.

    A turn waits 150 ms at most for the server. After two answers in a row that are late or fail it is not
    asked for a minute.
    """

    scope: str = Scope.ORG
    owner = ""
    most = 2

    def __init__(self, copies: DocumentCopies, tops: tuple[str, ...]) -> None:
        """Take `tops`, the roots of the caller."""
        self.name = copies.name
        self._copies, self._tops = copies, tops

    def maps(self) -> tuple[VectorMap, ...]:
        """Return the map of the copies, none while they may be outdated."""
        return (self._copies.map,) if self._copies.map is not None else ()

    async def view(self, generation: int, deadline: float) -> View:
        """Return the view of the copies now; it is never waited for."""
        del generation, deadline
        return self._copies.view(self.maps())

    async def view_for(self, question: Question) -> View:
        """Return the view of the copies and of the rows beyond them that are nearest to a question."""
        maps = self.maps()
        if maps and self._copies.has_more and question.vectors is not None:
            rows = await self._copies.asking.rows(question.vectors, question.deadline, self._tops)
            hidden, known = self._copies.without, maps[0]
            beyond = [
                row for row in rows if known.find(row.id) is None and not {row.id, row.document_id} & hidden
            ]
            maps = (*maps, await self._copies.map_beyond(beyond)) if beyond else maps
        return self._copies.view(maps)

    def attributes(self, found: Ranked) -> Facts | None:
        """Return the attributes of a result, None for a result of another store."""
        copy = self._copies.find(found.memory.id) if found.root == self.name else None
        if copy is None or copy.memory.piece is None:
            return None
        return Facts(source=copy.memory.piece.source)

    def has(self, found: Ranked) -> bool:
        """Return True if a piece that a search found still exists."""
        return self.attributes(found) is not None

    def use(self, found: Iterable[Ranked]) -> None:
        """Count nothing: documents have no counts of answers."""


class SharedStore:
    """Rows of some owners on the server, as one recall's store; only counts of use are written."""

    scope = owner = ""
    name = ROOT

    def __init__(
        self,
        shared: SharedServer,
        owners: Mapping[Scope, str],
        wanted: tuple[Mapping[str, Any], float],
        *,
        hidden: Mapping[Scope, frozenset[str]],
        deadline: float,
        tops: tuple[str, ...],
    ) -> None:
        """Take `wanted`, filters and minimum importance, and `tops`, the roots of the caller.

        `hidden` are ids of memories and documents that this machine has removed or lacks, by scope.
        """
        self._shared, self._owners = shared, dict(owners)
        self._filters, self._least = wanted
        self._hidden = hidden
        self._deadline, self._tops = deadline, tops
        self._rows: dict[tuple[str, str], Stored] = {}

    def maps(self) -> tuple[VectorMap, ...]:
        """Return no maps, as rows are searched on the server."""
        return ()

    async def view(self, generation: int, deadline: float) -> View:
        """Return an empty view, as rows are searched on the server."""
        del generation, deadline
        return View(())

    async def nearest(self, question: Question) -> Sequence[SearchResult]:
        """Return the rows nearest to a question's vector, a list for each scope. Raises SharedError."""
        return await self._nearest(question, MAIN)

    @property
    def has_second(self) -> bool:
        """Return True if the server's rows have vectors of this machine's second model (CJK)."""
        return self._shared.vectors.is_usable(CJK)

    async def nearest_by_second(self, question: Question) -> Sequence[SearchResult]:
        """Return the rows nearest to a question's vector of the second model. Raises SharedError."""
        return await self._nearest(question, CJK)

    async def _nearest(self, question: Question, model: str) -> Sequence[SearchResult]:
        """Return the rows nearest to a question's vector of a model, a list for each scope."""
        assert question.vectors is not None, "without a vector it is not asked"
        assert question.limits is not None, "a recall has limits"
        limits = {scope: question.limits.of[scope] for scope in self._owners}
        more = {scope: min(len(self._hidden.get(scope, ())), _MOST_HIDDEN) for scope in limits}
        while True:
            asked = {scope: limit + more[scope] for scope, limit in limits.items()}
            found = await self._shared.recall(
                self._owners,
                question.vectors[0],
                self._filters,
                asked,
                self._deadline,
                least=self._least,
                model=model,
            )
            shown = {
                scope: [row for row in rows if not self._is_hidden(row)] for scope, rows in found.items()
            }
            lacks = [
                scope
                for scope, rows in found.items()
                if len(rows) == asked[scope] and len(shown[scope]) < limits[scope]
            ]
            if not lacks:
                break
            more |= {scope: len(self._hidden[scope]) for scope in lacks}
        return [
            SearchResult(tuple(self._ranked(row, question.key) for row in rows[: limits[scope]]))
            for scope, rows in shown.items()
        ]

    def _is_hidden(self, row: Stored) -> bool:
        """Return True if this machine has removed or lacks the memory or document of a row."""
        hidden = self._hidden.get(row.scope, frozenset())
        return row.id in hidden or row.document_id in hidden

    async def reached(self, question: Question) -> Sequence[Ranked]:
        """Return rows reached over entities of a question. Raises SharedError, ProviderError.

        At most five of the rows name the query's entities themselves.
        """
        found = await self._shared.reached(
            self._owners, question.message, self._filters, self._deadline, least=self._least, tops=self._tops
        )
        asked = [
            each
            for each in found
            if matches_filters(each.row.facts, self._filters, self._least) and not self._is_hidden(each.row)
        ]
        near = {each.row.id for each in [each for each in asked if not each.hops][:_MOST_NEAR]}
        return [self._ranked_reached(each, question) for each in asked if each.hops or each.row.id in near]

    def attributes(self, found: Ranked) -> Facts | None:
        """Return the attributes of a result's row, None for a result of another store."""
        row = self._row(found)
        return None if row is None else row.facts

    def has(self, found: Ranked) -> bool:
        """Return True for a row that this store found."""
        return self._row(found) is not None

    def use(self, found: Iterable[Ranked]) -> None:
        """Count results as used in an answer, on the server."""
        self._shared.count_used([row for row in map(self._row, found) if row is not None])

    def _row(self, found: Ranked) -> Stored | None:
        """Return the row behind a search result of this store, None for a result of another one."""
        return self._rows.get(found.same) if found.root == ROOT else None

    def _ranked(self, row: Stored, key: str | None) -> Ranked:
        """Return a row as a search result, and remember the row for `attributes` and `use`."""
        cosine, memory = None if row.distance is None else 1.0 - row.distance, row.as_memory()
        model = comparison_key(key, memory.content)
        found = Ranked(memory, cosine or 0.0, cosine=cosine, root=ROOT, model=model)
        self._rows[found.same] = row
        return found

    def _ranked_reached(self, reached: ReachedRow, question: Question) -> Ranked:
        """Return a row that was reached over entities as a search result with its path."""
        found, path = self._ranked(reached.row, question.key), cleaned(reached.path)
        return msgspec.structs.replace(found, score=reached.strength, found_by="entity", path=path)


def stores_of(
    shared: SharedServer,
    scopes: Iterable[Scope],
    named: Mapping[Scope, str],
    wanted: tuple[Mapping[str, Any], float],
    *,
    hidden: Callable[[Owner], frozenset[str]],
    deadline: float,
    tops: tuple[str, ...],
) -> tuple[SharedStore, ...]:
    """Return a SharedStore of the named owners' rows in shared scopes, in a tuple; () without any.

    `hidden` returns the ids of an owner's memories or documents that this machine has removed or lacks.
    """
    known = {**named, Scope.USER: named.get(Scope.USER) or shared.settings.user_id}
    theirs = [scope for scope in scopes if scope in shared.scopes]
    owners = {scope: known.get(scope, "") for scope in theirs if scope is Scope.ORG or known.get(scope)}
    if not owners:
        return ()
    left_out = {scope: hidden((scope, owner)) for scope, owner in owners.items()}
    return (SharedStore(shared, owners, wanted, hidden=left_out, deadline=deadline, tops=tops),)
