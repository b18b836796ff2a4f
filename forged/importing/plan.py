"""What of the items goes where: into which repository or to the user, under which id, linked with what.

In go items and what a person said of places, out come moves, each text and each id once in a place, and what
is left. Pure functions; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from forged.importing.values import Item, SkippedItem, new_id
from forged.memory import Scope, one_form


class Destination(msgspec.Struct, frozen=True, order=True):
    """A workspace, and whose memories of it are meant."""

    workspace: str
    scope: str


class PlannedItem(msgspec.Struct, frozen=True):
    """An item with the id that it gets, in a place."""

    place: Destination
    memory_id: str
    item: Item


class RepositoryPaths(msgspec.Struct, frozen=True):
    """Where a person stands, what that repository is called, and where they say that others are, by name.

    `into` "" is where all of them go.
    """

    workspace: str
    name: str = ""
    into: Mapping[str, str] = {}


def plan_items(
    items: Iterable[Item], places: RepositoryPaths
) -> tuple[tuple[PlannedItem, ...], tuple[SkippedItem, ...]]:
    """One move for each item that has a place and is not there twice, in their order."""
    moves: dict[tuple[Destination, str], PlannedItem] = {}
    left: list[SkippedItem] = []
    for item in items:
        place = _place(item, places)
        if place is None:
            left.append(SkippedItem(item.where, _elsewhere(item.repo)))
            continue
        move = PlannedItem(place, item.memory_id or new_id(item.text), item)
        first = moves.setdefault((place, move.memory_id), move)
        if first is not move:
            left.append(SkippedItem(item.where, _twice(item, first.item)))
    return tuple(moves.values()), tuple(left)


def plan_links(
    moves: Sequence[PlannedItem], ids: Mapping[tuple[Destination, str], str]
) -> tuple[dict[int, tuple[tuple[str, str], ...]], tuple[SkippedItem, ...]]:
    """The links of each move, by its number, as ids and relationships; and those that lead nowhere.

    `ids` are those under which moves are there in the end.
    """
    homes = {(move.place, key): move.memory_id for move in reversed(moves) for key in move.item.keys}
    found: dict[int, tuple[tuple[str, str], ...]] = {}
    left: list[SkippedItem] = []
    for number, move in enumerate(moves):
        mine: dict[str, str] = {}
        for link in move.item.links:
            target = homes.get((move.place, link.key), "")
            there = ids.get((move.place, target), "")
            if there and there != ids.get((move.place, move.memory_id)):
                mine.setdefault(there, link.relationship)
            else:
                left.append(
                    SkippedItem(move.item.where, f"a link to {link.key[:80]!r}, which is not imported")
                )
        found[number] = tuple(mine.items())
    return found, tuple(left)


def _place(item: Item, places: RepositoryPaths) -> Destination | None:
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


def _elsewhere(repo: str) -> str:
    return f"it belongs to the repository {repo[:80]!r}; --into NAME=PATH says where that is"


def _twice(item: Item, first: Item) -> str:
    if item.file and item.file != first.file:
        return f"another file has the same id: {first.where}"
    return f"same text as {first.where}"
