"""What is sent to a model: sendable, within its limits, nothing lost that fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.models.texts import clipped, fitting, ready, sendable
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


@given(st.text(), st.integers(0, 40))
def test_a_cut_text_is_a_beginning_of_it_within_the_limit(text, tokens):
    whole = sendable(text)

    cut = clipped(whole, tokens)

    assert whole.startswith(cut)
    assert len(cut.encode()) <= 4 * tokens
    assert len(whole.encode()) <= 4 * tokens or len(cut.encode()) > 4 * tokens - 4


@given(st.text(min_size=1).filter(lambda text: sendable(text).strip()))
def test_a_ready_text_is_trimmed_sendable_and_behind_its_prefix(text):
    assert ready(f"\n{text} \n", "query: ", 1000) == f"query: {sendable(text).strip()}"
