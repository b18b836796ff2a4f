"""Lists of words and of sentences, as plain files: NAME.txt holds nothing else.

Read once, by the module that uses a list, while it is imported. What a list is for, and what is missing in it
on purpose, stands in that module.
"""

from __future__ import annotations

import os


def lines(name: str) -> tuple[str, ...]:
    """Return the lines of a list."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.txt"), encoding="utf-8") as file:
        return tuple(file.read().splitlines())


def words(name: str) -> tuple[str, ...]:
    """Return the words of a list, however they stand on its lines."""
    return tuple(" ".join(lines(name)).split())
