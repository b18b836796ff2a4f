"""Vectors by the hash of their text: what is kept when rows leave the map, and for how long."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map.packing import build_dense
from forged.maps.vectors import VectorCache
from tests.faults.amount import times


def rows(*numbers):
    """A dense whose rows point in directions that tell the numbers."""
    return build_dense("key", np.array([[number, 1.0] for number in numbers], np.float32).reshape(-1, 2))


def number_of(vector):
    """The number that a row was made from."""
    return round(float(vector[0] / vector[1]))


def known(memo, keys):
    return {key for key in keys if memo.get(key) is not None}


def numbered(count, start=0):
    return [b"%d" % number for number in range(start, start + count)]


def filled(count, start=0):
    return rows(*range(start + 1, start + count + 1))


def test_a_live_vector_is_the_row_itself_and_no_copy():
    memo, matrix = VectorCache(), rows(1, 2)
    memo.adopt([b"a", b"b"], matrix)

    assert np.shares_memory(memo.get(b"b"), matrix.blocks)
    assert number_of(memo.get(b"b")) == 2


def test_a_retired_row_is_kept_as_a_copy():
    memo, matrix = VectorCache(), rows(1, 2)
    memo.adopt([b"a", b"b"], matrix)
    memo.adopt([b"b"], rows(2))

    assert number_of(memo.get(b"a")) == 1
    assert not np.shares_memory(memo.get(b"a"), matrix.blocks)


def test_a_small_root_that_loses_all_files_keeps_up_to_1024_rows():
    memo, keys = VectorCache(), numbered(1100)
    memo.adopt(keys, filled(1100))
    memo.adopt([], rows())

    assert known(memo, keys) == set(keys[-1024:])


def test_the_longest_retired_go_first():
    memo = VectorCache()
    memo.adopt([b"old"], rows(1))
    memo.adopt([b"new"], rows(2))
    keys = numbered(1023)
    memo.adopt(keys, filled(1023))
    memo.adopt([b"one more"], rows(3))  # retired are now 1025, and there is room for 1024

    assert known(memo, [b"old", b"new"]) == {b"new"}
    assert known(memo, keys) == set(keys)


@settings(max_examples=times(50, 15), deadline=None)
@given(st.lists(st.lists(st.integers(1, 30), unique=True), max_size=8))
def test_what_is_live_or_was_live_is_found_with_its_own_vector(generations):
    memo, seen = VectorCache(), set()
    for numbers in generations:
        memo.adopt([b"%d" % n for n in numbers], rows(*numbers))
        seen |= set(numbers)

        for number in seen:
            assert number_of(memo.get(b"%d" % number)) == number
