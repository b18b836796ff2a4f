"""Vectors in sealed memory: what is packed is read again, and what is odd is not."""

from __future__ import annotations

import errno
import fcntl
import os
import tracemalloc

import numpy as np
import pytest

from forged.map import build_dense
from forged.maps.embedding import text_hash
from forged.maps.vector_pack import PackLabel, PackPart, PackSource, UnusablePack, VectorPack, pack
from tests.support.provider import vector

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")
TEXTS = ("one", "two", "three", "four")
HASHES = tuple(map(text_hash, TEXTS))
ALL = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def pack_source(*, fresh=(), cut=frozenset(), hashes=HASHES, missing=()):
    """What is known of four texts: a dense without those that are missing, and `fresh` beside it."""
    rows = np.stack([np.zeros(8, np.float32) if text in missing else vector(text) for text in TEXTS])
    dense = build_dense("model", rows)
    known = {text_hash(text): vector(text) for text in fresh}
    return PackSource(PackLabel("repo:/r", "model"), (PackPart(hashes, dense),), known, cut)


def passed_on(vector_pack):
    """The parcel as another process gets it: by a descriptor alone."""
    return VectorPack(os.dup(vector_pack.descriptor))


def test_a_pack_cannot_be_changed():
    vector_pack = pack(pack_source())

    with pytest.raises(PermissionError):
        os.pwrite(vector_pack.descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(vector_pack.descriptor, 1)


def flags_of_mappings(name: str) -> list[set[str]]:
    """The flags of this process's mappings of files of a name, as the system tells them."""
    found, is_meant = [], False
    with open("/proc/self/smaps") as file:
        for line in file:
            head, *rest = line.split()
            if "-" in head:
                is_meant = name in line
            elif head == "VmFlags:" and is_meant:
                found.append(set(rest))
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="the system does not tell of mappings")
def test_no_vector_is_in_a_core_dump_neither_where_it_was_packed_nor_where_it_is_read():
    """`dd`: a mapping that is left out."""
    packed = pack(pack_source())
    received = passed_on(packed)
    get, _ = received.read("model")
    row = get(HASHES[0])

    flags = flags_of_mappings("memfd:forged-vectors")
    assert len(flags) == 2
    assert all("dd" in each for each in flags)
    del received, get
    assert all("dd" in each for each in flags_of_mappings("memfd:forged-vectors"))
    np.testing.assert_array_equal(row, vector("one"))


def forged_of(data, seals=None):
    """A descriptor of memory that holds this."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, ALL if seals is None else seals)
    return descriptor


def data_of(vector_pack):
    return bytearray(os.pread(vector_pack.descriptor, os.fstat(vector_pack.descriptor).st_size, 0))


def cut_short(data):
    return data[:-1]


def of_another_version(data):
    return data.replace(b"forged vectors 1", b"forged vectors 2", 1)


def with_another_count(data):
    return data.replace(b"\x04\xa5known", b"\x05\xa5known", 1)


def with_a_long_label(data):
    return data[:20] + b"\xff\xff\xff\x7f" + data[24:]


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        (cut_short, "its length is not that on its label"),
        (lambda data: data[:10], "too short"),
        (lambda _: b"", "empty"),
        (of_another_version, "another version"),
        (with_another_count, "its length is not that on its label"),
        (with_a_long_label, "its label is cut off"),
        (lambda data: data[:24] + b"\xc1" + data[25:], "malformed"),
    ],
)
def test_what_is_odd_is_not_read_and_its_descriptor_is_closed(spoiled, why):
    descriptor = forged_of(spoiled(data_of(pack(pack_source()))))

    with pytest.raises(UnusablePack, match=why):
        VectorPack(descriptor)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number says more
        os.fstat(descriptor)
    assert caught.value.errno == errno.EBADF


def test_what_is_not_sealed_and_what_is_no_memory_is_not_read(tmp_path):
    with pytest.raises(UnusablePack, match="it is not sealed"):
        VectorPack(forged_of(data_of(pack(pack_source())), fcntl.F_SEAL_WRITE))
    with pytest.raises(UnusablePack):
        VectorPack(os.open(tmp_path, os.O_RDONLY))


def test_one_wrong_bit_is_noticed_before_a_vector_is_used():
    data = data_of(pack(pack_source()))
    data[-60] ^= 1

    with pytest.raises(UnusablePack, match="its checksum is wrong"):
        VectorPack(forged_of(data)).read("model")


def test_vectors_of_another_model_are_not_read():
    vector_pack = pack(pack_source())

    for key, dimension in (("another", 8), ("model", 9)):
        with pytest.raises(UnusablePack, match="they are of another model"):
            vector_pack.read(key, dimension)
    assert vector_pack.read("model", 8)


def test_its_memory_lives_as_long_as_a_reference_to_a_row():
    vector_pack = passed_on(pack(pack_source()))
    get, _ = vector_pack.read("model")
    row, descriptor = get(HASHES[0]), vector_pack.descriptor
    del vector_pack, get

    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number says more
        os.fstat(descriptor)
    assert caught.value.errno == errno.EBADF
    np.testing.assert_array_equal(row, vector("one"))


def test_packing_copies_some_rows_at_a_time():
    """A second copy of everything would be 150 MB where a person has 100,000 memories."""
    rows = np.random.default_rng(7).standard_normal((8_000, 384), dtype=np.float32)
    hashes = tuple(text_hash(str(at)) for at in range(len(rows)))
    many = PackSource(
        PackLabel("repo:/r", "model"), (PackPart(hashes, build_dense("model", rows)),), {}, frozenset()
    )
    tracemalloc.start()
    try:
        pack(many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < rows.nbytes / 2
