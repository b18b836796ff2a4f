"""A page of memories is the page of the full order, however little of it is looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.map import MapPart, Traits, VectorMap, newest_page
from forged.map.chains import NO_CHAINS
from forged.memory import time_ns
from tests.data.memories import memory

TIMES = st.sampled_from(
    [
        "2026-01-02T03:04:05.000001Z",
        "2026-01-02T03:04:05.000002Z",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:06Z",
        "2025-12-31",
        "1969-12-31T23:59:59Z",
        "1960-01-01",
        "no time at all",
    ]
)


def held(times, name):
    found = tuple(memory(f"{name}_{i:03}", "x", created_at=when) for i, when in enumerate(times))
    return VectorMap(
        root=name,
        scope="repo",
        generation=1,
        memories=found,
        parts=(MapPart(found, None, None, Traits.of(found)),),
        chains=NO_CHAINS,
    )


@given(
    st.lists(TIMES, max_size=12),
    st.lists(TIMES, max_size=12),
    st.integers(0, 25),
    st.integers(0, 25),
    st.integers(1, 3),
)
def test_any_page_is_that_of_the_full_order(mine, theirs, start, count, every):
    """Of every row, or of each second or third."""
    maps = [held(mine, "a"), held(theirs, "b")]
    rows = [(each, list(range(0, len(each), every))) for each in maps]
    whole = [(each, each.memories[row]) for each, own in rows for row in own]
    whole.sort(key=lambda item: (-time_ns(item[1].created_at), item[1].id))
    assert newest_page(rows, start, count) == whole[start : start + count]
