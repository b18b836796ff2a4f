"""The graph of what memories speak of, what a question names in it, and what is reached over it."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from forged.entities import ReachedMemory, graph_of, named_in, two_hops
from forged.memory import Entity, EntityRelation, Memory
from tests.data.memories import memory


def reached(question: str, *roots: list[Memory], most: int = 10) -> list[ReachedMemory]:
    graphs = [graph_of(memories) for memories in roots]
    return list(two_hops(graphs, named_in(graphs, question), most))


def ids(found: list[ReachedMemory]) -> list[str]:
    return [each.place[1] for each in found]


STORES = memory("mem_1", "Invoices of `apollo` are in `ledger`.")
RULED = memory("mem_2", "[[Ledger]] falls under [[Policy 7]].")
KEPT = memory("mem_3", "[[Policy 7]] says: ten years.")
OTHER = memory("mem_4", "`zeus` runs on Kafka.")


def test_a_memory_is_reached_that_shares_no_name_with_the_question():
    found = reached("how long must apollo keep them?", [STORES, RULED, KEPT, OTHER])

    assert ids(found) == ["mem_1", "mem_2", "mem_3"]
    assert [each.hops for each in found] == [0, 1, 2]
    assert found[2].path == "apollo with Ledger; Ledger falls-under Policy 7"


def test_what_joins_two_named_things_comes_first():
    about = [memory(f"mem_x{number}", f"`apollo` and Kafka, part {number}.") for number in range(5)]

    found = reached("How does Apollo relate to Policy 7?", [*about, STORES, RULED, KEPT])

    assert set(ids(found)[:2]) == {"mem_1", "mem_2"}
    assert found[0].path == "apollo with Ledger; Ledger falls-under Policy 7"


def test_three_steps_are_too_many():
    chain = [memory(f"mem_{at}", f"`t{at}x` -> `t{at + 1}x`") for at in range(5)]

    assert ids(reached("t0x", chain)) == ["mem_0", "mem_1", "mem_2"]


def test_the_graphs_of_two_roots_are_walked_as_one():
    found = reached("apollo", [STORES], [RULED])

    assert [each.place for each in found] == [(0, "mem_1"), (1, "mem_2")]


def test_a_link_between_two_memories_joins_what_they_speak_of():
    here = memory("mem_1", "`apollo` is slow.")
    there = memory("mem_2", "Use `pool` of ten.", related=["mem_1"])

    assert ids(reached("apollo", [here, there])) == ["mem_1", "mem_2"]


def test_front_matter_joins_entities_with_names_unknown_to_the_rules():
    written = replace(
        memory("mem_1", "The books are closed in March."),
        entities=(Entity("the books"),),
        relations=(EntityRelation("the books", "kept by", "Ms Lund"),),
    )
    other = replace(memory("mem_2", "On leave until May."), entities=(Entity("Ms Lund", "person"),))

    found = reached("Who does the books?", [written, other])

    assert ids(found) == ["mem_1", "mem_2"]
    assert found[1].path == "the books kept by Ms Lund"


def test_a_relation_that_weighs_more_comes_before_one_that_weighs_less():
    def reported(memory_id: str, name: str, weight: float) -> list[Memory]:
        return [
            replace(memory(memory_id, "."), relations=(EntityRelation("hub", "knows", name, weight),)),
            replace(memory(f"{memory_id}_of", "."), entities=(Entity(name),)),
        ]

    found = ids(reached("hub", [*reported("mem_a", "Weak", 0.1), *reported("mem_b", "Strong", 0.9)]))

    assert found.index("mem_b_of") < found.index("mem_a_of")


def test_half_of_what_comes_at_most_names_the_thing_itself():
    many = [memory(f"mem_{number}", f"`apollo` part {number}") for number in range(20)]

    found = reached("apollo", [*many, STORES, RULED], most=6)

    assert len(found) == 4
    assert sum(not each.hops for each in found) == 3
    assert "mem_2" in ids(found)


class Asked(dict):
    """A mapping that counts how often it was asked."""

    times = 0

    def get(self, *of):
        self.times += 1
        return super().get(*of)


@pytest.mark.parametrize("next_to", [40, 400])
def test_a_walk_goes_on_from_a_bounded_number_of_things_and_these_are_the_heaviest(next_to):
    """One memory may speak of any number of things; all of them would be asked for at each step."""
    heavy = tuple(EntityRelation("hub", "knows", f"near{at:03}", 0.5 + at / 1000) for at in range(40))
    crowd = tuple(Entity(f"crowd{at:03}") for at in range(next_to))
    memories = [
        replace(memory("mem_hub", "."), entities=(Entity("hub"), *crowd), relations=heavy),
        *(
            replace(
                memory(f"mem_{at:03}", "."), relations=(EntityRelation(f"near{at:03}", "has", f"far{at:03}"),)
            )
            for at in range(40)
        ),
        *(replace(memory(f"mem_far{at:03}", "."), entities=(Entity(f"far{at:03}"),)) for at in range(40)),
    ]
    graph = graph_of(memories)
    counted = replace(graph, relations=Asked(graph.relations))

    found = two_hops([counted], ["hub"], 1000)

    assert counted.relations.times == 1 + 32
    far = {each.place[1] for each in found if each.hops == 2}
    assert far == {f"mem_far{at:03}" for at in range(8, 40)}


@pytest.mark.speed
def test_of_a_thing_that_all_speak_of_a_bounded_number_is_looked_at_in_a_moment():
    many = [memory(f"mem_{at:05}", f"`apollo` with `part{at}` and `piece{at % 7}x`") for at in range(5000)]
    graph = graph_of(many)

    began = time.perf_counter()
    found = two_hops([graph], named_in([graph], "apollo"), 10)

    assert time.perf_counter() - began < 0.25
    assert len(found) == 10


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("how does ledger relate to policy 7?", ("ledger", "policy 7")),
        ("Tell me of `parse_all()`, please.", ("parse_all",)),
        ("what does src/app.py do", ("src/app.py",)),
        ("is postgres fast", ("postgresql",)),
        ("where do the money people sit", ("billing team",)),
        ("订单服务和redis有什么关系", ("redis", "订单服务")),
        ("does the parser all", ()),
        ("how to parse it all", ("parse_all",)),
        ("what is the name of it", ()),
        ("", ()),
    ],
)
def test_a_question_names_what_it_says_however_it_says_it(question, named):
    graph = graph_of(
        [
            RULED,
            memory("mem_5", "`parse_all` in src/app.py asks Postgres."),
            memory("mem_6", "[[Billing team|the money people]] and [[订单服务]] use Redis; `name`."),
        ]
    )

    assert named_in([graph], question) == named


def test_an_everyday_word_that_was_once_put_in_backticks_is_not_meant_by_a_question():
    graph = graph_of([memory("mem_1", "The field `time` of `gate`.")])

    assert named_in([graph], "what time does the gate open") == ("gate",)


@pytest.mark.speed
def test_a_hostile_question_takes_a_moment():
    graph = graph_of([RULED, KEPT])

    began = time.perf_counter()
    named_in([graph], "[[`ledger " * 100_000)

    assert time.perf_counter() - began < 0.2
