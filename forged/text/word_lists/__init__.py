"""Lists of words and sentences in plain files: in NAME.txt each list follows a line `[its name]`.

The module that uses a file reads it once when imported. It explains the purpose of a list and intended
omissions.
"""

from __future__ import annotations

import os
import re


def lists(name: str) -> dict[str, str]:
    """Return the lists of the file NAME.txt by name, each as a text; `split()` gives its words."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.txt"), encoding="utf-8") as file:
        _, *parts = re.split(r"^\[(\w+)\]\n", file.read(), flags=re.MULTILINE)
    return {each: text.strip() for each, text in zip(parts[::2], parts[1::2], strict=True)}
