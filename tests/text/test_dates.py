"""The times that a message names."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.text.dates import A_TIME, of_named_time

HOUR = 3600
DAY = timedelta(days=1)


def noon(day):
    day = date.fromisoformat(day) if isinstance(day, str) else day
    return int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())


def made(*days):
    """Seconds of noon of each day, 0 for None."""
    return np.array([0 if day is None else noon(day) for day in days], np.int64)


def named(text, *days):
    """Those of `days` that a memory made then would be preferred for; None when no time is named."""
    hit = of_named_time(text, made(*days))
    assert hit is None or A_TIME.search(text), "a text that names a time is not taken for one"
    return None if hit is None else [day for day, yes in zip(days, hit, strict=True) if yes]


# --- which days are named -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "7 May 2023",
        "What did she say on May 7, 2023?",
        "May 7th, 2023",
        "May 7 2023",
        "the 7th of May 2023",
        "the 7th of May, 2023",
        "May 7th of 2023",
        "2023-05-07",
        "the log of 2023-05-07T08:15:00Z",
        "在2023-05-07之后",
        "2023年5月7日",
        "2023 年 05 月 7 号",
    ],
)
def test_a_day_names_itself_and_the_week_after(text):
    days = ["2023-05-06", "2023-05-07", "2023-05-14", "2023-05-15", "2024-05-07"]

    assert named(text, *days) == ["2023-05-07", "2023-05-14"]


@pytest.mark.parametrize(
    "text",
    [
        "in September 2023",
        "Sept 2023",
        "since Sep. 2023",
        "September of 2023",
        "2023-09",
        "2023年9月",
        "2023年 9 月份",
    ],
)
def test_a_month_names_all_its_days_and_the_week_after(text):
    days = ["2023-08-31", "2023-09-01", "2023-09-30", "2023-10-07", "2023-10-08", "2022-09-15"]

    assert named(text, *days) == ["2023-09-01", "2023-09-30", "2023-10-07"]


@pytest.mark.parametrize("text", ["in June", "was it June?", "back in Jun.", "6月", "06 月份"])
def test_a_month_without_a_year_is_that_month_of_any_year(text):
    assert named(text, "2022-06-01", "2023-05-31", "2024-06-30", "2025-07-01") == [
        "2022-06-01",
        "2024-06-30",
        "2025-07-01",
    ]


@pytest.mark.parametrize("text", ["on June 3", "3rd of June", "6月3日"])
def test_a_day_without_a_year_is_that_day_of_any_year(text):
    assert named(text, "2022-06-03", "2023-06-02", "2024-06-04") == ["2022-06-03", "2024-06-04"]


def test_what_was_told_early_in_january_is_of_december():
    assert named("what happened in December?", "2024-01-03", "2024-01-08") == ["2024-01-03"]


def test_all_times_that_are_named_count():
    assert named("in June 2023 or 2024-02-01", "2023-06-05", "2024-02-02", "2024-06-05") == [
        "2023-06-05",
        "2024-02-02",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "in 2023",
        "2023年",
        "in 3个月",
        "13月",
        "112月",
        "the Mayor of Junection",
        "you may march on",
        "MAY",
        "2023-13-01",
        "2023-0512",
        "12023-05-07",
        "3f2504e0-2012-09ab-9a0c",
        "yesterday, on Monday",
    ],
)
def test_what_names_no_day_or_month_names_nothing(text):
    assert named(text, "2023-05-07", "2012-09-01") is None


@pytest.mark.parametrize("verb", ["May we go?", "March on."])
@pytest.mark.parametrize("before", ["", "“", "  - ", "Thanks. ", "so:\n", "Really?! ", "wait; ", "-" * 200])
def test_may_or_march_that_opens_a_sentence_is_a_verb(before, verb):
    assert named(before + verb, "2023-05-07", "2023-03-07") is None


@pytest.mark.parametrize(
    "text",
    [
        "What did we do in May?",
        "“since May”",
        "May 7 was late",
        "May 2023: what then?",
        "x" * 200 + ". In May",
    ],
)
def test_may_inside_a_sentence_or_with_a_day_or_year_is_a_month(text):
    assert named(text, "2023-05-08", "2023-03-08") == ["2023-05-08"]


def test_other_months_may_open_a_sentence():
    assert named("June was hard.", "2023-05-07", "2023-06-07") == ["2023-06-07"]


@pytest.mark.parametrize(
    "text", ["February 30, 2023", "31 February 2023", "2023-02-39", "2023年2月30日", "Feb 0, 2023"]
)
def test_a_day_that_is_none_names_its_month(text):
    assert named(text, "2023-01-31", "2023-02-01", "2023-02-28", "2023-03-07", "2023-03-08") == [
        "2023-02-01",
        "2023-02-28",
        "2023-03-07",
    ]


def test_a_leap_day_is_a_day():
    assert named("February 29, 2024", "2024-02-28", "2024-02-29") == ["2024-02-29"]


def test_a_memory_of_an_unknown_time_is_of_no_named_time():
    assert named("January 1970", None, "1970-01-02") == ["1970-01-02"]


@pytest.mark.parametrize("days", [[], [None, None]])
def test_without_any_known_time_nothing_is_named(days):
    assert named("in June 2023", *days) is None


WRITTEN = [
    "{0:%Y-%m-%d}",
    "{0.day} {0:%B} {0.year}",
    "{0:%B} {0.day}, {0.year}",
    "{0.year}年{0.month}月{0.day}日",
]


@given(st.dates(date(1971, 1, 1), date(2099, 12, 1)), st.sampled_from(WRITTEN))
@settings(deadline=None)
def test_a_written_day_is_read_as_that_day(day, form):
    found = named(form.format(day), day - DAY, day, day + 7 * DAY, day + 8 * DAY)

    assert found == [day, day + 7 * DAY]


PIECES = st.sampled_from(
    [*"0123459 -.,年月日", "May", "March", "June", "Sept", "of", "th", "2023", "1900", "T12", "x"]
)
SECONDS = st.integers(0, noon(date(9999, 12, 31)) + 2 * 86_400)  # an offset may carry a time into year 10000


@given(st.text() | st.lists(PIECES, max_size=20).map("".join), st.lists(SECONDS | st.just(0), max_size=5))
@settings(deadline=None)
def test_any_text_and_any_times_give_an_answer(text, seconds):
    created = np.array(seconds, np.int64)

    hit = of_named_time(text, created)

    assert hit is None or (hit.shape == created.shape and not hit[created == 0].any())


@pytest.mark.parametrize("year", range(1971, 2101, 3))
def test_the_first_and_the_last_second_of_a_year_are_of_that_year(year):
    first, last = noon(f"{year}-01-01") - 12 * HOUR, noon(f"{year}-12-31") + 12 * HOUR - 1

    assert of_named_time("1月", np.array([first])).tolist() == [True]
    assert of_named_time("12月", np.array([last])).tolist() == [True]


@given(SECONDS.filter(bool))
@settings(deadline=None)
def test_a_month_without_a_year_is_found_in_any_year_that_a_memory_is_of(seconds):
    (month,) = np.array([seconds]).astype("datetime64[s]").astype("datetime64[M]").astype(int) % 12 + 1

    assert of_named_time(f"{month}月", np.array([seconds])).all()
