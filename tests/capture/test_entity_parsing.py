"""Entities in a classifier's reply: parsed in any form, and saved if the memory names them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.model_reply import MOST_ENTITIES, entities_in, mentioned_entities, relations_in
from forged.memory import Entity, EntityRelation

USES = EntityRelation("goose", "uses", "Redis")
ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def unchanged(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("item", "entity"),
    [
        ("goose", Entity("goose")),
        ("  goose\n pond ", Entity("goose pond")),
        ("goose (Service)", Entity("goose", "service")),
        ({"name": "goose"}, Entity("goose")),
        ({"name": "goose", "type": "Service", "description": "a bird"}, Entity("goose", "service", "a bird")),
        ({"name": "goose", "type": 7, "description": None}, Entity("goose")),
    ],
)
def test_an_entity_is_read_in_any_shape(item, entity):
    assert entities_in([item]) == (entity,)


@pytest.mark.parametrize(
    "item",
    [
        "goose -> uses -> Redis",
        "goose → uses → Redis",
        "goose | uses | Redis",
        ["goose", "uses", "Redis"],
        {"source": "goose", "relation": "uses", "target": "Redis"},
        {"subject": "goose", "predicate": "Uses", "object": "Redis", "weight": 3},
        {"from": " goose", "type": "uses", "to": "Redis"},
    ],
)
def test_a_relation_is_read_in_any_shape(item):
    assert relations_in([item]) == (USES,)


@pytest.mark.parametrize(
    "item",
    [
        "goose uses Redis",
        "goose -> Redis",
        ["goose", "uses"],
        ["goose", 7, "Redis"],
        "goose -> is -> GOOSE",
        None,
    ],
)
def test_what_is_no_triple_of_two_things_is_left_out(item):
    assert relations_in([item]) == ()


@given(ANY)
def test_nothing_that_a_model_says_raises_or_goes_beyond_bounds(value):
    assert len(entities_in(value)) <= MOST_ENTITIES
    assert len(relations_in(value)) <= MOST_ENTITIES


def test_only_names_in_the_memory_are_kept_each_once():
    entities = (Entity("Goose", "service"), Entity("GOOSE"), Entity("Kafka"), Entity("postgres"))
    relations = (EntityRelation("goose", "uses", "PostgreSQL"), EntityRelation("goose", "uses", "Kafka"))

    kept = mentioned_entities(
        entities, (*relations, *relations), "The goose stores it in PostgreSQL.", unchanged
    )

    assert kept == ((Entity("Goose", "service"), Entity("postgres")), relations[:1])


def test_forbidden_text_is_kept_neither_as_a_name_nor_in_its_fields():
    def clean(text: str) -> str:
        return text.replace("hunter2", "[redacted]")

    entities = (Entity("hunter2"), Entity("goose", "bird", "opens with hunter2"))

    kept = mentioned_entities(
        entities, (EntityRelation("goose", "says", "hunter2"),), "goose says hunter2", clean
    )

    assert kept == ((Entity("goose", "bird", "opens with [redacted]"),), ())
