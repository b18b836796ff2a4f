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

from forged.text.linear import CJK, LinearFunction, Weights, hashed_features
from forged_client.typed import resolved

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
    """Weights of a linear function for small talk, and the bar that its value must exceed."""

    bar: float
    weights: Weights


class ChatFile(msgspec.Struct, frozen=True):
    """Model file of small talk; `data` is a hash of the training data, `engine` the vectors' model."""

    data: str
    engine: str
    by_words: ChatWeights
    by_row: ChatWeights


class ChatDetector:
    """Linear model of small talk: by a message's vector if there is one, else by its words."""

    def __init__(self, file: ChatFile) -> None:
        self._bars = file.by_words.bar, file.by_row.bar
        self._by_words, self._by_row = (
            LinearFunction(file.by_words.weights),
            LinearFunction(file.by_row.weights),
        )

    def score(self, text: str, row: Sequence[float] = ()) -> float:
        """Return a message's score of small talk, in nats above the bar; `row` is its vector, if known."""
        by_words, by_row = self._bars
        if row:
            return self._by_row.value(row, (), signs(text)) - by_row
        return self._by_words.value((), hashed_features(text), signs(text)) - by_words


def is_chat(text: str, row: Sequence[float] = ()) -> bool:
    """Return True if a short message is small talk, by its vector `row` if there is one, else its words."""
    text = text.strip()
    return 0 < len(text) <= LONGEST and _shipped_detector().score(text, row) > 0


def signs(text: str) -> tuple[float, ...]:
    """Return numbers from 0 to 2 about a text's form, to recognise small talk; the last is always 1."""
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
def _shipped_detector() -> ChatDetector:
    """Return the small-talk detector of the shipped model file, read once."""
    with open(FILE, "rb") as file:
        return ChatDetector(msgspec.msgpack.decode(file.read(), type=resolved(ChatFile)))
