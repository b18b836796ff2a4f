"""Attributes of memories: bounds, and changes."""

from __future__ import annotations

import pytest

from forged.attributes import MOST_BYTES, MOST_KEYS, UNCHANGED, Facts, FactsPatch, patch_of


def test_a_patch_changes_what_it_names_and_nothing_else():
    before = Facts("fact", 0.3, {"topic": "ice"}, "claude", "ada", access_count=4, source="chat")

    assert UNCHANGED.apply(before) == before
    assert FactsPatch(importance=0.0, metadata={}).apply(before) == Facts(
        "fact", 0.0, {}, "claude", "ada", access_count=4, source="chat"
    )
    assert patch_of(before).apply(Facts()) == Facts("fact", 0.3, {"topic": "ice"}, "claude", "ada")


@pytest.mark.parametrize(
    ("patch", "scope", "problem"),
    [
        (FactsPatch("learning"), "agent", ""),
        (FactsPatch("summary"), "user", ""),
        (FactsPatch(), "repo", ""),
        (
            FactsPatch("learning"),
            "user",
            "unknown type 'learning' in scope user; use fact, preference, summary",
        ),
        (FactsPatch("fact"), "agent", "unknown type 'fact' in scope agent"),
        (FactsPatch("fact"), "session", "memories of scope session have no type"),
        (FactsPatch(importance=0.0), "user", ""),
        (FactsPatch(importance=1.0), "user", ""),
        (FactsPatch(importance=1.01), "user", "importance 1.01 is not between 0 and 1"),
        (FactsPatch(importance=-0.01), "user", "not between 0 and 1"),
        (FactsPatch(importance=float("nan")), "user", "not between 0 and 1"),
        (FactsPatch(metadata={str(number): 0 for number in range(MOST_KEYS)}), "org", ""),
        (
            FactsPatch(metadata={str(number): 0 for number in range(MOST_KEYS + 1)}),
            "org",
            "33 keys; 32 are the most",
        ),
        (FactsPatch(metadata={"k": "x" * (MOST_BYTES - 8)}), "org", ""),
        (FactsPatch(metadata={"k": "x" * (MOST_BYTES - 7)}), "org", "takes 4097 bytes; 4096 are the most"),
        (FactsPatch(metadata={"": 1}), "org", "a key of metadata is not a text"),
        (FactsPatch(metadata={"k" * 129: 1}), "org", "a key of metadata is not a text"),
        (FactsPatch(metadata={1: 1}), "org", "a key of metadata is not a text"),
        (FactsPatch(metadata={"a\0b": 1}), "org", "not JSON"),
        (FactsPatch(metadata={"k": "a\0b"}), "org", "not JSON"),
        (FactsPatch(metadata={"k": "\ud800"}), "org", "not JSON"),
        (FactsPatch(metadata={"k": float("inf")}), "org", "not JSON"),
        (FactsPatch(metadata={"k": 1 << 63}), "org", "not JSON"),
        (FactsPatch(metadata={"k": b"bytes"}), "org", "not JSON"),
        (FactsPatch(metadata={"k": [[[[[[[1]]]]]]]}), "org", ""),
        (FactsPatch(metadata={"k": [[[[[[[[1]]]]]]]]}), "org", "at most 8 levels"),
    ],
)
def test_bounds_of_attributes(patch, scope, problem):
    found = patch.problem(scope)
    assert problem in found
    assert bool(problem) == bool(found)
