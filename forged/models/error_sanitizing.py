"""Sanitize a provider's error message: it repeats no text of the request and no part of a key.

Some providers echo the input or a part of the key. A message is quoted as a whole or not at all: not if
eight characters of it, with an uncommon word, were sent. Common words of error messages and a model's name
do not count. Parts of keys are cut out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from forged.text.english import STOP_WORDS
from forged.text.word_lists import lists

MAX_QUOTED = 1_000  # limit of the patterns, which are slow on 64 kB
KEY = "[key]"

_MAX_MESSAGE = 200
_ECHO, _SHORTEST = 8, 4
_PART_OF_A_KEY = 5
# Characters that are removed before the comparison, because they may split a key.
_NO_LETTER = re.compile(r"[\W_]+")
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")  # JSON within JSON
# Forms of a masked key: sk-ab**yz, sk-...6789.
_STARRED = re.compile(r"\S*(?:[*•]{2,}|[\w-](?:\.{3}|…)\w{2,})\S*")
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MODEL = re.compile(r"\bmodels?\b[\s=:/`'\"‘“]{1,4}([\w./:@-]+)")
# Lower case. No names of things, because an error message with a memory's subject repeats it.
_OF_ERRORS = STOP_WORDS.union(lists("errors")["of_endpoints"].split())


class SensitiveTexts(msgspec.Struct, frozen=True):
    """Texts that were sent, and keys: no message may repeat them, not even in part."""

    texts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def sanitized(message: str, unsaid: SensitiveTexts) -> str:
    """Return a provider's message, cut and printable, without keys; "" if it repeats a sent text."""
    printable = "".join(c if c.isprintable() else " " for c in message[:MAX_QUOTED])
    text = _without_keys(" ".join(printable.split()), unsaid.keys)[:_MAX_MESSAGE]
    return "" if _repeats(text, unsaid.texts) or _has_split_key(text, unsaid.keys) else text


def _without_keys(text: str, keys: tuple[str, ...]) -> str:
    """Return the text with `[key]` for each word that contains or masks a part of a key."""
    parts = {part for key in keys for part in _key_parts(key.casefold())}
    return " ".join(KEY if _has_key_part(word, parts) else word for word in text.split(" "))


def _key_parts(key: str) -> Iterator[str]:
    """Yield the parts of a key that no message may contain: each 5 characters, or a key of 4."""
    if _SHORTEST <= len(key) < _PART_OF_A_KEY:
        yield key
    for at in range(len(key) - _PART_OF_A_KEY + 1):
        yield key[at : at + _PART_OF_A_KEY]


def _has_key_part(word: str, parts: set[str]) -> bool:
    """Return True if a word contains a part of a key, or is a masked key."""
    folded = word.casefold()
    return bool(_STARRED.fullmatch(word)) or any(part in folded for part in parts)


def _has_split_key(text: str, keys: tuple[str, ...]) -> bool:
    """Return True if 8 characters of a key are left, even if blanks or signs split them."""
    letters = _NO_LETTER.sub("", text.casefold())
    bare = (_NO_LETTER.sub("", key.casefold()) for key in keys)
    return any(key[at : at + _ECHO] in letters for key in bare for at in range(len(key) - _ECHO + 1))


def _repeats(message: str, sent: tuple[str, ...]) -> bool:
    """Return True if a message repeats 8 sent characters or a short text, with an uncommon word."""
    message = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message).casefold()
    own = list(_uncommon_words(message))
    return any(_is_quoted(message, own, " ".join(text.casefold().split())) for text in sent)


def _is_quoted(message: str, own: list[tuple[int, int]], text: str) -> bool:
    """Return True if a message repeats 8 characters, or a short text, at a word of `own`."""
    if _SHORTEST <= len(text) < _ECHO:
        return text in message and any(message[start:end] in text for start, end in own)
    return any(
        message[at : at + _ECHO] in text and (message[start:end] in text or not message[start:end].isascii())
        for start, end in own
        for at in range(max(start - _ECHO + 1, 0), min(end, len(message) - _ECHO + 1))
    )


def _uncommon_words(message: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a message's words that are neither common in errors nor a model's name."""
    named = [found.span(1) for found in _MODEL.finditer(message)]
    for word in _WORD.finditer(message):
        is_name = any(start <= word.start() and word.end() <= end for start, end in named)
        if not (is_name or word[0] in _OF_ERRORS or _NUMBER.fullmatch(word[0])):
            yield word.span()
