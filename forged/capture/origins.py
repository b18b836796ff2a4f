"""Whether a proposal stands on what a person typed, or on text that was pasted beside it.

In goes the window of an event, then one proposal after the other, of rules or of a model, which was shown all
of it and may take a pasted order for the person's. A proposal stands on foreign text if more of what it says
is found there alone than in typed words. Nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from forged.capture.typed import pieces
from forged.conversation import Utterance
from forged.text.same_text import content_words

# Of words that are found in foreign text alone; one may be chance.
_LEAST = 2
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")


class Origins:
    """The words of one window, told apart by whose they are."""

    def __init__(self, window: Sequence[Utterance]) -> None:
        found = [piece for each in window if each.role == "user" for piece in pieces(each.text)]
        self._typed = _words(piece.text for piece in found if piece.of == "typed")
        self._foreign = _words(piece.text for piece in found if piece.of != "typed") - self._typed

    def are_foreign(self, content: str) -> bool:
        """Whether what a proposal says was pasted and not typed."""
        if not self._foreign:
            return False
        said = _words((content,))
        foreign = len(said & self._foreign)
        return foreign >= _LEAST and foreign > len(said & self._typed)


def _words(texts: Iterable[str]) -> frozenset[str]:
    """Words, of Chinese and Japanese all pairs of characters, which stand for them."""
    found: set[str] = set()
    for text in texts:
        found.update(content_words(_IDEOGRAPHS.sub(" ", text)))
        for run in _IDEOGRAPHS.findall(text):
            found.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(found)
