"""A text as patterns see it: lower case, no accents, straight quotation marks, each code span reduced to `x`.

People type "nao" for "não" and "fur" for "für", so texts and patterns meet without accents. Marks of kana
stay, they make other letters. Raises nothing.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "＇": "'", "“": '"', "”": '"', "ß": "ss"})
_CODE = re.compile(r"`+[^`\n]*`+")
_LAST_LATIN = "\u024f"


def plain(text: str) -> str:
    """Return the text as patterns see it."""
    return _CODE.sub("`x`", without_accents(text.lower().translate(_STRAIGHT))).strip()


def without_accents(text: str) -> str:
    """Return the text with bare Latin letters, and all others as they are."""
    return text if text.isascii() else "".join(map(_bare, text))


@functools.lru_cache(maxsize=1024)
def _bare(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0] if letter <= _LAST_LATIN else letter
