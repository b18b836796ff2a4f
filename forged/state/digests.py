"""The digest by which a forgotten text is recognised; the text itself is kept nowhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from forged.text.forgetting import parts_of, words_of
from forged.text.same_text import normalised

_DIGITS = 32


def digest(top: str, text: str) -> str:
    """Return the digest of a text of the root at `top`, the same for all that have the same words.

    What one repository forgets, another may still be told; what the user's root forgets, none.
    """
    return _digest(top, " ".join(words_of(text)) or normalised(text))


def digests_within(tops: Sequence[str], text: str) -> Iterator[str]:
    """The digests of a text and of its parts that may have been forgotten alone, in any of these roots."""
    for said in dict.fromkeys(parts_of(text)):
        yield from (_digest(top, said) for top in tops if said)
    for top in tops:
        yield digest(top, text)  # it may have no words


def digest_of_id(top: str, memory_id: str) -> str:
    """The digest of a memory's id, which is that of no text."""
    return _digest(top, f"\0{memory_id}")


def _digest(top: str, said: str) -> str:
    return hashlib.sha256(f"{top}\0{said}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
