"""A file without a name that a set of watches has beside its directories, to know when it has told all.

The kernel tells a set of watches what happens in the order in which it does, but a thread of the backend
passes it on, and a busy machine lets that wait for as long as it likes. So before watches are given up their
mark is set, once: what they tell until they tell of the mark is all that happened before. Only Linux has such
files; where `is_there` is false nobody is told that all was told.
"""

from __future__ import annotations

import os
import sys


class WatchBarrier:
    """One for each set of watches: one that was set before may be told of late."""

    def __init__(self) -> None:
        self._descriptor = _unnamed()
        self.path = f"/proc/self/fd/{self._descriptor}"
        self.is_there = self._descriptor >= 0 and os.path.exists(self.path)

    def set(self) -> None:
        """Give it another time, of which its watch tells; writing into it tells nobody."""
        if self.is_there:
            os.utime(self._descriptor)

    def is_in(self, changes: object) -> bool:
        """Whether it is among the changes that were told."""
        return isinstance(changes, set) and any(path == self.path for _, path in changes)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self.is_there = -1, False


def _unnamed() -> int:
    if sys.platform != "linux":
        return -1
    try:
        return os.memfd_create("forged-watches")
    except OSError:  # no descriptor is left: the watches themselves will say so
        return -1
