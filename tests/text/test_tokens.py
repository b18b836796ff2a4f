"""The one estimate of tokens."""

from __future__ import annotations

from forged.text.tokens import estimate


def test_what_utf8_cannot_hold_is_counted_and_not_refused() -> None:
    assert estimate("\ud800" * 4) == 1
