"""Read git's own files where commands do not suffice: object directories, and recorded resolutions.

Raises GitFailed. Blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from forged.trust.git import GitFailed

_MOST_BYTES, _MOST_KEPT = 16 << 20, 1 << 12
_MOST_ALTERNATES, _DEEPEST_ALTERNATE, _MOST_LISTED = 64, 5, 1 << 16


def check_readable(common: str, blobs: Iterable[str]) -> None:
    """Raise GitFailed if one of these blobs may be in a place that cannot be read, as an alternate.

    `common` is the directory that holds `objects`. An alternate may be on a disk that is not mounted.
    """
    fans = {blob[:2] for blob in blobs}
    waiting, seen = [(os.path.join(common, "objects"), 0)], set[str]()
    while waiting:
        objects, depth = waiting.pop()
        if objects in seen:
            continue
        seen.add(objects)
        if depth > _DEEPEST_ALTERNATE or len(seen) > _MOST_ALTERNATES:
            raise GitFailed("git has too many object directories to check")
        _check_directory(objects)
        for name in ("pack", *fans):
            _check_directory(os.path.join(objects, name), may_be_missing=True)
        _check_packs(os.path.join(objects, "pack"))
        waiting += [(each, depth + 1) for each in _alternates(objects)]


def recorded_resolutions(common: str) -> tuple[bytes, ...]:
    """Return the texts of resolved conflicts that git keeps to reuse by itself (`rerere`).

    `common` is the directory that holds `rr-cache`. Raises GitFailed if one cannot be read.
    """
    folder = os.path.join(common, "rr-cache")
    found: list[bytes] = []
    try:
        kept = (
            os.path.join(folder, name) for name in (os.listdir(folder) if os.path.lexists(folder) else ())
        )
        for each in filter(os.path.isdir, kept):
            for path in (
                os.path.join(each, name) for name in os.listdir(each) if name.startswith("postimage")
            ):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(descriptor, "rb") as file:
                    found.append(file.read(_MOST_BYTES))
            if len(found) > _MOST_KEPT or sum(map(len, found)) >= _MOST_BYTES:
                raise GitFailed("git keeps too many conflict resolutions to check")
    except OSError as error:
        raise GitFailed(f"git's resolutions in {folder} cannot be read: {error.strerror}") from error
    return tuple(found)


def _check_directory(path: str, *, may_be_missing: bool = False) -> None:
    """Raise GitFailed if a directory of git's objects cannot be read, or is missing unless it may be."""
    try:
        os.stat(path)
    except FileNotFoundError:
        if not may_be_missing:
            raise GitFailed(f"git's objects in {path} are missing") from None
        return
    except OSError as error:
        raise GitFailed(f"git's objects in {path} cannot be read: {error.strerror}") from error
    if not os.access(path, os.R_OK | os.X_OK):
        raise GitFailed(f"git's objects in {path} cannot be read")


def _check_packs(folder: str) -> None:
    """Raise GitFailed if a pack of objects cannot be read, or there are too many packs."""
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count > _MOST_LISTED:
                    raise GitFailed("git has too many packs to check")
                if entry.name.endswith((".pack", ".idx")) and not os.access(entry.path, os.R_OK):
                    raise GitFailed(f"git's objects in {entry.path} cannot be read")
    except FileNotFoundError:
        return
    except OSError as error:
        raise GitFailed(f"git's objects in {folder} cannot be read: {error.strerror}") from error


def _alternates(objects: str) -> list[str]:
    """Return the other object directories that an object directory refers to. Raises GitFailed."""
    path = os.path.join(objects, "info", "alternates")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GitFailed(f"{path} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        content = file.read(_MOST_LISTED + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"\0"
    if len(content) > _MOST_LISTED or b"\0" in content or b'"' in content:
        raise GitFailed(f"{path} cannot be understood")
    lines = (line for line in content.split(b"\n") if line and not line.startswith(b"#"))
    return [os.path.normpath(os.path.join(objects, os.fsdecode(line))) for line in lines]
