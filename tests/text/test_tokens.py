"""The one estimate of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.text.tokens import BYTES_PER_TOKEN, estimate


@given(st.lists(st.text()))
def test_an_estimate_is_a_quarter_of_the_bytes_rounded_up(texts: list[str]) -> None:
    size = sum(len(text.encode()) for text in texts)

    assert 0 <= BYTES_PER_TOKEN * estimate(*texts) - size < BYTES_PER_TOKEN


def test_what_utf8_cannot_hold_is_counted_and_not_refused() -> None:
    assert estimate("\ud800" * 4) == 1
