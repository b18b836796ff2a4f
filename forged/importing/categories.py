"""Map kinds and headings of other programs to the six categories.

It reads headings and kinds of notes and observations. Only whole words count, and the first list that fits
wins. Anything else gets the default of its scope.
"""

from __future__ import annotations

import re

from forged.memory import Category

_WORDS: tuple[tuple[Category, str], ...] = (
    (
        Category.CORRECTIONS,
        """correction corrections mistake mistakes gotcha gotchas pitfall pitfalls bugfix bug fix issue
        problem lesson lessons learned learnings avoid never dont donts warning warnings caveat caveats""",
    ),
    (
        Category.ARCHITECTURAL_DECISIONS,
        """architecture architectural decision decisions design adr overview structure stack layout schema
        infrastructure discovery feature refactor""",
    ),
    (
        Category.CODING_PREFERENCES,
        """style styles styling preference preferences prefer formatting format naming lint linting idioms
        taste tone""",
    ),
    (
        Category.PATTERNS,
        """pattern patterns recipe recipes technique method workflow workflows tip tips howto approach
        troubleshooting debugging solution how""",
    ),
    (
        Category.USER_FACTS,
        "user users person people about me personal profile fact facts biography family added memories",
    ),
    (
        Category.PROJECT_CONVENTIONS,
        """convention conventions rule rules guideline guidelines standard standards requirement requirements
        constraint command commands build test tests testing deployment release git commit commits project""",
    ),
)
_BY_WORD = {word: category for category, words in _WORDS for word in words.split()}
_WORD = re.compile(r"[a-z]+")


def category_of(*said: str) -> str:
    """Return the category that words of kinds or headings name, the last text first, or ""."""
    for text in reversed(said):
        words = _WORD.findall(text.lower().replace("'", "").replace("’", ""))
        known = [_BY_WORD[word] for word in words if word in _BY_WORD]
        if known:
            return min(known, key=_rank).value
    return ""


def _rank(category: Category) -> int:
    """Return the place of a category in the order of preference."""
    return next(rank for rank, (each, _) in enumerate(_WORDS) if each is category)
