"""Changes between two maps, found without a look at each memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.maps.rows import changed_memories
from forged.memory import unchanged_ends
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

    removed, added = changed_memories(tuple(old), now)

    assert removed == [each for number, each in enumerate(old) if number in gone | changed]
    assert added == [each for each in now if each.content != "text"]


def test_equal_ends_are_compared_once():
    same = tuple(memory(f"m{number}", "text") for number in range(5))

    assert unchanged_ends(same, same) == (5, 0)
    assert unchanged_ends(same, (*same[:2], memory("m2", "edited"), *same[3:])) == (2, 2)
