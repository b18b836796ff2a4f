"""How many tokens a text is, about: a quarter of its bytes in UTF-8, rounded up.

No tokenizer is at hand for models that are named in a configuration. The one estimate for budgets, limits,
batches and cuts, so that what one part counts another counts alike.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate(*texts: str) -> int:
    """Return about how many tokens these texts are together; what UTF-8 cannot hold counts a byte."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN)
