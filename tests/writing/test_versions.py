"""Base of a new version, and the fields that it keeps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from forged.memory import Entity, EntityRelation, Memory, Related
from forged.writing.succession import base_of, next_version
from tests.data.memories import memory

DRAFT = replace(memory("new", "says something else"), category="")


def chain(*pairs: tuple[str, str | None]) -> list[Memory]:
    return [memory(name, name, supersedes=older, version=n) for n, (name, older) in enumerate(pairs, 1)]


@pytest.mark.parametrize(("named", "replaced"), [("a", "a2"), ("a2", "a2"), ("b", "b"), ("r", "b")])
def test_of_a_fork_the_branch_that_is_named_goes_on(named, replaced):
    """Else the one that somebody wanted to replace would still stand."""
    base, number = base_of(chain(("r", None), ("a", "r"), ("a2", "a"), ("b", "r")), named)

    assert (base.id, number) == (replaced, 5)


def test_a_new_version_keeps_category_links_and_unknown_keys_that_it_does_not_give():
    base = replace(memory("old", "x", related=["mem_1", "mem_2"]), extra="cues: [deploy]\n")

    new = next_version(replace(DRAFT, related=(Related("mem_2", "refines"),)), base, 2)

    assert (new.id, new.supersedes, new.version, new.category) == ("new", "old", 2, "patterns")
    assert new.related == (Related("mem_1", "relates-to"), Related("mem_2", "refines"))
    assert new.extra == "cues: [deploy]\n"


def test_what_a_memory_speaks_of_stays_with_its_text():
    spoken = {"entities": (Entity("goose"),), "relations": (EntityRelation("goose", "uses", "REST"),)}
    base = replace(memory("old", "goose speaks REST"), **spoken)

    same = next_version(replace(DRAFT, content="goose speaks REST."), base, 2)
    other = next_version(DRAFT, base, 2)
    own = next_version(replace(DRAFT, content=base.content, entities=(Entity("REST"),)), base, 2)

    assert (same.entities, same.relations) == (base.entities, base.relations)
    assert (other.entities, other.relations) == ((), ())
    assert (own.entities, own.relations) == ((Entity("REST"),), ())
