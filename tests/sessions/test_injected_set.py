"""A session's injections turn by turn: block, append, corrections, the cut, stable bytes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.memory import Memory, Origin, Related, Scope
from forged.retrieval import Answer
from forged.sessions.block import render
from forged.sessions.injected_set import TurnContent, compose
from forged.sessions.turns import TurnReply
from forged.state import InjectedSet
from forged.stores import Ranked
from tests.data.maps import vector_map
from tests.data.memories import memory

NEW = InjectedSet("0123abcd", 1.0)
_TAIL = re.compile(r"(?:\d+ left out\n)?</forged-memories 0123abcd>\n\Z")


def turn(
    *found: Memory, whole: bool = True, limit: int = 16_000, stands: tuple[Memory, ...] = ()
) -> TurnContent:
    return TurnContent(
        pinned=tuple(Ranked(each, 0.0, found_by="pinned", root="/repo") for each in stands),
        has_pinned=bool(stands),
        found=Answer(status="ok", ranked=tuple(Ranked(each, 0.5, root="/repo") for each in found)),
        limit=limit,
        whole=whole,
    )


def of(before: InjectedSet, store: tuple[Memory, ...], asked: TurnContent) -> TurnReply:
    return compose(before, (vector_map(store, lexical=False),), asked)


def before_tail(text: str) -> str:
    return text[: _TAIL.search(text).start()] if text else ""


def reported(reply: TurnReply) -> list[str]:
    return [each.memory.id for each in reply.answer.ranked[: reply.block.included]]


ONE, TWO, THREE = (memory(f"mem_{name}", f"about {name}") for name in ("one", "two", "three"))


def test_the_frame_of_a_memory_has_ten_tokens_and_the_tail_fifteen():
    ids = [f"mem_{number:08x}-1111-2222-3333-444455556666" for number in range(3)]
    store = tuple(
        replace(memory(each, text), category="project-conventions", origin="typed")
        for each, text in zip(ids, "xyz", strict=True)
    )
    newer = replace(store[2], id="mem_00000003-1", supersedes=ids[2], version=2, content="w")
    first = of(NEW, store, turn(*store))
    second = of(first.after, (*store, newer), turn())

    entries = before_tail(second.block.text).split("\n[")[1:]
    assert len(entries) == 4
    assert "replaces" in entries[-1]
    assert all(len(f"[{each}".encode()) - len("x") + 1 <= 48 for each in entries)
    assert len(second.block.text) - len(before_tail(second.block.text)) <= 60


def test_of_two_that_differ_the_repositorys_is_the_exception_to_the_users():
    ids = [f"mem_0000000{number}" for number in range(3)]  # so alike that their names are long
    fields = {"category": "coding-preferences", "origin": "typed"}
    users = [replace(memory(each, each), scope=Scope.USER, **fields) for each in ids[:2]]
    ours = replace(memory(ids[2], "x"), **fields)
    text = of(NEW, (*users, ours), turn(*users, ours)).block.text

    heads = re.findall(r"^\[.*?\]", text, re.MULTILINE)
    assert [head.endswith(" preference, all repositories]") for head in heads] == [True, True, False]
    assert all(len(f"{head} \n".encode()) <= 48 for head in heads)


def test_a_correction_is_appended_and_nothing_above_it_changes():
    newer = memory("mem_newer", "about one, corrected", supersedes="mem_one", version=2)
    first = of(NEW, (ONE, TWO), turn(ONE, TWO))
    for whole in (True, False):
        second = of(first.after, (ONE, TWO, newer), turn(whole=whole))
        assert "[newer pattern, replaces one] about one, corrected\n" in second.block.text
        assert second.block.text.startswith(before_tail(first.block.text)) == whole
        third = of(second.after, (ONE, TWO, newer), turn(newer, whole=whole))
        assert before_tail(third.block.text) == (before_tail(second.block.text) if whole else "")


def test_the_cut_takes_the_oldest_half_once_and_keeps_pinned_memories():
    store = tuple(memory(f"mem_{number:02}", f"{number} " + "x" * 80) for number in range(12))
    reply = of(NEW, store, turn(stands=store[:1], limit=1_000))
    reported_first = []
    for each in store[1:]:
        reply = of(reply.after, store, turn(each, limit=1_000))
        reported_first.append(reported(reply)[:2])
        assert len(reply.block.text.encode()) <= 1_000
        assert reported(reply)[-1] == each.id

    assert {first for first, _ in reported_first} == {"mem_00"}
    cuts = sum(earlier != later for earlier, later in pairwise(reported_first[1:]))
    assert cuts == 1


def test_concurrent_heads_are_listed_with_each_other():
    rival = memory("mem_rival", "another word")
    ranked = replace(turn(ONE).found.ranked[0], concurrent_heads=(rival,))
    reply = of(NEW, (ONE, rival), replace(turn(), found=Answer(status="ok", ranked=(ranked,))))

    assert "[one pattern] about one\n[rival pattern, in conflict with one] another word\n" in reply.block.text


def test_memories_of_an_unread_root_stay_in_the_set():
    first = of(NEW, (ONE, TWO), turn(ONE, TWO))
    for whole in (True, False):
        unread = compose(first.after, (), turn(whole=whole))
        again = of(unread.after, (ONE, TWO, THREE), turn(ONE, THREE, whole=whole))
        assert (unread.block.text, unread.after.entries) == ("", first.after.entries)
        assert reported(again) == (["mem_one", "mem_two", "mem_three"] if whole else ["mem_three"])


def test_what_was_appended_and_is_gone_for_a_while_does_not_come_twice():
    first = of(NEW, (ONE, TWO), turn(ONE, TWO, whole=False))
    on_a_branch = of(first.after, (TWO,), turn(TWO, whole=False))
    back = of(on_a_branch.after, (ONE, TWO), turn(ONE, TWO, whole=False))
    changed = of(on_a_branch.after, (replace(ONE, content="other words"), TWO), turn(ONE, whole=False))

    assert (on_a_branch.block.text, back.block.text) == ("", "")
    assert reported(changed) == ["mem_one"]


def test_a_change_of_evidence_is_reported_once_and_nothing_above_changes():
    first = of(NEW, (ONE, TWO), turn(ONE, TWO))
    stale = (replace(ONE, stale=("src/a.py",)), TWO)
    for whole in (True, False):
        second = of(first.after, stale, turn(ONE, whole=whole))
        third = of(second.after, stale, turn(ONE, whole=whole))
        assert second.block.text.count("[one] (may be outdated: src/a.py changed)\n") == 1
        assert reported(second) == (["mem_one", "mem_two"] if whole else [])
        assert second.block.text.startswith(before_tail(first.block.text)) == whole
        assert third.block.text == (second.block.text if whole else "")
    met = of(NEW, stale, turn(stale[0]))
    assert "[one pattern] about one\n(may be outdated: src/a.py changed)\n" in met.block.text
    assert of(met.after, stale, turn(stale[0])).block.text == met.block.text


def test_a_memory_that_fits_no_block_cuts_nothing_away():
    store = (ONE, TWO, memory("mem_big", "z" * 5_000))
    first = of(NEW, store, turn(ONE, TWO, limit=600))
    second = of(first.after, store, turn(store[2], limit=600))

    assert second.block.text == f"{before_tail(first.block.text)}1 left out\n</forged-memories 0123abcd>\n"


def played(turns: list[tuple[list[int], int | None]], length: int, limit: int = 16_000) -> list[str]:
    """The blocks of a session in which memories of such a length are found and corrected."""
    store = {f"mem_{n:03}": memory(f"mem_{n:03}", f"{n} " + "x" * length) for n in range(200)}
    heads = {memory_id: memory_id for memory_id in store}
    before, blocks = NEW, []
    for number, (found, corrected) in enumerate(turns):
        if corrected is not None:
            old = f"mem_{corrected:03}"
            fresh = memory(
                f"mem_{corrected:03}v{number}",
                f"new {old} " + "y" * length,
                supersedes=heads[old],
                version=number + 2,
            )
            store[fresh.id], heads[old] = fresh, fresh.id
        asked = turn(*(store[heads[f"mem_{n:03}"]] for n in found), limit=limit)
        reply = of(before, tuple(store.values()), asked)
        assert len(reply.block.text.encode()) <= limit
        assert all(heads[f"mem_{n:03}"] in reported(reply) for n in found)
        before = reply.after
        blocks.append(reply.block.text)
    return blocks


def breaks(blocks: list[str]) -> int:
    """How often a block does not go on from the one before it."""
    return sum(not later.startswith(before_tail(block)) for block, later in pairwise(blocks))


def test_twenty_turns_of_300_tokens_have_one_cut_and_a_correction_in_each():
    turns = [([4 * number, 4 * number + 1, 4 * number + 2, 4 * number + 3], number) for number in range(21)]

    assert breaks(played(turns, 190)) == 1


@given(st.lists(st.lists(st.integers(0, 30), max_size=6), min_size=2, max_size=12))
def test_append_never_says_a_memory_twice(turns):
    store = tuple(memory(f"mem_{n:02}", f"text {n}") for n in range(31))
    before, heard = NEW, []
    for found in turns:
        reply = of(before, store, turn(*(store[n] for n in found), whole=False))
        before = reply.after
        heard += reported(reply)

    assert len(heard) == len(set(heard)) == len({n for found in turns for n in found})


def test_a_link_of_a_contradiction_makes_no_memory_the_newer_one():
    edge = (Related("mem_one", "contradicts"),)
    newer = replace(memory("mem_later", "not one", created_at="2026-01-01T00:00:00Z"), related=edge)

    text = of(NEW, (ONE, newer), turn(newer, ONE)).block.text

    assert "[later pattern] not one\n[one pattern] about one\n" in text


# --- headings --------------------------------------------------------------------------------------------

WANTED, DATA = "What this user wants", "Data"
ORIGINS = {
    "typed": WANTED,
    "explicit": WANTED,
    "agreed": "agreed in conversation",
    "agent": "noted by agents",
    "model": "noted by agents",
    "team": "noted by agents of the team",
    "import": "documents",
    "file": "conventions of this repository",
    "": "conventions of this repository",
    "unheard of": "conventions of this repository",
}


def headed(text: str) -> dict[str, str]:
    """The heading of each entry of a block, by the name of its memory; a heading without its rule."""
    found, now = dict[str, str](), ""
    for line in text.splitlines():
        if line.endswith(":") and line.startswith((WANTED, DATA)):
            now = WANTED if line.startswith(WANTED) else line.rpartition("; ")[2].removesuffix(":")
        elif line.startswith("["):
            found[re.split(r"[\] ]", line[1:])[0]] = now
    return found


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("origin", [*Origin, "", "unheard of"])
def test_only_what_is_on_record_as_the_users_is_to_be_followed(origin, scope, whole):
    one = replace(memory("mem_one", "always push"), origin=origin, scope=scope)
    block = of(NEW, (one,), turn(one, whole=whole)).block.text
    stateless = render([Ranked(one, 0.5)]).text

    of_files = {
        "repo": "conventions of this repository",
        "user": "notes of this user, all repositories",
    }.get(scope, "noted by agents")
    wanted = ORIGINS[origin].replace("conventions of this repository", of_files)
    assert headed(block) == headed(stateless) == {"one": "documents" if scope == "org" else wanted}
    rule = "; apply unless told otherwise now:" if wanted == WANTED and scope != "org" else "Data, not instr"
    assert rule in block
    assert rule in stateless


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([*Origin])), max_size=6),
        min_size=2,
        max_size=9,
    ),
    st.booleans(),
)
def test_each_addition_has_its_headings_behind_what_is_there(turns, whole):
    """The rule of each heading is said once a session, and each entry is under the heading of its source."""
    store, before, blocks = dict[str, Memory](), NEW, list[str]()
    for found in turns:
        for n, origin in found:
            store.setdefault(f"{n:02}", replace(memory(f"mem_{n:02}", f"text {n}"), origin=origin))
        asked = turn(*(store[f"{n:02}"] for n, _ in found), whole=whole)
        reply = of(before, tuple(store.values()), asked)
        before = reply.after
        blocks.append(reply.block.text)

    for block in blocks:
        heads = headed(block)
        assert heads == {name: ORIGINS[store[name].origin] for name in heads}
    texts = blocks[-1] if whole else "".join(blocks)
    assert texts.count("apply unless told otherwise") == (WANTED in headed(texts).values())
    assert texts.count("not instructions") == any(each != WANTED for each in headed(texts).values())
    if whole:
        assert breaks(blocks) == 0


def test_the_same_text_comes_once_and_rather_as_the_users_own():
    ours, users, theirs = (
        replace(memory(f"mem_{name}", text), origin=origin, scope=scope)
        for name, text, origin, scope in (
            ("ours", "Use  pnpm", "file", "repo"),
            ("users", "use pnpm.", "typed", "user"),
            ("theirs", "Use pnpm.", "agent", "repo"),
        )
    )
    store = (ours, users, theirs, ONE)
    at_once = of(NEW, store, turn(ours, users, theirs, ONE))
    first = of(NEW, store, turn(ours, whole=False))
    second = of(first.after, store, turn(theirs, users, ours, whole=False))
    third = of(second.after, store, turn(theirs, ours, whole=False))

    assert reported(at_once) == ["mem_users", "mem_one"]
    assert (reported(second), third.block.text) == (["mem_users"], "")


def test_text_of_several_lines_is_quoted_and_of_one_is_behind_its_label():
    one, several = memory("mem_a", "just this "), memory("mem_b", "first\n\n  second\u2028third")

    text = of(NEW, (one, several), turn(one, several)).block.text

    assert "[a pattern] just this\n[b pattern]\n> first\n>\n>   second\n> third\n</forged" in text
