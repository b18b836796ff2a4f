"""Texts made ready to be sent, and counted into requests; tokens are estimated as ceil(utf8 bytes / 4)."""

from __future__ import annotations

from collections.abc import Iterator


def sendable(text: str) -> str:
    """Replace what JSON or a tokenizer cannot take: lone surrogates and NUL, by U+FFFD."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")


def fitting(texts: list[str], most: int, tokens: int) -> int:
    """Return how many of the first texts make one request; at least one."""
    count = spent = 0
    for cost in _costs(texts[:most]):
        spent += cost
        if count and spent > tokens:
            break
        count += 1
    return count


def _costs(texts: list[str]) -> Iterator[int]:
    return (estimated_tokens(text) for text in texts)


def estimated_tokens(*texts: str) -> int:
    """Return about how many tokens these texts are together, ceil(utf8 bytes / 4)."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // 4)


def clipped(text: str, tokens: int) -> str:
    """Cut a text to about so many tokens, between two characters."""
    return text.encode()[: 4 * tokens].decode("utf-8", "ignore")
