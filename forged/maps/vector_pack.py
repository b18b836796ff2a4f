"""Vector pack: vectors of one root in sealed memory, handed to the next daemon.

A pack is a sealed memfd, never a file on disk, and left out of core dumps. It holds vectors by the hashes of
their texts, and no text. `pack` makes one from a `PackSource`, `VectorPack(descriptor)` reads one.
`VectorPacks` keeps packs for their roots and drops those not taken within a day: their texts may have been
forgotten. Raises `UnusablePack` for other seals, another owner or version, or a wrong checksum: that costs
only the time to embed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.errors import ForgedError
from forged.files import Root
from forged.map import DenseIndex
from forged.models import Vectors
from forged_client.typed import resolved

KEPT_S = 24 * 3600.0
# As many as a unit's FileDescriptorStoreMax= allows, and fewer than one message of a socket takes.
MOST_PACKS = 64
_VERSION = b"forged vectors 1"
_HEAD = Struct("<16sII")  # version, checksum of all that follows, length of the label
_ALIGNED = 64
_HASH = 32
_PIECE = 512  # rows that are copied at once: 0.8 MB of the local model
_NOEXEC_SEAL = 0x8  # MFD_NOEXEC_SEAL, which Python 3.11 has no name for; kernels before 6.3 know none
if hasattr(os, "memfd_create"):
    _SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class UnusablePack(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised if a pack cannot be read, or vectors cannot be packed."""


class PackLabel(msgspec.Struct, frozen=True):
    """Label of a pack: `count` vectors of `dimension` numbers, of a root's texts by the model `key`.

    `known` describes the model.
    """

    root: str
    key: str
    dimension: int = 0
    count: int = 0
    known: bytes = b""


class PackPart(msgspec.Struct, frozen=True, eq=False):
    """Vectors of one map part: row i of `dense` belongs to the text with hash `hashes[i]`, b"" for none."""

    hashes: Sequence[bytes]
    dense: DenseIndex | None


class PackSource(msgspec.Struct, frozen=True, eq=False):
    """Vectors of a root's texts at one moment; it does not change while it is packed.

    `fresh` holds vectors that no index has yet. `cut` are hashes of texts of which only the beginning was
    embedded.
    """

    label: PackLabel
    pack_parts: tuple[PackPart, ...]
    fresh: Mapping[bytes, Vectors]
    cut: frozenset[bytes]


class VectorPack:
    """Sealed vectors of a root, to be read; their memory is freed with the last reference to a row."""

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor, closed with the pack; close it at once and raise if unusable."""
        self.descriptor = descriptor
        try:
            self._memory = _map_memory(descriptor)
            self.label, self._begin = _read_label(self._memory)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            os.close(descriptor)
            raise UnusablePack(f"{error}") from error

    def __del__(self) -> None:
        """Close the descriptor. The memory lives on in rows that are still referenced."""
        if hasattr(self, "label"):
            os.close(self.descriptor)

    def read(
        self, key: str, dimension: int = 0
    ) -> tuple[Callable[[bytes], Vectors | None], frozenset[bytes]]:
        """Check the whole pack; return a lookup of vectors by text hash, and the hashes of cut texts.

        Reads the whole pack: call it in a thread. Raises UnusablePack when it is of another model, or
        damaged. A `dimension` of 0 is any.
        """
        if self.label.key != key or dimension not in {0, self.label.dimension}:
            raise UnusablePack("they are of another model")
        if zlib.crc32(memoryview(self._memory)[_HEAD.size :]) != _HEAD.unpack_from(self._memory)[1]:
            raise UnusablePack("its checksum is wrong")
        label, size = self.label, len(self._memory)
        rows = np.frombuffer(self._memory, np.float32, label.count * label.dimension, self._begin)
        rows = rows.reshape(label.count, label.dimension)
        end = size - label.count
        listed = self._memory[end - _HASH * label.count : end]
        place = {listed[at * _HASH : at * _HASH + _HASH]: at for at in range(label.count)}
        was_cut = np.frombuffer(self._memory, np.bool_, label.count, end)

        def get(key: bytes) -> Vectors | None:
            row = place.get(key)
            return None if row is None else rows[row]

        return get, frozenset(key for key, row in place.items() if was_cut[row])


def pack(pack_source: PackSource) -> VectorPack:
    """Copy vectors into a new sealed pack, some rows at a time. Raises UnusablePack."""
    if not hasattr(os, "memfd_create"):
        raise UnusablePack("this system has no sealed memory")
    try:
        descriptor = _create_memfd()
    except OSError as error:
        raise UnusablePack(f"no sealed memory: {error.strerror}") from error
    try:
        _write_pack(descriptor, pack_source)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except (OSError, ValueError) as error:
        os.close(descriptor)
        raise UnusablePack(f"not packed: {error}") from error
    return VectorPack(descriptor)


def _create_memfd() -> int:
    """Create a nameless file in memory that can be sealed; return its descriptor."""
    try:
        return os.memfd_create("forged-vectors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | _NOEXEC_SEAL)
    except OSError:
        return os.memfd_create("forged-vectors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _write_pack(descriptor: int, pack_source: PackSource) -> None:
    """Write label, vectors, hashes and cut flags of a pack, and then its header with the checksum."""
    dimension = _newest_dimension(pack_source)
    wanted = [
        (pack_part, _known_rows(pack_part, pack_source.fresh, dimension))
        for pack_part in pack_source.pack_parts
    ]
    count = sum(len(numbers) for _, numbers in wanted)
    encoded = msgspec.msgpack.encode(
        msgspec.structs.replace(pack_source.label, dimension=dimension, count=count)
    )
    os.lseek(descriptor, _HEAD.size, os.SEEK_SET)
    checksum = 0
    for piece in _pack_bytes(pack_source, wanted, dimension, encoded):
        _write_all(descriptor, piece)
        checksum = zlib.crc32(piece, checksum)
    os.pwrite(descriptor, _HEAD.pack(_VERSION, checksum, len(encoded)), 0)


def _pack_bytes(
    pack_source: PackSource, wanted: Sequence[tuple[PackPart, NDArray[np.intp]]], dimension: int, label: bytes
) -> Iterator[bytes]:
    """Yield the bytes of a pack after its header, some rows at a time."""
    yield label.ljust(_vectors_offset(len(label)) - _HEAD.size, b"\0")
    for pack_part, numbers in wanted:
        for at in range(0, len(numbers), _PIECE):
            yield _vectors_of(pack_part, numbers[at : at + _PIECE], pack_source.fresh, dimension).tobytes()
    keys = [pack_part.hashes[row] for pack_part, numbers in wanted for row in numbers.tolist()]
    yield b"".join(keys)
    yield bytes(key in pack_source.cut for key in keys)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _newest_dimension(pack_source: PackSource) -> int:
    """Return the dimension of the first index, without one that of the first fresh vector, or 0."""
    indexes = (
        pack_part.dense.dimension for pack_part in pack_source.pack_parts if pack_part.dense is not None
    )
    return next(indexes, len(next(iter(pack_source.fresh.values()), b"")))


def _known_rows(pack_part: PackPart, fresh: Mapping[bytes, Vectors], dimension: int) -> NDArray[np.intp]:
    """Return the rows of a part that have a vector: a fresh one, or in its index of this dimension."""
    known = np.fromiter(map(fresh.__contains__, pack_part.hashes), np.bool_, len(pack_part.hashes))
    if pack_part.dense is not None and pack_part.dense.dimension == dimension:
        known |= ~pack_part.dense.missing
    return np.flatnonzero(known)


def _vectors_of(
    pack_part: PackPart, numbers: NDArray[np.intp], fresh: Mapping[bytes, Vectors], dimension: int
) -> Vectors:
    """Return the vectors of some rows of a part; fresh ones replace those of the index."""
    dense = (
        pack_part.dense if pack_part.dense is not None and pack_part.dense.dimension == dimension else None
    )
    rows = dense.rows_at(numbers) if dense is not None else np.zeros((len(numbers), dimension), np.float32)
    for at, number in enumerate(numbers.tolist()):
        if (row := fresh.get(pack_part.hashes[number])) is not None:
            rows[at] = row
    return np.ascontiguousarray(rows, np.float32)


def _map_memory(descriptor: int) -> mmap.mmap:
    """Map the memory of a descriptor. Raises ValueError unless it is this user's and sealed."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise ValueError("it is not memory of ours")
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("it is not sealed")
    os.set_inheritable(descriptor, False)
    memory = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_DONTDUMP)
    return memory


def _read_label(memory: mmap.mmap) -> tuple[PackLabel, int]:
    """Return a pack's label and the offset of the vectors. Raises ValueError, MsgspecError."""
    if len(memory) < _HEAD.size:
        raise ValueError("it is too short")
    version, _, length = _HEAD.unpack_from(memory)
    if version != _VERSION:
        raise ValueError("it is of another version")
    start = _vectors_offset(length)
    if start > len(memory):
        raise ValueError("its label is cut off")
    label = msgspec.msgpack.decode(memory[_HEAD.size : _HEAD.size + length], type=resolved(PackLabel))
    if label.count < 0 or label.dimension < 0:
        raise ValueError("its label is odd")
    if start + label.count * (4 * label.dimension + _HASH + 1) != len(memory):
        raise ValueError("its length is not that on its label")
    return label, start


def _vectors_offset(length: int) -> int:
    """Return the offset of the vectors in a pack whose label has so many bytes."""
    return -(-(_HEAD.size + length) // _ALIGNED) * _ALIGNED


class VectorPacks:
    """Vector packs by root, until taken; dropped after a day, and the oldest of more than 64."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[VectorPack, float]] = {}

    def put(self, vector_pack: VectorPack) -> None:
        """Keep a pack for its root, in place of an older one; of more than 64 packs drop the oldest."""
        self._waiting.pop(vector_pack.label.root, None)
        self._waiting[vector_pack.label.root] = (vector_pack, self._clock())
        while len(self._waiting) > MOST_PACKS:
            del self._waiting[next(iter(self._waiting))]

    def take(self, root: Root) -> VectorPack | None:
        """Remove and return the pack of a root; None if there is none."""
        return self._waiting.pop(pack_name(root), (None, 0.0))[0]

    def drop_old(self) -> None:
        """Drop packs that waited for a day."""
        since = self._clock() - KEPT_S
        self._waiting = {name: each for name, each in self._waiting.items() if each[1] > since}

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the roots that have not taken their packs."""
        return tuple(self._waiting)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors of all waiting packs, to be handed on; open as long as the packs are kept here."""
        return tuple(vector_pack.descriptor for vector_pack, _ in self._waiting.values())


def pack_name(root: Root) -> str:
    """Return the name of a root, scope and path, on the labels of packs."""
    return f"{root.scope}:{root.top}"
