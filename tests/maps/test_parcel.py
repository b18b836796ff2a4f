"""Vectors in sealed memory: what is packed is read again, and what is odd is not."""

from __future__ import annotations

import os

import numpy as np
import pytest

from forged.map import DenseLeg
from forged.maps.parcel import Label, Parcel, Stock, pack
from forged.maps.vector_cache import text_hash
from tests.support.provider import vector

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")
TEXTS = ("one", "two", "three", "four")
HASHES = tuple(map(text_hash, TEXTS))


def stock(*, fresh=(), cut=frozenset(), hashes=HASHES, missing=()):
    """What is known of four texts: a leg without those that are missing, and `fresh` beside it."""
    rows = np.stack([np.zeros(8, np.float32) if text in missing else vector(text) for text in TEXTS])
    leg = DenseLeg.build("model", rows)
    return Stock(Label("repo:/r", "model"), hashes, leg, {text_hash(t): vector(t) for t in fresh}, cut)


def passed_on(parcel):
    """The parcel as another process gets it: by a descriptor alone."""
    return Parcel(os.dup(parcel.descriptor))


def test_what_was_packed_is_read_from_the_descriptor_alone():
    parcel = passed_on(pack(stock(missing={"two", "three"}, fresh=["three"], cut=frozenset(HASHES[3:]))))

    get, cut = parcel.read("model")

    assert (parcel.label.root, parcel.label.count, parcel.label.dimension) == ("repo:/r", 3, 8)
    for text in ("one", "three", "four"):
        np.testing.assert_array_equal(get(text_hash(text)), vector(text))
    assert get(text_hash("two")) is None
    assert cut == {HASHES[3]}
