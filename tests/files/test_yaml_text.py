"""Scalars in the quoting of the Go program, and safe for any other YAML reader."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.files.yaml_text import load, scalar


@pytest.mark.parametrize(
    "text",
    ["mem_1", "a b", "12e4567890123456", "1e400", "NaN", "a:b", "a#b", "-a", "?a", ":a", "1.2.3", "é 数据库",
     "a'b", 'a"b', "10:75", "12ab", "2025-13", "a\\b", "yesterday", "mem-1/2"],
)  # fmt: skip
def test_text_stays_plain_where_it_can(text):
    assert scalar(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "null", "~", "true", "FALSE", "yes", "No", "on", "OFF", "y", "N", "1", "-1", "+1", "1_000", "0x1F",
     "0o17", "0b1", "1.5", "1.", ".5", "1e5", "1E-5", "12345678901234567890123", ".inf", "-.INF", ".NaN",
     "12:30:45", "2025-01-15", "2025-1-5", "2025-01-15T10:30:00Z", "2025-01-15 10:30:00", "=", "<<"],
)  # fmt: skip
def test_text_that_would_be_read_as_another_type_gets_double_quotes(text):
    assert scalar(text) == f'"{text}"'


@pytest.mark.parametrize(
    "text",
    ["a: b", "a:", "a #b", "- a", "-", "?", ": a", "#a", ",a", "[a", "]a", "{a", "}a", "&a", "*a", "!a", "|a",
     ">a", '"a', "%a", "@a", "`a", " a", "a ", "---", "--- a", "...a"],
)  # fmt: skip
def test_text_that_looks_like_syntax_gets_single_quotes(text):
    assert scalar(text) == f"'{text}'"


def test_single_quote_is_doubled_inside_single_quotes():
    assert scalar("'a': b") == "'''a'': b'"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\nb", r'"a\nb"'),
        ('\t"\\', r'"\t\"\\"'),
        ("\x00\x07\x08\x0b\x0c\r\x1b\x7f", r'"\0\a\b\v\f\r\e\x7F"'),
        ("\x85\u2028\u2029\ufeff\uffff", r'"\N\L\P\uFEFF\uFFFF"'),
        ("naïve 😀", r'"naïve \U0001F600"'),
    ],
)
def test_control_characters_line_ends_and_emoji_are_escaped(text, written):
    assert scalar(text) == written


texts = st.text(st.characters(exclude_categories=["Cs"]))
typed = st.from_regex(r"[-+0-9a-fxobeE_.:TZ ]{0,30}|[a-zA-Z~=<.]{0,5}", fullmatch=True)


@settings(deadline=None, max_examples=500)
@given(st.one_of(texts, typed))
def test_a_full_yaml_reader_reads_the_same_text(text):
    # Also with the pure Python scanner, whose rules differ in places.
    assert yaml.safe_load(f"key: {scalar(text)}\nlist:\n    - {scalar(text)}\n") == {
        "key": text,
        "list": [text],
    }
    assert yaml.load(f"key: {scalar(text)}\n", Loader=yaml.CSafeLoader) == {"key": text}


def test_lines_of_unknown_keys_are_told_apart_from_those_of_known_ones():
    values, rest = load("a: 1\n# x\nb:\n  - c\n  - d\n\nk: |\n  t\n", {"b"})

    assert values == {"b": ("c", "d")}
    assert rest == "a: 1\n# x\n\nk: |\n  t\n"


def test_plain_nulls_are_told_apart_from_quoted_ones():
    values, _ = load("a: null\nb: 'null'\nc:\nd: ''\n", {"a", "b", "c", "d"})

    assert values == {"a": None, "b": "null", "c": None, "d": ""}
