"""Two statements as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from forged.capture.rules.pair_model import shared_feature_count, vector_features, word_buckets
from forged.models import LAYERS
from forged.text.linear import SIZE


def test_words_of_both_of_one_alone_and_how_the_newer_one_goes_have_places_of_their_own() -> None:
    npm, pnpm = "we use npm", "we use pnpm"

    assert word_buckets(pnpm, npm) != word_buckets(npm, pnpm)
    assert word_buckets(pnpm, npm) == word_buckets("We use pnpm", "we  use npm")
    assert all(0 <= place < SIZE for place in word_buckets("我们用yarn", "端口是 3000"))
    assert list(word_buckets(pnpm, npm)) == sorted(set(word_buckets(pnpm, npm)))
    assert word_buckets("", "") == ()


def test_rows_are_compared_layer_by_layer_and_how_long_they_are_counts_for_nothing() -> None:
    newer = np.array([[3, 4, 1, 0, 0, 2]], np.float32)
    older = np.array([[6, 8, 0, 1, 0, 9]], np.float32)
    found = vector_features(newer, older)[0]

    assert found[: len(LAYERS)] == pytest.approx([1.0, 0.0, 1.0])
    assert found[len(LAYERS) : len(LAYERS) + 6] == pytest.approx([0.36, 0.64, 0, 0, 0, 1])
    assert found[len(LAYERS) + 6 : shared_feature_count(6)] == pytest.approx([0, 0, 1, 1, 0, 0])
    assert found[shared_feature_count(6) :] == pytest.approx([0.6, 0.8, 1, 0, 0, 1, 0.6, 0.8, 0, 1, 0, 1])
    assert vector_features(5 * newer, older)[0] == pytest.approx(found)
