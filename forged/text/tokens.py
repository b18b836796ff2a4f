"""Estimate the tokens of a text: a quarter of its bytes in UTF-8, rounded up.

It is the one estimate for budgets, limits, batches and cuts: no tokenizer of a named model is at hand.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate(*texts: str) -> int:
    """Return about how many tokens these texts are together; what UTF-8 cannot hold counts a byte."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN)
