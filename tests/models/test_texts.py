"""Texts sent to a model: sendable, within its limits, and complete where they fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.models.texts import fitting, sendable
from forged.text.tokens import estimate


@given(
    st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 30)
)
def test_a_batch_holds_one_text_or_stays_within_both_limits(texts, most, tokens):
    texts = [sendable(text) for text in texts]

    count = fitting(texts, most, tokens)

    spent = sum(map(estimate, texts[:count]))
    assert 1 <= count <= most
    assert count == 1 or spent <= tokens
