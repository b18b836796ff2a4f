"""Invisible characters, which would join words or hide the beginning of a line.

They are Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt), and controls that are no space.
"""

from __future__ import annotations

import re

# Controls, soft hyphen, joiners, fillers, zero width, direction, invisible operators, variants, tags.
INVISIBLE = re.compile(
    r"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
