r"""Cut the text between `<private>` and `</private>`, before anything leaves the agent.

The daemon uses this module too, for other clients. Spans nest. A span that is never closed reaches to the
end: from a user's message over all that follow until a user closes it. A typing error may lose text, but
never reveal it. Only a user's span continues so; a span of the assistant ends with its message. Tags count
also with blanks (`< private >`), in JSON (`<\/private>`, `\u003cprivate\u003e`) and in HTML
(`&lt;private&gt;`). A tag in backticks without a closing tag behind it is talk about tags.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` itself costs more than all this; see __init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

_TAG = re.compile(
    r"(?:<|\\u003[cC]|&(?:amp;){0,4}(?:lt|LT|\#0{0,5}60|\#[xX]0{0,4}3[cC]);)\s{0,9}(?P<close>\\{0,9}/)?\s{0,9}"
    r"(?:private|Private|PRIVATE)(?:\s[^<>]{0,200}?)?"
    r"(?P<end>>|\\u003[eE]|&(?:amp;){0,4}(?:gt|GT|\#0{0,5}62|\#[xX]0{0,4}3[eE]);)"
)


def without_private(text: str, open_spans: int = 0) -> str:
    """Return the text outside private spans; `open_spans` are open at its beginning."""
    return cut_private(text, open_spans)[0]


def cut_private(text: str, depth: int = 0) -> tuple[str, int]:
    """Return the text outside private spans, and the number of spans that are open at its end."""
    if not depth and "rivate" not in text and "PRIVATE" not in text:
        return text, 0
    tags, last_closer = [], -1
    for tag in _TAG.finditer(text):  # one by one, because other threads wait while a call collects all
        tags.append(tag)
        if tag["close"]:
            last_closer = tag.start()
    kept: list[str] = []
    start = 0
    for tag in tags:
        if not depth:
            if _is_quoted(text, tag) and (tag["close"] or tag.start() > last_closer):
                continue
            kept.append(text[start : tag.start()])
        depth = max(depth - 1, 0) if tag["close"] else depth + 1
        start = tag.end()
    if not depth:
        kept.append(text[start:])
    return "".join(kept), depth


def open_spans_before(messages: Iterable[tuple[str, Iterable[str]]]) -> list[int]:
    """Return how many private spans are open before each message, given as role and texts."""
    depth, found, last = 0, list[int](), tuple[str, ...]()
    for role, texts in messages:
        for text in last:  # spans after the last message are not needed
            _, depth = cut_private(text, depth)
        found.append(depth)
        last = tuple(texts) if role == "user" else ()
    return found


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    """Return True for a tag in backticks, which opens no private span unless a closing tag follows."""
    return text[tag.start() - 1 : tag.start()] == "`" == text[tag.end() : tag.end() + 1]
