r"""Cuts `<private>...</private>` out of text before it leaves the agent.

What a user marks as private must not reach the daemon at all, so the client does it. Spans nest, and one
that is never closed reaches to the end of the message: a typing slip may lose text, never give it away.
Tags inside quoted JSON (`<\/private>`, `\u003cprivate\u003e`) count too. (design.md section 8)
"""

from __future__ import annotations

import re

_WORDS = ("private", "Private", "PRIVATE")
_TAG = re.compile(
    r"(?:<|\\u003[cC])(?P<close>\\*/)?(?:private|Private|PRIVATE)(?:\s[^<>]{0,200})?(?:>|\\u003[eE])"
)


def without_private(text: str, depth: int = 0) -> tuple[str, int]:
    """The text outside private spans, and how many spans are still open at its end.

    `depth` is the number of spans already open, for a message that comes in several parts.
    """
    if not depth and not any(word in text for word in _WORDS):
        return text, 0
    kept: list[str] = []
    start = 0
    for tag in _TAG.finditer(text):
        if not depth:
            kept.append(text[start : tag.start()])
        depth = max(depth - 1, 0) if tag["close"] else depth + 1
        start = tag.end()
    if not depth:
        kept.append(text[start:])
    return "".join(kept), depth
