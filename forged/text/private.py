"""Private spans, by the rule that the client has already followed: what leaves or is kept passes it again."""

from __future__ import annotations

from forged_client import private
from forged_client.private import open_before

__all__ = ["open_before", "private_left", "without_private"]


def without_private(text: str, open_spans: int = 0) -> str:
    """The text outside of `<private>` spans; one that is never closed hides the rest.

    `open_spans` is how many are open at its beginning, as `open_before` finds for each message of a
    conversation. Linear in the length of the text; one without any tag is returned as it is.
    """
    return private.without_private(text, open_spans)[0]


def private_left(text: str, open_spans: int) -> tuple[str, int]:
    """The same, and how many spans are open at its end: for a conversation that comes message by message."""
    return private.without_private(text, open_spans)
