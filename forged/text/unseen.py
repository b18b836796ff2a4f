"""Characters that take no room: they would make two words of one, or hide the mark that a line begins with.

Goes in: any text. Comes out: the same without them. Nothing is raised.
"""

from __future__ import annotations

import re

# Soft hyphen, zero width, direction, invisible operators, variants, byte order mark, tags.
_UNSEEN = re.compile(
    r"[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)


def without_unseen(text: str) -> str:
    """The text as it is seen."""
    return text if text.isascii() else _UNSEEN.sub("", text)
