"""Find roots with memories below a directory that a person named.

The walk is limited: no links, at most eight levels, 200,000 directories and ten seconds. Deeper roots can be
named directly. Raises WorkspaceError if the path is no directory. Blocks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from forged.errors import WorkspaceError
from forged.files import repo_root, resolve
from forged.memory import Scope

_DEPTH, _MOST, _LIMIT_S = 8, 200_000, 10.0
_NEVER = frozenset({".git", ".forge", "node_modules", ".venv", "__pycache__"})


def roots_below(directory: str, home: str) -> tuple[str, ...]:
    """Return the tops of roots at or below a directory that have memory files, sorted by path."""
    if not os.path.isabs(directory) or not os.path.isdir(directory):
        raise WorkspaceError(f"{directory!r} is not an absolute path to a directory")
    found = (_root_top(place, home) for place in _walk(os.path.realpath(directory)) if _has_memories(place))
    return tuple(sorted({top for top in found if top}))


def _walk(directory: str) -> Iterator[str]:
    """Yield a directory and those below it, within limits of depth, number and time."""
    deadline = time.monotonic() + _LIMIT_S
    waiting, seen = [(directory, 0)], 0
    while waiting and seen < _MOST and time.monotonic() < deadline:
        place, depth = waiting.pop()
        seen += 1
        yield place
        if depth < _DEPTH:
            waiting += [(below, depth + 1) for below in _subfolders(place)]


def _subfolders(place: str) -> list[str]:
    """Return the folders in a directory, without links and those that never hold a root."""
    try:
        with os.scandir(place) as entries:
            return [each.path for each in entries if each.name not in _NEVER and _is_folder(each)]
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True if an entry is a directory and no link."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _has_memories(place: str) -> bool:
    """Return True if a directory has memory files in one of its memory folders."""
    for folder in repo_root(place).folders:
        try:
            if any(name.endswith(".md") for name in os.listdir(os.path.join(place, folder))):
                return True
        except OSError:
            continue
    return False


def _root_top(place: str, home: str) -> str:
    """Return a directory if it is the top of a repo root, else ""; deeper memory files do not count."""
    try:
        roots = resolve(place, home)
    except WorkspaceError:
        return ""
    return next((root.top for root in roots if root.scope is Scope.REPO and root.top == place), "")
