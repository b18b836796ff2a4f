"""Remove a forgotten sentence from texts, and recognise if a person says it again.

Texts are compared by their words. Case, punctuation, emphasis, white space and invisible characters do not
count, so a comma or a soft hyphen cannot bring a forgotten text back. It takes any text and raises nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

from forged.text.invisible import INVISIBLE
from forged.text.same_text import content_words

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
# Each ideograph is a word; C, C++ and C# are three languages.
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]+(?:'[^\W_{_IDEOGRAPH}]+)*[+#]*")
_ARTICLES = frozenset(("a", "an", "the", "please"))
_END = re.compile(
    r"""
      `+[^`\n]*`+                                             # stays whole
    | \b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl)\.(?=\s\S)
    | (?P<end>[.!?…]+["')*_]*(?=\s|$) | [。！？]+ | \n)\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Sentences that are compared as one, and most sentences read. A list line is a sentence, and so is each line
# of a wrapped paragraph.
_IN_A_ROW, _LOOKED_AT = 8, 400
# Share of a text's content words that a message needs to say it again.
_SHARE = 0.8

Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """Return a text's words in order without articles; case and punctuation do not count."""
    plain = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).replace("’", "'").casefold()
    plain = unicodedata.normalize("NFKC", plain)  # lower case can add combined forms
    return tuple(word for word in _WORD.findall(plain) if word not in _ARTICLES)


def without_sentences(text: str, unwanted: Sequence[Words]) -> tuple[str, int]:
    """Return a text without the sentences that hold an unwanted run of words, and their number."""
    said = words_of(text)
    if not any(_indexes_of_run(said, each) for each in unwanted):
        return text, 0
    sentences = list(sentences_in(text))
    owner = [number for number, sentence in enumerate(sentences) for _ in words_of(sentence)]
    said = tuple(word for sentence in sentences for word in words_of(sentence))
    gone = {
        number
        for each in unwanted
        for place in _indexes_of_run(said, each)
        for number in owner[place : place + len(each)]
    }
    return "".join(each for number, each in enumerate(sentences) if number not in gone), len(gone)


def parts_of(text: str) -> Iterator[str]:
    """Yield the normalised words of a text as one string, then of each run of a few sentences."""
    yield " ".join(words_of(text))
    said = [" ".join(words) for each in islice(sentences_in(text), _LOOKED_AT) if (words := words_of(each))]
    for first in range(len(said)):
        for last in range(first + 1, min(first + _IN_A_ROW, len(said)) + 1):
            yield " ".join(said[first:last])


def says_again(message: str, text: str) -> bool:
    """Return True if a message repeats a text: word by word, or with most of its content words."""
    if _indexes_of_run(words_of(message), words_of(text)):
        return True
    wanted = set(content_words(text))
    return bool(wanted) and len(wanted & set(content_words(message))) >= _SHARE * len(wanted)


def sentences_in(text: str) -> Iterator[str]:
    """Yield sentences with the white space after them; joined they are the text."""
    start = 0
    for match in _END.finditer(text):
        if match["end"] is not None:
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]


def _indexes_of_run(said: Words, wanted: Words) -> list[int]:
    """Return the indexes at which the words `wanted` begin among those `said`."""
    length = len(wanted)
    starts = (at for at, word in enumerate(said) if wanted and word == wanted[0])
    return [at for at in starts if said[at : at + length] == wanted]
