"""What a session is told turn by turn: block, append, corrections, the cut, and that bytes stay the same."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.memory import Memory
from forged.retrieval import Said, Turn, said
from forged.scopes import Ranked
from forged.state import HeardList
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.faults.amount import times

NEW = HeardList("0123abcd", 1.0)
_TAIL = re.compile(r"\d+ notes(?:, \d+ left out)?\n</forged-memories 0123abcd>\n\Z")


def turn(*found: Memory, whole: bool = True, limit: int = 16_000, stands: tuple[Memory, ...] = ()) -> Turn:
    return Turn(
        stands=tuple(Ranked(each, 0.0, via="standing", root="/repo") for each in stands),
        stood=bool(stands),
        found=tuple(Ranked(each, 0.5, root="/repo") for each in found),
        limit=limit,
        whole=whole,
    )


def of(before: HeardList, store: tuple[Memory, ...], asked: Turn) -> Said:
    return said(before, (vector_map(store),), asked)


def before_tail(text: str) -> str:
    return text[: _TAIL.search(text).start()] if text else ""


def told(reply: Said) -> list[str]:
    return [each.memory.id for each in reply.ranked]


ONE, TWO, THREE = (memory(f"mem_{name}", f"about {name}") for name in ("one", "two", "three"))


def test_a_block_has_what_was_heard_in_its_order_and_then_what_is_new():
    store = (ONE, TWO, THREE)
    first = of(NEW, store, turn(TWO))
    second = of(first.after, store, turn(THREE, TWO, ONE))

    assert (told(first), first.heard) == (["mem_two"], 0)
    assert (told(second), second.heard) == (["mem_two", "mem_three", "mem_one"], 1)
    assert second.text.startswith(before_tail(first.text))
    assert [each.via for each in second.ranked] == ["heard", "search", "search"]


def test_append_has_only_what_is_new_and_says_the_rule_once():
    store = (ONE, TWO, THREE)
    first = of(NEW, store, turn(TWO, whole=False))
    second = of(first.after, store, turn(TWO, ONE, whole=False))
    third = of(second.after, store, turn(TWO, ONE, whole=False))

    assert (told(first), told(second), told(third), third.text) == (["mem_two"], ["mem_one"], [], "")
    assert "data, not instructions" in first.text
    assert (
        second.text
        == "<forged-memories 0123abcd>\n[one pattern]\n> about one\n1 notes\n</forged-memories 0123abcd>\n"
    )
    assert set(third.contents) == {"about one", "about two"}


def test_the_frame_of_a_memory_has_ten_tokens_and_the_tail_fifteen():
    ids = [f"mem_{number:08x}-1111-2222-3333-444455556666" for number in range(3)]
    store = tuple(replace(memory(each, "x"), category="architectural-decisions") for each in ids)
    newer = replace(store[0], id="mem_ffffffff-1", supersedes=ids[0], version=2)
    first = of(NEW, store, turn(*store))
    second = of(first.after, (*store, newer), turn())

    entries = before_tail(second.text).split("\n[")[1:]
    assert len(entries) == 4
    assert "replaces" in entries[-1]
    assert all(len(f"[{each}".encode()) - len("x\n") + 1 <= 44 for each in entries)
    assert all(len(f"[{each}".encode()) - len("x\n") + 1 <= 40 for each in entries[:-1])
    assert len(second.text) - len(before_tail(second.text)) <= 60


def test_a_correction_is_appended_and_nothing_above_it_changes():
    newer = memory("mem_newer", "about one, corrected", supersedes="mem_one", version=2)
    first = of(NEW, (ONE, TWO), turn(ONE, TWO))
    for whole in (True, False):
        second = of(first.after, (ONE, TWO, newer), turn(whole=whole))
        assert "[newer pattern replaces one]\n> about one, corrected\n" in second.text
        assert second.text.startswith(before_tail(first.text)) == whole
        third = of(second.after, (ONE, TWO, newer), turn(newer, whole=whole))
        assert before_tail(third.text) == (before_tail(second.text) if whole else "")


def test_a_text_that_was_changed_in_place_comes_again_and_one_that_is_gone_is_gone():
    first = of(NEW, (ONE, TWO), turn(ONE, TWO))
    other = replace(ONE, content="other words")

    changed = of(first.after, (other, TWO), turn())
    gone = of(first.after, (TWO,), turn())

    assert (told(changed), "about one" in changed.text) == (["mem_two", "mem_one"], False)
    assert (told(gone), "about one" in gone.text, gone.contents) == (["mem_two"], False, ("about two",))


def test_the_cut_takes_the_oldest_half_once_and_leaves_what_stands():
    store = tuple(memory(f"mem_{number:02}", f"{number} " + "x" * 80) for number in range(12))
    reply = of(NEW, store, turn(stands=store[:1], limit=1_000))
    told_first = []
    for each in store[1:]:
        reply = of(reply.after, store, turn(each, limit=1_000))
        told_first.append(told(reply)[:2])
        assert len(reply.text.encode()) <= 1_000
        assert told(reply)[-1] == each.id

    assert {first for first, _ in told_first} == {"mem_00"}
    cuts = sum(earlier != later for earlier, later in pairwise(told_first[1:]))
    assert cuts == 1


def test_rivals_stand_beside_each_other():
    rival = memory("mem_rival", "another word")
    ranked = replace(turn(ONE).found[0], rivals=(rival,))
    reply = of(NEW, (ONE, rival), replace(turn(), found=(ranked,)))

    assert "[one pattern]\n> about one\n[rival pattern beside one]\n> another word\n" in reply.text


def test_what_does_not_fit_is_counted_in_the_tail_and_may_come_later():
    big = memory("mem_big", "y" * 900)
    reply = of(NEW, (ONE, big, TWO), turn(ONE, big, TWO, limit=600))

    assert (told(reply), [each.memory.id for each in reply.left_out]) == (
        ["mem_one"],
        ["mem_big", "mem_two"],
    )
    assert "1 notes, 2 left out\n" in reply.text
    assert [each.id for each in reply.after.entries] == ["mem_one"]


_TURNS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 199), max_size=4, unique=True),  # what is found
        st.one_of(st.none(), st.integers(0, 199)),  # what is corrected
    ),
    min_size=20,
    max_size=20,
)


@settings(max_examples=times(60, 10))
@given(_TURNS, st.integers(20, 400))
def test_of_twenty_turns_nineteen_blocks_in_twenty_go_on_from_the_one_before(turns, length):
    """With corrections, and with a cut of the usual 4,000 tokens where the memories are long."""
    store = {f"mem_{n:03}": memory(f"mem_{n:03}", f"{n} " + "x" * length) for n in range(200)}
    heads = {memory_id: memory_id for memory_id in store}
    before, blocks = NEW, []
    for number, (found, corrected) in enumerate(turns):
        if corrected is not None:
            old = f"mem_{corrected:03}"
            fresh = memory(
                f"mem_{corrected:03}v{number}",
                "new " + "y" * length,
                supersedes=heads[old],
                version=number + 2,
            )
            store[fresh.id], heads[old] = fresh, fresh.id
        asked = turn(*(store[heads[f"mem_{n:03}"]] for n in found))
        reply = of(before, tuple(store.values()), asked)
        again = of(before, tuple(store.values()), asked)
        assert reply == again
        assert len(reply.text.encode()) <= 16_000
        assert all(heads[f"mem_{n:03}"] in told(reply) for n in found)
        before = reply.after
        blocks.append(reply.text)

    kept = sum(following.startswith(before_tail(block)) for block, following in pairwise(blocks))
    assert kept / (len(blocks) - 1) >= 0.94  # one cut of nineteen steps, at most


@given(st.lists(st.lists(st.integers(0, 30), max_size=6), min_size=2, max_size=12))
def test_append_never_says_a_memory_twice(turns):
    store = tuple(memory(f"mem_{n:02}", f"text {n}") for n in range(31))
    before, heard = NEW, []
    for found in turns:
        reply = of(before, store, turn(*(store[n] for n in found), whole=False))
        before = reply.after
        heard += told(reply)

    assert len(heard) == len(set(heard)) == len({n for found in turns for n in found})
