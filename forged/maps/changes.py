"""What became of the memories of a map in the next: which rows stay, which are new, which were redated.

In go two sequences of memories, ordered by id, out come the rows; what stays is not looked at again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.files import Pace
from forged.memory import Memory

Rows = NDArray[np.int32]


class Changes(msgspec.Struct, frozen=True, eq=False):
    """From the rows of one map to those of the next.

    kept_old, kept_new: rows of texts that stay, in the old and in the new order, both ascending.
    added: new rows of texts that were not there; redated: of texts that stay under other front matter.
    """

    kept_old: Rows
    kept_new: Rows
    added: Rows
    redated: Rows


def compared(old: Sequence[Memory], new: Sequence[Memory], pace: Pace) -> Changes:
    """What became of the rows of `old` in `new`; both are ordered by id.

    Most rebuilds are for one memory, and all others are the very same objects: what is before and behind the
    difference is not looked at one by one.
    """
    shorter = min(len(old), len(new))
    head = _alike(old, new, shorter)
    most = shorter - head
    tail = min(_alike(reversed(old), reversed(new), most), most)
    kept_old, kept_new, added, redated = [], [], [], []
    row_of = {old[row].id: row for row in range(head, len(old) - tail)}
    for row in range(head, len(new) - tail):
        memory, before = new[row], row_of.get(new[row].id)
        if before is not None and (old[before] is memory or old[before].content == memory.content):
            kept_old.append(before)
            kept_new.append(row)
            if old[before] is not memory:
                redated.append(row)
        else:
            added.append(row)
        pace.yield_if_due()
    return Changes(
        _framed(head, kept_old, len(old), tail),
        _framed(head, kept_new, len(new), tail),
        _rows(added),
        _rows(redated),
    )


def differing(old: Sequence[Memory], new: Sequence[Memory]) -> tuple[list[Memory], list[Memory]]:
    """The memories of each that are not the same objects in the other; both are ordered by id."""
    shorter = min(len(old), len(new))
    head = _alike(old, new, shorter)
    tail = min(_alike(reversed(old), reversed(new), shorter - head), shorter - head)
    went, came = old[head : len(old) - tail], new[head : len(new) - tail]
    before, after = set(map(id, went)), set(map(id, came))
    return [each for each in went if id(each) not in after], [each for each in came if id(each) not in before]


def _alike(old: Iterable[Memory], new: Iterable[Memory], most: int) -> int:
    """How many memories, from the front, are the same objects in both; `most` if all are."""
    try:
        return operator.indexOf(map(operator.is_, old, new), False)
    except ValueError:
        return most


def _framed(head: int, middle: list[int], size: int, tail: int) -> Rows:
    """The first `head` rows, those in the middle, and the last `tail` of `size`."""
    return np.concatenate((np.arange(head), _rows(middle), np.arange(size - tail, size)), dtype=np.int32)


def _rows(rows: list[int]) -> Rows:
    return np.array(rows, np.int32)
