"""Stores of a measured daemon: a set as it is, or cut into many small stores.

A small store stands for somebody's first week. Drawing a store of its own for every query would embed the set
many times over. Here the memories that a repository's queries see are shuffled once and cut into pieces, each
piece becomes a repository of its own, and a query is asked where one of its answers has come to lie: every
memory is embedded once, and which others lie beside an answer is still chance. Replaced versions are left
out, and evidence that lies elsewhere does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from forged.files import render
from forged.memory import Scope
from tests.evaluation.dataset import Dataset, Item, Query, Repository, labels_of

SEED = 20261


class World(msgspec.Struct, frozen=True):
    """`off_topic` holds, for each of `stores`, the messages that are asked in it."""

    user: tuple[Item, ...]
    stores: tuple[Repository, ...]
    off_topic: tuple[tuple[str, ...], ...]

    @property
    def questions(self) -> int:
        """How many queries and messages are asked."""
        return sum(len(store.queries) for store in self.stores) + sum(map(len, self.off_topic))


def whole(dataset: Dataset) -> World:
    """The set as it is; every off-topic message is asked in every repository."""
    messages = tuple(message.text for message in dataset.off_topic)
    return World(dataset.user, dataset.repositories, tuple(messages for _ in dataset.repositories))


def small(dataset: Dataset, size: int) -> World:
    """Stores of `size` memories, or of all if there are fewer; nothing is the user's.

    Every off-topic message is asked in one store of each repository.
    """
    stores: list[Repository] = []
    off_topic: list[tuple[str, ...]] = []
    for repository in dataset.repositories:
        random = Random(f"{SEED} {repository.name} {size}")
        cut = tuple(_asked(repository, _pieces((*repository.items, *dataset.user), size, random), random))
        stores += cut
        messages = [message.text for message in dataset.off_topic]
        off_topic += [tuple(messages[number :: len(cut)]) for number in range(len(cut))]
    return World((), tuple(stores), tuple(off_topic))


def _pieces(items: Iterable[Item], size: int, random: Random) -> list[tuple[Item, ...]]:
    """Shuffle the newest versions and cut them; the last piece is filled up from the first."""
    everything = tuple(items)
    replaced = {item.memory.supersedes for item in everything}
    heads = [_in_repository(item) for item in everything if item.memory.id not in replaced]
    random.shuffle(heads)
    starts = range(0, len(heads), size)
    return [tuple(heads[start : start + size]) for start in starts[:-1]] + [
        tuple((*heads[starts[-1] :], *heads)[: min(size, len(heads))])
    ]


def _in_repository(item: Item) -> Item:
    return msgspec.structs.replace(item, memory=msgspec.structs.replace(item.memory, scope=Scope.REPO))


def _asked(
    repository: Repository, pieces: Sequence[tuple[Item, ...]], random: Random
) -> Iterator[Repository]:
    """The pieces that a query is asked of, each with its queries."""
    queries: list[list[Query]] = [[] for _ in pieces]
    labels = [labels_of(piece) for piece in pieces]
    for query in repository.queries:
        homes = [number for number, held in enumerate(labels) if held & query.evidence]
        if homes:
            home = random.choice(homes)
            queries[home].append(msgspec.structs.replace(query, evidence=query.evidence & labels[home]))
    for number, piece in enumerate(pieces):
        if queries[number]:
            yield Repository(f"{repository.name}-{number:04d}", piece, tuple(queries[number]))


def settle(world: World, home: Path, workspaces: Path) -> tuple[str, ...]:
    """Write the memories as files: the user's below `home`, each store in a repository below `workspaces`.

    Returns the workspace of each store. The files die with the scratch directory, so nothing is synced.
    """
    write(home, world.user)
    paths = []
    for store in world.stores:
        top = workspaces / store.name
        (top / ".git").mkdir(parents=True)
        write(top, store.items)
        paths.append(os.fspath(top))
    return tuple(paths)


def write(top: Path, items: Iterable[Item]) -> None:
    """Write memories as files into the repository or HOME at `top`."""
    directory = top / ".forge" / "memory"
    directory.mkdir(parents=True, exist_ok=True)
    for item in items:
        (directory / f"{item.memory.id}.md").write_bytes(render(item.memory))
