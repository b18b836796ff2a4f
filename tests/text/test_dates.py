"""The times that a message names."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.text.dates import A_TIME, named_time_mask


def noon(day):
    day = date.fromisoformat(day) if isinstance(day, str) else day
    return int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())


def made(*days):
    """Seconds of noon of each day, 0 for None."""
    return np.array([0 if day is None else noon(day) for day in days], np.int64)


def named(text, *days):
    """Those of `days` that a memory made then would be preferred for; None when no time is named."""
    hit = named_time_mask(text, made(*days))
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


PIECES = st.sampled_from(
    [*"0123459 -.,年月日", "May", "March", "June", "Sept", "of", "th", "2023", "1900", "T12", "x"]
)
SECONDS = st.integers(0, noon(date(9999, 12, 31)) + 2 * 86_400)  # an offset may carry a time into year 10000


@given(st.text() | st.lists(PIECES, max_size=20).map("".join), st.lists(SECONDS | st.just(0), max_size=5))
@settings(deadline=None)
def test_any_text_and_any_times_give_an_answer(text, seconds):
    created = np.array(seconds, np.int64)

    hit = named_time_mask(text, created)

    assert hit is None or (hit.shape == created.shape and not hit[created == 0].any())
