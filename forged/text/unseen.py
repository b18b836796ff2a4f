"""Drop characters that take no room: they would make two words of one, or hide how a line begins.

They are Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), and controls that are no space.
"""

from __future__ import annotations

import re

_CONTROLS = r"\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
# Soft hyphen, joiners, fillers, zero width, direction, invisible operators, variants, byte order mark, tags.
_UNSEEN = re.compile(
    rf"[{_CONTROLS}\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNSEEN_ASCII = re.compile(rf"[{_CONTROLS}]")


def without_unseen(text: str) -> str:
    return (_UNSEEN_ASCII if text.isascii() else _UNSEEN).sub("", text)
