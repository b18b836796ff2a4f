"""Reading files that another process may take away in the meantime."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


def bytes_of(paths: Iterable[Path]) -> dict[Path, bytes]:
    """The bytes of each file; folders, and what goes before it is read, are left out."""
    found: dict[Path, bytes] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found[path] = path.read_bytes()
    return found
