"""What became of the memories of a map, told without looking at each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.maps.changes import differing
from tests.data.memories import memory

NUMBERS = st.integers(0, 3000)
SIZES = st.sampled_from([0, 1, 2, 5, 1023, 1024, 1025, 2500])


@given(SIZES, st.sets(NUMBERS, max_size=3), st.sets(NUMBERS, max_size=3), st.sets(NUMBERS, max_size=3))
def test_what_went_and_came_is_what_the_other_does_not_have(size, changed, gone, new):
    old = [memory(f"m{number:04}", "text") for number in range(size)]
    kept = {each.id: each for number, each in enumerate(old) if number not in gone}
    kept |= {each.id: memory(each.id, "edited") for n, each in enumerate(old) if n in changed - gone}
    kept |= {f"m{number:04}x": memory(f"m{number:04}x", "new") for number in new}
    now = tuple(kept[name] for name in sorted(kept))

    went, came = differing(tuple(old), now)

    assert went == [each for number, each in enumerate(old) if number in gone | changed]
    assert came == [each for each in now if each.content != "text"]
