"""Recognise small talk: thanks, laughter, messages that no memory could help with.

A trained linear function (`make linear-models`) takes a message and, if the local model has read it, its
vector without the last layer. A wrong yes costs a wanted memory, so the bar is high: of 210 short messages
about work two count as small talk. Raises msgspec.MsgspecError for an invalid file, and ValueError for a
vector of another size.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

import msgspec

from forged.text.linear import CJK, LinearFunction, Weights, pieces

FILE = os.path.join(os.path.dirname(__file__), "chat.bin")
# Longest small talk in characters.
LONGEST = 160
SIGNS = 12

_WORDS = re.compile(r"[^\W_]+")
_NAMED = re.compile(r"\w[./_:\\]\w|[a-z][A-Z]|[(){}<>=`$|]")
_SMILES = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]|[:;]-?[)D(]|\\bx[dD]\\b|\\^\\^")
_ASKS = re.compile(r"[?？]\s*$")
_MANY_WORDS, _FEW_WORDS = 20, 2


class ChatWeights(msgspec.Struct, frozen=True):
    """Weights and bar of small talk."""

    bar: float
    weights: Weights


class ChatFile(msgspec.Struct, frozen=True):
    """Shipped model file. `data` is a hash of the training data, `engine` names the model of the vectors."""

    data: str
    engine: str
    by_words: ChatWeights
    by_row: ChatWeights


class ChatDetector:
    """Scores messages as small talk."""

    def __init__(self, file: ChatFile) -> None:
        self._bars = file.by_words.bar, file.by_row.bar
        self._by_words, self._by_row = (
            LinearFunction(file.by_words.weights),
            LinearFunction(file.by_row.weights),
        )

    def score(self, text: str, row: Sequence[float] = ()) -> float:
        """Return the score of small talk above its bar, in nats."""
        by_words, by_row = self._bars
        if row:
            return self._by_row.at(row, (), signs(text)) - by_row
        return self._by_words.at((), pieces(text), signs(text)) - by_words


def is_chat(text: str, row: Sequence[float] = ()) -> bool:
    """Return True for small talk, by the message's vector if there is one."""
    text = text.strip()
    return 0 < len(text) <= LONGEST and _shipped().score(text, row) > 0


def signs(text: str) -> tuple[float, ...]:
    """Return features of a text's form, from 0 to 2; the last is always 1."""
    words = len(text) / 2 if CJK.search(text) else len(_WORDS.findall(text))
    return (
        _ASKS.search(text) is not None,
        "?" in text or "？" in text,
        min(len(text), LONGEST) / (LONGEST / 2),
        min(words, _MANY_WORDS) / (_MANY_WORDS / 2),
        words <= _FEW_WORDS,
        any(map(str.isdigit, text)),
        _NAMED.search(text) is not None,
        _SMILES.search(text) is not None,
        "!" in text or "！" in text,
        "\n" in text,
        "..." in text or "…" in text,
        1.0,
    )


@functools.cache
def _shipped() -> ChatDetector:
    """Return the shipped model, read once."""
    with open(FILE, "rb") as file:
        return ChatDetector(msgspec.msgpack.decode(file.read(), type=ChatFile))
