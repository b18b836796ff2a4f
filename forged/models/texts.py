"""Prepare texts for a model, and batch them by their estimated tokens."""

from __future__ import annotations

from forged.errors import ProviderError
from forged.text.tokens import BYTES_PER_TOKEN, estimate


def ready(text: str, prefix: str, tokens: int) -> str:
    """Return the text to embed: trimmed, sendable, with its prefix, cut to `tokens`.

    A file's final line break is one more token for some models (cosine 0.97 to the text without). Raises
    ProviderError, bad_input, for a blank text.
    """
    text = sendable(text).strip()
    if not text:
        raise ProviderError("a text to embed is blank", reason="bad_input")
    return clipped(f"{prefix}{text}", tokens)


def exceeds(text: str, prefix: str, tokens: int) -> bool:
    """Return True if `ready` cuts this text: with its prefix it has over `tokens` estimated tokens."""
    most = BYTES_PER_TOKEN * tokens
    # A character is four bytes at most.
    if 4 * (len(prefix) + len(text)) <= most:
        return False
    return len(f"{prefix}{sendable(text).strip()}".encode()) > most


def sendable(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates and NUL, which JSON or a tokenizer cannot take."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")


def clipped(text: str, tokens: int) -> str:
    """Return a text cut at its end to about so many tokens, never within a character."""
    return text.encode()[: BYTES_PER_TOKEN * tokens].decode("utf-8", "ignore")


def fitting(texts: list[str], most: int, tokens: int) -> int:
    """Return how many of the first texts make one request by both limits; the first always fits."""
    count = spent = 0
    for text in texts[:most]:
        spent += estimate(text)
        if count and spent > tokens:
            break
        count += 1
    return count
