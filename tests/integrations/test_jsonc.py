"""JSON as people keep it, read with its places."""

from __future__ import annotations

import pytest

from forged.integrations.jsonc import NotJson, cut, insert, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('// head\n{"a": 1, /* b */ "c": [1, 2,], }\n// tail', {"a": 1, "c": [1, 2]}),
        ('\ufeff{"a": "// no comment"}', {"a": "// no comment"}),
        ('{"a": "\\"}", "b": 2}', {"a": '"}', "b": 2}),
        ("[\r\n  true,\r\n  null\r\n]", [True, None]),
    ],
)
def test_comments_and_commas_before_a_bracket_are_no_fault(text, value):
    assert parse(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1", "{,}", "[,]", "{]", '{"a" 1}', "{a: 1}", "[1 2]", '{"a":}', "{} {}", "01x", "nul"),
        *('"\n"', "'a'", "/* {}", "[" * 200 + "]" * 200, "{1: 2}", "NaN"),
    ],
)
def test_what_no_agent_would_read_is_refused_with_its_line(text):
    with pytest.raises(NotJson, match=r"at line [12]$"):
        parse(text)


def test_of_a_key_that_is_there_twice_the_last_counts():
    root = parse('{"a": 1, "a": 2}')

    assert root.member("a").value == 2
    assert root.member("b") is None


def test_a_new_member_comes_first_in_the_form_of_what_follows():
    text = '{\r\n\t"a": 1 // one\r\n}'

    assert insert(text, parse(text), "b", [2]) == '{\r\n\t"b": [\r\n\t  2\r\n\t],\r\n\t"a": 1 // one\r\n}'


@pytest.mark.parametrize(
    ("text", "number", "left"),
    [
        ("[1, 2, 3]", 0, "[ 2, 3]"),
        ("[1, 2, 3]", 1, "[1, 3]"),
        ("[1, 2, 3]", 2, "[1, 2]"),
        ("[1]", 0, "[]"),
        ("[1, /* mine */ 2]", 1, "[1 /* mine */]"),
        ("[1, // mine\n 2]", 0, "[ // mine\n 2]"),
        ("[1 /* , */]", 0, "[ /* , */]"),
    ],
)
def test_what_is_cut_takes_its_comma_along_and_leaves_comments(text, number, left):
    assert cut(text, parse(text), number) == left
