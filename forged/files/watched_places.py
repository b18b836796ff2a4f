"""Which directories the watches of some roots hang on, and what a change in one means for them.

Goes in: roots, and changes as watchfiles tells them. Comes out: the directories that are there now, the roots
that are touched, and whether a directory came or went. Nothing is raised.
"""

from __future__ import annotations

import os
import stat

import msgspec
from watchfiles import Change

from forged.files.roots import Root, upwards

EVERYTHING = frozenset[str]()
"""In place of the files that changed: it may be any of them."""


class Watched(msgspec.Struct, frozen=True, order=True):
    """A directory under watch; equal values are the same directory at the same path."""

    path: str
    device: int
    inode: int


class WatchedPlaces:
    """What paths mean to a set of roots: where memories lie, and which directories they hang on."""

    def __init__(self, roots: tuple[Root, ...]) -> None:
        self._roots = roots
        self._memories = {directory: root.top for root in roots for directory in root.directories}
        self._structure: dict[str, set[str]] = {}
        for root in roots:
            for directory in (*below(root), *upwards(root.top)):
                self._structure.setdefault(directory, set()).add(root.top)

    def on_disk(self) -> frozenset[Watched]:
        """Directories to watch at this moment; those that cannot be read are left to the scan."""
        found = set[Watched]()
        for root in self._roots:
            nearest = next(filter(None, map(_look, upwards(root.top))), None)
            candidates = (*map(_look, below(root)), nearest)
            found.update(directory for directory in candidates if directory is not None)
        return frozenset(found)

    def touched_between(
        self, before: frozenset[Watched], now: frozenset[Watched]
    ) -> dict[str, frozenset[str]]:
        """Roots with a directory that is watched now and was not before, or the other way round.

        A parent of a root that is there is watched for others.
        """
        changed = {directory.path for directory in before ^ now}
        there = {directory.path for directory in now}
        tops = (
            root.top
            for root in self._roots
            if changed & {root.top, *below(root)}
            or (root.top not in there and changed & set(upwards(root.top)))
        )
        return dict.fromkeys(tops, EVERYTHING)

    def affected(self, changes: set[tuple[int, str]]) -> tuple[dict[str, frozenset[str]], bool]:
        """Roots that the changes touch, by top, and whether a watched directory came or went.

        With each root its files that changed, or none when it was more than files.
        """
        files: dict[str, set[str]] = {}
        whole = set[str]()
        swapped = False
        for change, path in changes:
            directory, _, name = path.rpartition("/")
            if path in self._structure:
                whole |= self._structure[path]
                swapped = swapped or change != Change.modified
            elif directory in self._memories and name.endswith(".md") and not name.startswith("."):
                files.setdefault(self._memories[directory], set()).add(path)
        touched = {top: frozenset(paths) for top, paths in files.items()}
        return touched | dict.fromkeys(whole, frozenset()), swapped


def below(root: Root) -> tuple[str, ...]:
    """The directories of a root that are watched if they are there."""
    return (*root.directories, os.path.dirname(root.directories[0]))


def _look(path: str) -> Watched | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    readable = stat.S_ISDIR(status.st_mode) and os.access(path, os.R_OK)
    return Watched(path, status.st_dev, status.st_ino) if readable else None
