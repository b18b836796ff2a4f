"""List files in the folders of a root that are no memories, with the reason. Blocks for the disk."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator

from forged.errors import StoreError
from forged.files import atomic
from forged.files.roots import Root, open_folder
from forged.files.snapshot import printable
from forged.memory import Problem

_MOST_LISTED, _MOST_LOOKED_AT, _DEEPEST = 1000, 20_000, 8
# Temporary and backup files of editors and programs.
_COPY = re.compile(
    r"\.|.*~$|#.*#$|4913$|.*\.(?:sw[a-z]|tmp|temp|bak|orig|rej|part|crswap|kate-swp)$|.*___jb_(?:tmp|old)___$"
)


def non_memory_files(root: Root) -> tuple[Problem, ...]:
    """Return files in the folders of a root that are no memories, with reasons: at most 1,000.

    Sorted by path. Hidden files, copies of editors and problems of a scan are left out. Raises nothing.
    """
    found: list[Problem] = []
    seen: set[tuple[int, int]] = set()
    looked_at = itertools.count()
    for folder in root.folders:
        with contextlib.suppress(OSError, StoreError):
            directory = open_folder(root.top, folder)
            try:
                found += _non_memories_in(directory, os.path.join(root.top, folder), seen, looked_at, 0)
            finally:
                os.close(directory)
    return tuple(sorted(found))[:_MOST_LISTED]


def _non_memories_in(
    directory: int, path: str, seen: set[tuple[int, int]], looked_at: Iterator[int], depth: int
) -> Iterator[Problem]:
    """Yield files that are no memories, with reasons, in a directory and below it, within limits."""
    status = os.fstat(directory)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(directory) as entries:
        for entry in itertools.takewhile(lambda _: next(looked_at) < _MOST_LOOKED_AT, entries):
            is_of_scan = depth == 0 and entry.name.endswith(".md")
            if is_of_scan or _COPY.match(entry.name):
                continue
            here = f"{path}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield Problem(printable(here), _why_no_memory(entry, depth))
            elif depth < _DEEPEST:
                with contextlib.suppress(OSError):
                    below = os.open(entry.name, atomic.DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                    try:
                        yield from _non_memories_in(below, here, seen, looked_at, depth + 1)
                    finally:
                        os.close(below)


def _why_no_memory(entry: os.DirEntry[str], depth: int) -> str:
    """Return why an entry of a memory folder or its subfolders is no memory, with a remedy."""
    if entry.is_symlink():
        return "is a symbolic link; put the file itself here"
    if not entry.is_file(follow_symlinks=False):
        return "is not a regular file"
    if depth:
        return "is in a subfolder; move it into the folder of memories, with a name that ends in .md"
    ending = os.path.splitext(entry.name)[1]
    found = f"its name ends in {printable(ending)[:20]}" if ending else "its name has no ending"
    return f"{found}; rename it to end in .md"
