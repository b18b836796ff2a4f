"""Estimate the tokens of a text: a quarter of its UTF-8 bytes, rounded up.

All budgets, limits, batches and cuts use this estimate, as no tokenizer of a model is available.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate(*texts: str) -> int:
    """Return the estimated tokens of these texts together; an invalid character counts a byte."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN)
