"""What people said that was likely and not sure to be worth keeping: the next word about it tells.

Of each root the newest texts, in the memory of the daemon alone: a restart forgets them, and nobody is ever
shown one. A text that takes the place of one of them is worth keeping: who says another thing about the same
means it to last. From then on it stands for the first one, so that a third word about that comes to it.
Nothing is raised.
"""

from __future__ import annotations

from forged.capture.rules.newest import replaced_by
from forged.files import Root

# Of a root, and roots.
_MOST, _MOST_ROOTS = 40, 64


class Likely:
    """One for the daemon."""

    def __init__(self) -> None:
        self._texts: dict[Root, dict[str, str]] = {}  # and what stands for each, at first itself

    def add(self, root: Root, text: str) -> None:
        """Hold on to a text, of a root that counts as the newest from now on."""
        texts = self._texts[root] = self._texts.pop(root, {})
        texts.setdefault(text, text)
        if len(texts) > _MOST:
            del texts[next(iter(texts))]
        if len(self._texts) > _MOST_ROOTS:
            del self._texts[next(iter(self._texts))]

    def like(self, root: Root, content: str, *, doubt: float = 0.0) -> str | None:
        """Return the text whose place another one takes, against so much doubt."""
        older = [text for text in self._texts.get(root, ()) if text != content]
        place = replaced_by(content, older, doubt=doubt)
        return None if place is None else older[place]

    def stands(self, root: Root, text: str) -> str:
        """Return what stands for a text now."""
        return self._texts[root][text]

    def take(self, root: Root, text: str, content: str) -> None:
        """Have `content` stand for a text."""
        self._texts[root][text] = content
