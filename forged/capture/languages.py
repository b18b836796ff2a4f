"""Which of seven languages a text is in, by its letters and its commonest words.

Nothing where few of them say so. Nothing is raised.
"""

from __future__ import annotations

import re

_LEAST, _MARGIN = 3, 2
_LETTERS = re.compile(r"[^\W\d_]+")
_WORDS = {
    "en": "the and of to is are that this for with you it not be on must all have by from",
    "de": "der die das und ist nicht ein eine zu den mit auf für von werden nur noch wir ich",
    "es": "el los las y es una para con por se del al que esto lo como más no siempre",
    "fr": "le les et est une pour avec dans du des ce que pas il on nous vous toutes sur",
    "pt": "o os as e é uma para com não do da em no na que isso você sempre por um",
}
_COMMON = {name: frozenset(words.split()) for name, words in _WORDS.items()}
COMMON = frozenset().union(*_COMMON.values())
_KANA, _HAN = re.compile(r"[\u3040-\u30ff]"), re.compile(r"[\u4e00-\u9fff]")
# Of all letters.
_MOST_FOREIGN = 0.15


def language(text: str) -> str:
    """`en`, `de`, `es`, `fr`, `pt`, `zh` or `ja`, or nothing."""
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    words = _LETTERS.findall(text.lower())
    letters = sum(map(len, words)) or 1
    if (han + kana) / letters >= _MOST_FOREIGN:
        return "ja" if kana else "zh"
    votes = sorted(
        ((sum(word in common for word in words), name) for name, common in _COMMON.items()), reverse=True
    )
    (best, name), (second, _) = votes[:2]
    return name if best >= _LEAST and best - second >= _MARGIN else ""
