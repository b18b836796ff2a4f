"""Private spans, by the rule that the client has already followed: what leaves or is kept passes it again."""

from __future__ import annotations

from forged_client import private
from forged_client.private import open_before

__all__ = ["open_before", "private_left", "without_private"]


def without_private(text: str, open_spans: int = 0) -> str:
    """Return the text outside of `<private>` spans, `open_spans` of which are open at its beginning."""
    return private.without_private(text, open_spans)[0]


def private_left(text: str, open_spans: int) -> tuple[str, int]:
    """The same, and how many spans are open at its end: for a conversation that comes message by message."""
    return private.without_private(text, open_spans)
