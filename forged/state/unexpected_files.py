"""Find entries of the state directory that are not forged's: links, pipes, files of other users.

Nothing is opened, followed, moved or removed. A missing directory has no entries.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from forged.files import printable
from forged.state.damage import set_aside

# Written by `forgectl ui`: a copy of all memories for a browser.
PAGE = "ui.html"

_FILES = frozenset(
    {
        *("state.db", "state.db-wal", "state.db-shm", "state.db-journal", "state.db.holder", "state.copy"),
        *("executable", "forged.log", "forged.log.1", "starting.lock", PAGE),
    }
)
_FOLDERS = frozenset({"trash", "run", "classifier", "documents"})
_TEMP = ".forged-"
_MOST = 5


def unexpected_files(directory: str) -> tuple[str, ...]:
    """Return sentences on unexpected entries of the state directory: at most five, then how many more."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return ()
    ours = {os.path.basename(path) for path in set_aside(os.path.join(directory, "state.db"))}
    sentences = [*_sentences(directory, names, ours)]
    rest = len(sentences) - _MOST
    more = (f"{rest:,} more things in {directory} are not forged's",) if rest > 0 else ()
    return (*sentences[:_MOST], *more)


def _sentences(directory: str, names: list[str], ours: set[str]) -> Iterator[str]:
    """Yield a sentence for each unexpected entry of the state directory, and for the directory itself."""
    for name in ("", *names):
        path = os.path.join(directory, name) if name else directory
        try:
            found = os.lstat(path)
        except OSError:
            continue
        known = not name or name in _FILES | _FOLDERS | ours or name.startswith(_TEMP)
        if why := _why_unexpected(found, name) or ("" if known else "is nothing that forged put there"):
            yield f"{printable(path)} {why}"


def _why_unexpected(found: os.stat_result, name: str) -> str:
    """Return why the type, owner or mode of an entry of the state directory is unexpected, or ""."""
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        return "is a link, and forged keeps its state in this directory itself"
    if kind not in {stat.S_IFREG, stat.S_IFDIR}:
        return "is a pipe, socket or device"
    if (kind == stat.S_IFDIR and name in _FILES) or (kind == stat.S_IFREG and name in _FOLDERS):
        return "is a directory and has to be a file" if name in _FILES else "has to be a directory"
    if found.st_uid != os.geteuid():
        return f"belongs to another user ({found.st_uid})"
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return "can be changed by others; run: chmod go-w" if others and not name else ""
