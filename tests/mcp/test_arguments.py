"""Arguments as models write them, held against the schema that a tool is listed with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.mcp import tools
from forged.mcp.tools import WrongToolArgument, checked_arguments
from tests.mcp.test_messages import JSON

KINDS = {"string": str, "integer": int, "array": list}


def of(name: str, **given: object) -> dict[str, object]:
    return checked_arguments(tools.BY_NAME[name], given)


def test_what_is_right_comes_through_and_what_is_null_is_left_out():
    assert of("search_memories", hypotheses=["a", "b"], query=None, limit=3.0) == {
        "hypotheses": ["a", "b"],
        "limit": 3,
    }
    assert of("list_memories", scope="user") == {"scope": "user"}
    assert of("remember", text="x", cues=[]) == {"text": "x", "cues": []}
    assert of("memory_status") == {}


@pytest.mark.parametrize(
    ("name", "given", "reported"),
    [
        ("search_memories", {}, "hypotheses is missing: sentences as a helpful memory"),
        ("search_memories", {"hypotheses": None}, "hypotheses is missing"),
        ("search_memories", {"hypotheses": []}, "a list of 1 to 5 texts: sentences"),
        ("search_memories", {"hypotheses": ["a"] * 6}, "a list of 1 to 5 texts"),
        ("search_memories", {"hypotheses": "a"}, "a list of 1 to 5 texts"),
        ("search_memories", {"hypotheses": [" "]}, "each of hypotheses must be a text that says something"),
        ("search_memories", {"hypotheses": ["a" * 2001]}, "may have 2000 characters and has 2001"),
        ("search_memories", {"hypotheses": ["a"], "limit": 0}, "a whole number from 1 to 50"),
        ("search_memories", {"hypotheses": ["a"], "limit": True}, "a whole number from 1 to 50"),
        ("search_memories", {"hypotheses": ["a"], "limit": 1.5}, "a whole number from 1 to 50"),
        ("search_memories", {"hypotheses": ["a"], "limit": "5"}, "a whole number from 1 to 50"),
        ("search_memories", {"hypothesis": "a"}, "knows no 'hypothesis'; it takes hypotheses, query, limit"),
        ("list_memories", {"scope": "org"}, "scope must be one of repo, user"),
        ("list_memories", {"scope": ["repo"]}, "scope must be one of repo, user"),
        ("remember", {"text": 5}, "text must be a text that says something"),
        ("remember", {"text": "x", "allow_secret": True}, "knows no 'allow_secret'"),
        ("remember", {"text": "x", "origin": "explicit"}, "knows no 'origin'"),
        ("forget", {"ids": ["a"], "erase_now": True}, "knows no 'erase_now'"),
        ("memory_status", {"x": 1}, "it takes no arguments"),
    ],
)
def test_what_is_wrong_is_reported_with_what_to_write_instead(name, given, reported):
    with pytest.raises(WrongToolArgument) as wrong:
        of(name, **given)

    assert reported in str(wrong.value)


@given(st.sampled_from(tools.TOOLS), st.data())
def test_whatever_a_model_writes_what_comes_through_fits_the_schema(tool, data):
    fields = st.sampled_from([*tool["inputSchema"]["properties"], "other"])
    try:
        found = checked_arguments(tool, data.draw(st.dictionaries(fields, JSON, max_size=4)))
    except WrongToolArgument:
        return
    for field, value in found.items():
        assert isinstance(value, KINDS[tool["inputSchema"]["properties"][field]["type"]])
