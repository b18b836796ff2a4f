"""The file roots of a request: what of them is visible, and what becomes of candidates."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.map import Ranked, evidence_threshold
from forged.stores import GIVEN, Question, View
from forged.stores.search import ViewSearcher, rank_heads
from tests.data.maps import vector_map
from tests.data.memories import memory

# --- what one request sees of several maps ----------------------------------------------------

REPO = vector_map(
    [
        memory("both", "of the repo", related=["gone", "u1", "v1"]),
        memory("v1", "old"),
        memory("v2", "new", supersedes="v1", version=2),
    ]
)
USER = vector_map(
    [memory("both", "of the user"), memory("u1", "x", related=["v1"])],
    {"u1": (1, 0)},
    lexical=False,
    root="/home",
    scope="user",
)
VIEW = View((REPO, USER))


@pytest.mark.parametrize(
    ("scope", "contents"),
    [("", ["of the repo", "of the user"]), ("repo", ["of the repo"]), ("user", ["of the user"])],
)
def test_an_id_that_two_maps_hold_is_two_memories_and_a_scope_tells_which(scope, contents):
    assert [found.content for _, found in VIEW.find("both", scope)] == contents


def test_edges_lead_to_heads_of_their_own_map_and_never_into_nothing():
    assert [each.id for each in REPO.linked_heads("both")] == ["v2"]
    assert USER.linked_heads("u1") == []
    assert REPO.linked_heads("gone") == []


# --- chains and hops in an answer ---------------------------------------------------------


def found(view: View, place: int, row: int, score: float) -> Ranked:
    """A row of a map, as a search finds it."""
    home = view.maps[place]
    (head,) = home.heads_of([row])
    return Ranked(head, score, score, root=home.root, map_index=place, row=row)


def candidates(view: View, *scored: tuple[str, float]) -> list[Ranked]:
    places = {name: next(i for i, home in enumerate(view.maps) if home.find(name)) for name, _ in scored}
    return [found(view, places[name], view.maps[places[name]].row_of(name), score) for name, score in scored]


def test_a_chain_is_returned_once_as_its_head_with_its_best_score():
    view = View(
        (
            vector_map(
                [memory("v1", "x"), memory("v2", "x", supersedes="v1", version=2), memory("other", "x")]
            ),
        )
    )

    ranked = rank_heads(
        view.maps, candidates(view, ("v1", 0.9), ("other", 0.5), ("v2", 0.1)), top_k=10, hop_depth=0
    )

    assert [(r.memory.id, r.score, [m.id for m in r.older]) for r in ranked] == [
        ("v2", 0.9, ["v1"]),
        ("other", 0.5, []),
    ]


def test_a_repositorys_memory_of_the_same_id_takes_neither_the_place_nor_the_chain_of_the_users():
    repo = vector_map([memory("u1", "x"), memory("r2", "x", supersedes="u1", version=9)])
    user = vector_map([memory("u1", "x"), memory("u2", "x", related=["u1"])], root="/home", scope="user")
    view = View((repo, user))
    scored = [found(view, 1, 0, 0.9), found(view, 0, 0, 0.8)]

    ranked = rank_heads(view.maps, [*scored, found(view, 1, 1, 0.7)], top_k=5, hop_depth=2)

    assert [r.key for r in ranked] == [("/home", "u1"), ("/repo", "r2"), ("/home", "u2")]


NAMES = [f"m{number}" for number in range(7)]
STORES = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(
        st.sampled_from([None, *NAMES, "gone"]),
        st.integers(1, 3),
        st.lists(st.sampled_from([*NAMES, "gone"]), max_size=3),
        st.booleans(),
    ),
    min_size=1,
)


@given(STORES, st.randoms(), st.integers(1, 4), st.integers(0, 3))
def test_no_superseded_memory_and_none_twice_whatever_the_links(store, random, top_k, depth):
    everyone = {
        name: memory(name, name, supersedes=older, version=version, related=related)
        for name, (older, version, related, _) in store.items()
    }
    maps = [
        vector_map([m for name, m in everyone.items() if store[name][3] is own], root=f"/{own}")
        for own in (True, False)
    ]
    view = View(tuple(maps))
    order = random.sample(sorted(everyone), len(everyone))
    scored = [(name, 1 - place / 10) for place, name in enumerate(order)]

    ranked = rank_heads(view.maps, candidates(view, *scored), top_k=top_k, hop_depth=depth)

    found = [r.memory.id for r in ranked]
    home = {name: next(m for m in maps if m.find(name)) for name in everyone}
    searched = [r for r in ranked if r.found_by == "search"]
    assert len(set(found)) == len(found)
    assert all(home[name].chains.is_head(name) for name in found)
    assert [r.memory.id for r in searched] == list(
        dict.fromkeys(home[name].chains.head(name) for name in order)
    )[:top_k]
    assert all(
        r.score == max(dict(scored)[i] for i in home[r.memory.id].chains.chain(r.memory.id)) for r in searched
    )
    assert len(ranked) - len(searched) <= top_k
    assert not {m.id for r in ranked for m in r.older} & set(found)


# --- what a gate makes of a question ----------------------------------------------------------

TALKED = vector_map(
    [
        memory("deploy", "quokka deployments go to staging first"),
        memory("walrus", "the walrus feeder holds three kilograms of herring"),
        memory("lamp", "the lamp in the hall is dimmed at night"),
    ]
)
BEFORE = "how do the quokka deployments go?\nTo staging first, the quokka deployments."


def rows_of(store=TALKED, **fields):
    question = Question(
        **{
            "vectors": None,
            "top_k": 5,
            "hop_depth": 0,
            "deadline": 0.0,
            "least_evidence": evidence_threshold(0.95),
            **fields,
        }
    )
    with ThreadPoolExecutor(1) as thread:
        return asyncio.run(ViewSearcher(View((store,)), lexical_weight=0.3, thread=thread).search(question))


def asked(message, **fields):
    whole = f"{BEFORE}\n{message}"
    return [
        each.memory.id
        for each in rows_of(texts=(message, whole), message=message, continued=1, turn=9, **fields).ranked
    ]


def test_a_change_of_subject_ends_what_a_message_goes_on_from():
    """What is strong by itself speaks for itself, however it begins."""
    assert "deploy" in asked("and the second time?")
    assert asked("and the walrus feeder, kilograms of herring?")[0] == "walrus"
    assert "deploy" not in asked("and the walrus feeder, kilograms of herring?")


def test_pinned_memories_take_no_place_and_are_found_all_the_same():
    message = "the quokka deployments, the walrus feeder"
    fields = {"texts": (message,), "message": message, "turn": 1, "top_k": 1}
    (first,) = (each.key for each in rows_of(**fields).ranked)

    found = [each.key for each in rows_of(**fields, pinned=frozenset({first})).ranked]

    assert len(found) == 2
    assert first in found


def test_rejections_of_a_hopeless_question_are_returned_only_for_an_explanation():
    message = "roofing heating plumbing carpentry masonry tiling glazing painting fencing paving at night"
    silent, explained = (rows_of(texts=(message,), message=message, explains=each) for each in (False, True))

    assert (silent.ranked, silent.rejected, explained.ranked) == ((), (), ())
    assert [(each.memory.id, each.rejected) for each in explained.rejected] == [("lamp", "faint")]


def test_memories_in_context_take_no_place_however_many_they_are():
    many = vector_map([memory(f"m{number:02}", "the quokka") for number in range(80)])
    in_context = frozenset((many.root, f"m{number:02}") for number in range(40))
    fields = {"texts": ("quokka",), "message": "quokka", "least_evidence": float("-inf")}

    found = rows_of(many, **fields, in_context=in_context).ranked

    assert [each.memory.id for each in found] == [f"m{number}" for number in range(40, 45)]


@pytest.mark.parametrize("least", [float("-inf"), evidence_threshold(0.95)], ids=["ungated", "gated"])
@given(in_context=st.sets(st.integers(0, 7)))
def test_a_fitting_memory_is_admitted_or_rejected_as_given_and_never_both(least, in_context):
    words = ("quokka", "walrus", "lamp", "train")
    store = vector_map([memory(f"m{number}", f"{words[number % 4]} {number}") for number in range(8)])
    keys = frozenset((store.root, f"m{number}") for number in in_context)
    for word in words:
        fields = {"texts": (word,), "message": word, "least_evidence": least}
        alone = {each.memory.id for each in rows_of(store, **fields).ranked}
        found = rows_of(store, **fields, in_context=keys)
        came = {each.memory.id for each in found.ranked}
        given_before = {each.memory.id for each in found.rejected if each.rejected == GIVEN}
        assert given_before == alone & {f"m{number}" for number in in_context}
        assert not came & {each.memory.id for each in found.rejected}
