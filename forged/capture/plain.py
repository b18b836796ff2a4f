"""A text as patterns see it: lower case, no accents, straight quotation marks, each code span reduced to `x`.

`any_of` makes one pattern of many that are looked for in such texts.

People type "nao" for "não" and "fur" for "für", so texts and patterns meet without accents. Marks of kana
stay, they make other letters. Raises nothing.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "＇": "'", "“": '"', "”": '"', "ß": "ss"})
_CODE = re.compile(r"`+[^`\n]*`+")
_LAST_LATIN = "\u024f"
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]|.", re.DOTALL)
_EDGE = r"\b"


def plain(text: str) -> str:
    """Return the text as patterns see it."""
    return _CODE.sub("`x`", without_accents(text.lower().translate(_STRAIGHT))).strip()


def without_accents(text: str) -> str:
    """Return the text with bare Latin letters, and all others as they are."""
    return text if text.isascii() else "".join(map(_bare, text))


@functools.lru_cache(maxsize=1024)
def _bare(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0] if letter <= _LAST_LATIN else letter


def any_of(patterns: Iterable[str]) -> str:
    """Return a pattern that is found where any of them is; those that begin at a word's edge are tried there.

    A hundred looks at each letter of a sentence are most of what it costs to judge it.
    """
    branches = [branch for pattern in patterns for branch in _branches(pattern)]
    edged = [branch.removeprefix(_EDGE) for branch in branches if branch.startswith(_EDGE)]
    others = [branch for branch in branches if not branch.startswith(_EDGE)]
    return "|".join([*([f"{_EDGE}(?:{'|'.join(edged)})"] if edged else []), *others])


def _branches(pattern: str) -> Iterator[str]:
    """The parts of a pattern between the bars that stand in no group."""
    depth = start = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "|" and not depth:
            yield pattern[start : token.start()]
            start = token.end()
    yield pattern[start:]
