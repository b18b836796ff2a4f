"""Tables in a terminal's cells: aligned, and never wider than it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.cli.tables import cells, columns, cut, short_ids

ID = "mem_6f0e5d1a-1111-4222-8333-444455556666"
LIKE = "mem_6f0e5d1a-9999-4222-8333-444455556666"
OTHER = "mem_0a1b2c3d-1111-4222-8333-444455556666"
WIDE = "数据库迁移必须能够回滚，永远不要删除列。" * 4


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("plain", 5),
        ("naïve", 5),
        ("nai\u0308ve", 5),
        ("你好", 4),
        ("ｆｕｌｌ", 8),
        ("한국어", 6),
        ("\u1112\u1161\u11ab", 2),  # one syllable in its parts
        ("🎉", 2),
        ("❤\ufe0f", 2),
        ("❤", 1),
        ("שלום", 4),
        ("", 0),
    ],
)
def test_a_line_is_measured_in_cells(text, size):
    assert cells(text) == size


@given(st.text(max_size=60), st.integers(0, 30))
def test_what_is_cut_fits_and_no_mark_loses_its_letter(text, room):
    done = cut(text, room)

    assert cells(done) <= room
    assert done == text or done.endswith("..."[:room])


def rows(gist: str) -> list[tuple[str, ...]]:
    return [
        (ID, "repo/architectural-decisions", "v1", "2026-05-01", gist),
        (OTHER, "user/user-facts", "v12", "2026-05-02", "short"),
    ]


@pytest.mark.parametrize(
    "gist", ["word " * 16, WIDE[:40], "🎉" * 40, "x" * 80], ids=["en", "zh", "emoji", "one"]
)
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_table_fits_its_terminal(gist, width):
    lines = columns(rows(gist), width=width, cuts=True)

    assert max(map(cells, lines)) <= width
    assert (len(lines) == 2) == (width >= 100)
    assert (ID in lines[0]) == (width == 200)
    assert lines[0].startswith(ID[:12])


def test_wide_cells_are_aligned():
    lines = columns([("你好", "a", "x"), ("abc", "b", "y")])

    assert lines == ["你好  a  x", "abc   b  y"]


def test_figures_that_do_not_fit_have_a_head_of_several_lines_and_then_their_names():
    table = [
        ("day", "purpose", "calls", "prompt tokens", "completion tokens"),
        ("2026-05-01", "capture", "12", "1,204,000", "30"),
    ]

    assert columns(table, numbers_from=2) == columns(table, numbers_from=2, width=200)
    narrow = columns(table, numbers_from=2, width=50)
    assert [line.split() for line in narrow[:2]] == [
        ["prompt", "completion"],
        ["day", "purpose", "calls", "tokens", "tokens"],
    ]
    assert max(map(cells, narrow)) <= 50
    assert columns(table, numbers_from=2, width=30) == [
        "2026-05-01  capture",
        "    calls 12, prompt tokens",
        "    1,204,000, completion",
        "    tokens 30",
    ]


def test_an_id_is_as_long_as_it_takes_to_tell_it_from_the_others():
    assert short_ids([ID, OTHER]) == {ID: ID[:12], OTHER: OTHER[:12]}
    assert short_ids([ID, LIKE]) == {ID: ID[:14], LIKE: LIKE[:14]}
    assert short_ids(["", ID]) == {"": "", ID: ID[:12]}
    assert short_ids(["mem_of_another_program"]) == {"mem_of_another_program": "mem_of_another_program"}
