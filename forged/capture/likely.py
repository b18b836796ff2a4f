"""What people said that is not sure to be worth keeping: the next word about it tells.

Of each root the newest texts, with how much speaks against each, in the memory of the daemon alone: a restart
forgets them, and nobody is ever shown one. A text that takes the place of one of them is worth keeping: who
says another thing about the same means it to last. From then on it stands for the first one, so that a third
word about that comes to it. Nothing is raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from forged.capture.rules.replacement import NO_ROWS, RowsOf, replaced_by
from forged.files import Root

# Of a root, in doubt and without, and roots.
_MOST, _MOST_ROOTS = 40, 64
# Nats: nothing that anybody was shown is hidden by a mistake here.
_SAFE = 0.25


class Held(msgspec.Struct, frozen=True):
    """A text that was said of a root, what spoke against it, and what `stands` for it, at first itself."""

    root: Root
    text: str
    doubt: float = 0.0
    stands: str = ""


class Likely:
    """One for the daemon."""

    def __init__(self) -> None:
        self._held: dict[Root, dict[str, Held]] = {}

    def add(self, root: Root, text: str, *, doubt: float = 0.0) -> None:
        """Hold on to a text, of a root that counts as the newest from now on."""
        held = self._held[root] = self._held.pop(root, {})
        held.setdefault(text, Held(root, text, doubt, text))
        alike = [each.text for each in held.values() if bool(each.doubt) == bool(doubt)]
        if len(alike) > _MOST:
            del held[alike[0]]
        if len(self._held) > _MOST_ROOTS:
            del self._held[next(iter(self._held))]

    def texts(self, roots: Sequence[Root]) -> list[str]:
        """Return all that is held of the roots."""
        return [text for root in roots for text in self._held.get(root, {})]

    def like(
        self, roots: Sequence[Root], content: str, *, rows: RowsOf = NO_ROWS, doubt: float = 0.0
    ) -> Held | None:
        """Return the text of any of the roots whose place another one takes, against so much doubt."""
        of_all = [each for root in roots for each in self._held.get(root, {}).values()]
        older = [each for each in of_all if each.text != content]
        doubts = [each.doubt for each in older]
        # Of what was hardly meant to last few are like another thing by accident.
        among = max(1.0, sum(math.exp(-each) for each in doubts))
        texts, doubt = [each.text for each in older], doubt - _SAFE
        place = replaced_by(content, texts, rows=rows, doubt=doubt, doubts=doubts, among=among)
        return None if place is None else older[place]

    def take(self, held: Held, content: str) -> None:
        """Have `content` stand for a text."""
        self._held[held.root][held.text] = Held(held.root, held.text, stands=content)
