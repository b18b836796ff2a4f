"""The digest by which a forgotten text is recognised; the text itself is kept nowhere."""

from __future__ import annotations

import hashlib

from forged.text.same_text import normalised

_DIGITS = 32


def digest(top: str, text: str) -> str:
    """Return the digest of a text of the root at `top`, the same for all that differ in typography only.

    What one repository forgets, another may still be told; what the user's root forgets, none.
    """
    said = f"{top}\0{normalised(text)}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
