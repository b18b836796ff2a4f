"""Whether a proposal stands on what a person typed, or on text that was pasted beside it.

In goes the window of an event, then one proposal after the other, of rules or of a model, which was shown all
of it and may take a pasted order for the person's. Out comes whose it is:

- `foreign` is what was pasted, or quoted by the assistant, where nobody typed a word of it or asked for
  something to be kept.
- `mixed` has words that only foreign text has, a model's a single one, or is a model's of which less than two
  fifths were typed: it waits for a person.
- Beside a brief (`typed`) what would be mixed is foreign: nobody is asked about what a script was told.
- `ours` is everything else. What the assistant proposed and somebody agreed to counts as typed.

Words are compared by their beginnings, as a model puts them into other forms, but for the commonest of each
language and without characters that nobody sees. A number that was pasted counts as a lean, and a translation
shares no word with what was typed. Nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from forged.capture.languages import COMMON
from forged.capture.rules.requests import asks
from forged.capture.statements import statements
from forged.capture.typed import Piece, pieces_of
from forged.conversation import Utterance
from forged.text.same_text import content_words
from forged.text.unseen import without_unseen

# Of words that are found in foreign text alone; one may be chance, unless it is a number or a name with one.
_LEAST = 2
# Of a model's words, what must have been typed where something was pasted. Measured on tests/data/said/dev
# beside code and logs: of what people order in a model's words a twelfth waits; at half, and by whole words,
# a fifth did.
_TYPED = 0.4
_BEGINNING = 5
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
# Characters of what a person is shown of the text beside a proposal.
_SHOWN = 1_200

Whose = Literal["ours", "mixed", "foreign"]


class Origins:
    """The words of one window, told apart by whose they are; `begun` and `goes_on` are those of its event."""

    def __init__(self, window: Sequence[Utterance], *, begun: bool = False, goes_on: bool = False) -> None:
        own = pieces_of(window, begun=begun, goes_on=goes_on)
        found = [piece for _, pieces in own for piece in pieces]
        typed = [piece.text for piece in found if piece.of == "typed"]
        self._pasted = [piece for piece in found if piece.of != "typed"]
        self._pasted += [piece for each in window if each.role == "assistant" for piece in _quoted(each.text)]
        said = statements(window, begun=begun, goes_on=goes_on) if self._pasted else ()
        agreed = [each.whole for each in said if not each.is_mixed]
        self._typed = words_said((*typed, *agreed))
        self._unsure = words_said(piece.text for piece in found if piece.of == "unsure") - self._typed
        self._foreign = words_said(piece.text for piece in self._pasted) - self._typed
        self._is_asked = any(map(asks, typed))
        self._brief = words_said(piece.text for piece in found if piece.of == "brief") - self._typed

    def whose(self, content: str, *, by_model: bool) -> Whose:
        """Whose words a proposal is made of."""
        if not self._pasted:
            return "ours"
        said = words_said((content,))
        found = self._whose(said, by_model=by_model)
        is_of_brief = self._brief and (said & self._brief or not said & self._unsure)
        return "foreign" if found == "mixed" and is_of_brief else found

    def _whose(self, said: frozenset[str], *, by_model: bool) -> Whose:
        foreign, typed = said & self._foreign, said & self._typed
        if len(foreign) >= _LEAST or any(map(_is_name, foreign)):
            may_be_meant = self._is_asked or typed or not said.isdisjoint(self._unsure)
            return "mixed" if may_be_meant else "foreign"
        return "mixed" if by_model and (foreign or len(typed) < _TYPED * len(said)) else "ours"

    def beside(self, content: str) -> str:
        """What was pasted, that first of which a proposal has words."""
        said = words_said((content,))

        def strangeness(piece: Piece) -> int:
            return -len(said & words_said((piece.text,)))

        return "\n\n".join(_short(sorted(self._pasted, key=strangeness)))


def _quoted(text: str) -> Iterator[Piece]:
    """What the assistant quotes is nobody's word here; what it says itself may be agreed to."""
    if lines := tuple(line for line in text.splitlines() if line.lstrip().startswith(">")):
        yield Piece(lines, "foreign")


def _short(found: Iterable[Piece]) -> Iterator[str]:
    left = _SHOWN
    for piece in found:
        if left > 0:
            yield piece.text if len(piece.text) <= left else f"{piece.text[: left - 1]}…"
            left -= len(piece.text)


def _is_name(word: str) -> bool:
    return any(character.isdigit() for character in word)


def words_said(texts: Iterable[str]) -> frozenset[str]:
    """Return the beginnings of words; of Chinese and Japanese, all pairs of characters."""
    found: set[str] = set()
    for text in map(without_unseen, texts):
        words = (word for word in content_words(_IDEOGRAPHS.sub(" ", text)) if word not in COMMON)
        found.update(word if _is_name(word) else word[:_BEGINNING] for word in words)
        for run in _IDEOGRAPHS.findall(text):
            found.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(found)
