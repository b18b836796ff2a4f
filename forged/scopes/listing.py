"""A page of memories, newest first, without looking closely at all of them.

In go rows of some maps and which places of the order are wanted; out come those memories with their maps.
Nothing is raised. To the second the maps know when each row was made; only what lies at the edges of the
page, or in it, is parsed to the nanosecond, which of ten thousand takes thirty milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forged.map import VectorMap
from forged.memory import Memory, time_ns

_NONE = np.empty(0, np.int64)
Rows = tuple[VectorMap, Sequence[int]]


def newest(rows: Sequence[Rows], start: int, count: int) -> list[tuple[VectorMap, Memory]]:
    """Places `start` to `start + count` of the rows by (newest, id)."""
    seconds = np.concatenate([_NONE, *(home.created[np.array(own, np.intp)] for home, own in rows)])
    order = np.argsort(-seconds, kind="stable")
    falling = -seconds[order]
    last = min(start + count, len(order)) - 1
    if not 0 <= start <= last:
        return []
    low = int(np.searchsorted(falling, falling[start]))
    high = int(np.searchsorted(falling, falling[last], side="right"))
    held = [(home, row) for home, own in rows for row in own]
    near = [(home, home.at(row)) for home, row in map(held.__getitem__, order[low:high].tolist())]
    near.sort(key=lambda item: (-time_ns(item[1].created_at), item[1].id))
    return near[start - low : last + 1 - low]
