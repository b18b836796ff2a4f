"""Destinations of an import: repositories by name, each text once, and links."""

from __future__ import annotations

import unicodedata

import pytest

from forged.importing import Destination, RepositoryPaths, SkippedPart, plan_items, plan_links
from forged.importing.values import ImportItem, ItemLink

FORMS = ["NFC", "NFD"]
HERE = RepositoryPaths("/w/shop", "shop", {"blog": "/w/blog"})


def item(text, where="a:1", **fields):
    return ImportItem(text=text, where=where, **fields)


def test_memories_go_to_the_user_to_the_named_repository_or_to_the_current_one():
    moves, left = plan_items(
        (
            item("a", scope="user"),
            item("b"),
            item("c", repo="shop"),
            item("d", repo="blog"),
            item("e", repo="mail", where="x:5"),
            item("f", place="/w/other"),
        ),
        HERE,
    )

    assert [(move.item.text, move.place) for move in moves] == [
        ("a", Destination("/w/shop", "user")),
        ("b", Destination("/w/shop", "repo")),
        ("c", Destination("/w/shop", "repo")),
        ("d", Destination("/w/blog", "repo")),
        ("f", Destination("/w/other", "repo")),
    ]
    assert left == (
        SkippedPart("x:5", "it belongs to the repository 'mail'; --into NAME=PATH says where that is"),
    )


@pytest.mark.parametrize("reported", FORMS)
@pytest.mark.parametrize("here", FORMS)
def test_repositories_are_known_by_name_in_any_unicode_form(reported, here):
    """An export from a Mac names its folders in another form than Linux does."""
    caf, bar = (unicodedata.normalize(reported, name) for name in ("café", "bär"))
    places = RepositoryPaths(
        "/w/cafe", unicodedata.normalize(here, "café"), {unicodedata.normalize(here, "bär"): "/w/bar"}
    )

    moves, left = plan_items((item("a", repo=caf), item("b", repo=bar)), places)

    assert ([move.place.workspace for move in moves], left) == (["/w/cafe", "/w/bar"], ())


def test_what_is_said_of_all_repositories_holds_for_those_that_were_not_named():
    places = RepositoryPaths("/w/shop", "shop", {"": "/w/all", "blog": "/w/blog"})
    moves, left = plan_items(
        (item("a"), item("b", repo="mail"), item("c", repo="blog"), item("d", place="/x")), places
    )

    assert ([move.place.workspace for move in moves], left) == (["/w/all", "/w/all", "/w/blog", "/w/all"], ())


def test_a_text_is_there_once_whatever_its_typography_and_a_file_by_its_id():
    moves, left = plan_items(
        (
            item("Use tabs."),
            item("use *tabs*", where="b:2"),
            item("Use tabs.", where="c:3", scope="user"),
            item("x", file=b"1", memory_id="mem_a", where="d.md"),
            item("x", file=b"1", memory_id="mem_a", where="e.md"),
            item("y", file=b"2", memory_id="mem_a", where="f.md"),
        ),
        HERE,
    )

    assert [move.item.where for move in moves] == ["a:1", "c:3", "d.md"]
    assert left == (
        SkippedPart("b:2", "same text as a:1"),
        SkippedPart("e.md", "same text as d.md"),
        SkippedPart("f.md", "another file has the same id: d.md"),
    )


def test_links_lead_to_where_their_target_is_in_the_end_and_never_out_of_the_scope():
    moves, _ = plan_items(
        (
            item(
                "a",
                keys=("one",),
                links=(ItemLink("two", "refines"), ItemLink("one", "relates-to"), ItemLink("far", "refines")),
            ),
            item("b", where="b:1", keys=("two",)),
            item("c", where="c:1", keys=("far",), scope="user"),
        ),
        HERE,
    )
    ids = {(move.place, move.memory_id): move.memory_id for move in moves}
    ids[moves[1].place, moves[1].memory_id] = "mem_that_was_there"

    found, left = plan_links(moves, ids)

    assert found == {0: (("mem_that_was_there", "refines"),), 1: (), 2: ()}
    assert [each.why for each in left] == [
        "a link to 'one', which is not imported",
        "a link to 'far', which is not imported",
    ]
