"""Two statements as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from forged.capture.rules.replacement import rows_of, together
from forged.models import LAYERS


def test_rows_are_compared_layer_by_layer_and_how_long_they_are_counts_for_nothing() -> None:
    newer = np.array([[3, 4, 1, 0, 0, 2]], np.float32)
    older = np.array([[6, 8, 0, 1, 0, 9]], np.float32)
    found = rows_of(newer, older)[0]

    assert found[: len(LAYERS)] == pytest.approx([1.0, 0.0, 1.0])
    assert found[len(LAYERS) : len(LAYERS) + 6] == pytest.approx([0.36, 0.64, 0, 0, 0, 1])
    assert found[len(LAYERS) + 6 : together(6)] == pytest.approx([0, 0, 1, 1, 0, 0])
    assert found[together(6) :] == pytest.approx([0.6, 0.8, 1, 0, 0, 1, 0.6, 0.8, 0, 1, 0, 1])
    assert rows_of(5 * newer, older)[0] == pytest.approx(found)
