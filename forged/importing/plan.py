"""Plan the destination of imported items: repository or user, id, and links.

Input: items and the places that the person named. Output: planned items, each text and id once for a place,
and skipped items. Pure functions; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from forged.importing.values import ImportItem, SkippedPart, id_of_text
from forged.memory import Scope, one_form


class Destination(msgspec.Struct, frozen=True, order=True):
    """Workspace and scope to import an item into."""

    workspace: str
    scope: str


class PlannedItem(msgspec.Struct, frozen=True):
    """Item to import with its destination, and its own id or one made of its text."""

    place: Destination
    memory_id: str
    item: ImportItem


class RepositoryPaths(msgspec.Struct, frozen=True):
    """Current repository with its name, and paths of other repositories by name.

    `into[""]`, if set, is the destination of all items of repositories that `into` does not name.
    """

    workspace: str
    name: str = ""
    into: Mapping[str, str] = {}


def plan_items(
    items: Iterable[ImportItem], places: RepositoryPaths
) -> tuple[tuple[PlannedItem, ...], tuple[SkippedPart, ...]]:
    """Return items with id and destination, in order, and those skipped: repeated or without destination."""
    moves: dict[tuple[Destination, str], PlannedItem] = {}
    left: list[SkippedPart] = []
    for item in items:
        place = _destination(item, places)
        if place is None:
            left.append(SkippedPart(item.where, _unknown_repository(item.repo)))
            continue
        move = PlannedItem(place, item.memory_id or id_of_text(item.text), item)
        first = moves.setdefault((place, move.memory_id), move)
        if first is not move:
            left.append(SkippedPart(item.where, _duplicate_reason(item, first.item)))
    return tuple(moves.values()), tuple(left)


def plan_links(
    moves: Sequence[PlannedItem], ids: Mapping[tuple[Destination, str], str]
) -> tuple[dict[int, tuple[tuple[str, str], ...]], tuple[SkippedPart, ...]]:
    """Return the links of each planned item by its number, and the links without a target.

    `ids` are the final ids of planned items.
    """
    homes = {(move.place, key): move.memory_id for move in reversed(moves) for key in move.item.keys}
    found: dict[int, tuple[tuple[str, str], ...]] = {}
    left: list[SkippedPart] = []
    for number, move in enumerate(moves):
        mine: dict[str, str] = {}
        for link in move.item.links:
            target = homes.get((move.place, link.key), "")
            there = ids.get((move.place, target), "")
            if there and there != ids.get((move.place, move.memory_id)):
                mine.setdefault(there, link.relationship)
            else:
                left.append(
                    SkippedPart(move.item.where, f"a link to {link.key[:80]!r}, which is not imported")
                )
        found[number] = tuple(mine.items())
    return found, tuple(left)


def _destination(item: ImportItem, places: RepositoryPaths) -> Destination | None:
    """Return the workspace and scope to import an item into, or None if its repository is unknown."""
    scope = item.scope or Scope.REPO.value
    if scope == Scope.USER:
        return Destination(places.workspace, scope)
    repo = one_form(item.repo)
    if repo and (path := next((into for name, into in places.into.items() if one_form(name) == repo), "")):
        return Destination(path, scope)
    if "" in places.into:
        return Destination(places.into[""], scope)
    if item.repo:
        return Destination(places.workspace, scope) if repo == one_form(places.name) else None
    return Destination(item.place or places.workspace, scope)


def _unknown_repository(repo: str) -> str:
    """Return the reason to skip an item of an unknown repository, with advice."""
    return f"it belongs to the repository {repo[:80]!r}; --into NAME=PATH says where that is"


def _duplicate_reason(item: ImportItem, first: ImportItem) -> str:
    """Return the reason to skip an item that repeats an earlier one."""
    if item.file and item.file != first.file:
        return f"another file has the same id: {first.where}"
    return f"same text as {first.where}"
