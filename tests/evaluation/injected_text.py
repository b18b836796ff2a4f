"""Memories of a store in an injected text, and the tokens of the text.

Nothing is believed of what a reply says about its memories: one stands where its whole content does, whatever
frame and quotes are around it. A line in brackets is a note, and neither its text nor the line of an older
version that it names counts as a memory.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from itertools import takewhile

import msgspec

from tests.evaluation.dataset import Item

BYTES_PER_TOKEN = 4
_NO_WORD = re.compile(r"[\W_]+")
_NOTE = re.compile(r"^\(replaces:\)(?:\n>.*)+$|^\(.*\)$", re.MULTILINE)


class Parts(msgspec.Struct, frozen=True):
    """Tokens of a text, a quarter of its bytes: of pinned memories, of searched ones, and of all else."""

    pinned: float = 0.0
    searched: float = 0.0
    frame: float = 0.0

    @property
    def total(self) -> float:
        return self.pinned + self.searched + self.frame


class Reader:
    """Finds the memories of one store in texts."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = {item.memory.id: item.memory.content for item in items}
        self._squeezed = {name: _squeezed(content) for name, content in self._items.items()}

    def found(self, text: str) -> tuple[str, ...]:
        """Ids of the memories that stand in a text, in its order."""
        held = _squeezed(_NOTE.sub("", text))
        places = {name: held.find(content) for name, content in self._squeezed.items()}
        return tuple(sorted((name for name in places if places[name] >= 0), key=places.__getitem__))

    def parts(self, text: str, pinned: frozenset[str]) -> Parts:
        """What a text costs, by what stands in it."""
        found = self.found(text)
        kept = sum(self._tokens(name) for name in found if name in pinned)
        searched = sum(self._tokens(name) for name in found if name not in pinned)
        return Parts(kept, searched, max(0.0, tokens(text) - kept - searched))

    def _tokens(self, name: str) -> float:
        return tokens(self._items[name].strip())


def beyond(text: str, before: str) -> str:
    """The lines of a text after those that it begins with as another did."""
    pairs = zip(text.splitlines(keepends=True), before.splitlines(keepends=True), strict=False)
    return text[sum(len(line) for line, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) :]


def tokens(text: str) -> float:
    """What a text costs, about."""
    return len(text.encode()) / BYTES_PER_TOKEN


def _squeezed(text: str) -> str:
    return _NO_WORD.sub("", html.unescape(text))
