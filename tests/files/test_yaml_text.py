"""What is read of a header, and which of its lines belong to nobody."""

from __future__ import annotations

from forged.files.yaml_text import load


def test_lines_of_unknown_keys_are_told_apart_from_those_of_known_ones():
    header = load("a: 1\n# x\nb:\n  - c\n  - d\n\nk: |\n  t\n", {"b"})

    assert header.values == {"b": ("c", "d")}
    assert header.extra == "a: 1\n# x\n\nk: |\n  t\n"
    assert header.keys == ("a", "b", "k")


def test_plain_nulls_are_told_apart_from_quoted_ones():
    header = load("a: null\nb: 'null'\nc:\nd: ''\n", {"a", "b", "c", "d"})

    assert header.values == {"a": None, "b": "null", "c": None, "d": ""}
