"""Read files that another process may remove meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


def bytes_of(paths: Iterable[Path]) -> dict[Path, bytes]:
    """Return the bytes of each file, without folders and files that are gone."""
    found: dict[Path, bytes] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found[path] = path.read_bytes()
    return found
