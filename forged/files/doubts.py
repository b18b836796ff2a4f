"""What in a memory file was read otherwise than its writer may have meant, as sentences for `status`.

People write front matter by hand, and what is none becomes the memory's text without a complaint: `---yaml`
in place of `---`, keys before the first line of `---`, a `---` in the midst of a value. In goes a memory as
it was read, out come notes; nothing here is sure, so nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from forged.memory import Memory

_FENCE = re.compile(r"^(?:---|\.\.\.)[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(r"^([A-Za-z_]+)[ \t]*:(?=\s|$)", re.MULTILINE)
# Keys at the beginning of a text without front matter that are no accident.
_ENOUGH = 2
NO_FRONT_MATTER = "its text begins like front matter that is none"
_PLACE = "keys stand between two lines of `---` alone, the first of which begins the file"


def doubts(memory: Memory, keys: Collection[str], *, has_header: bool) -> tuple[str, ...]:
    """Notes on a memory; `has_header` says that its file has front matter, whose keys are `keys`."""
    notes = [
        f"`{key}` is no key of a memory; write `{key.lower()}`"
        for key in _KEY.findall(memory.extra)
        if key not in keys and key.lower() in keys
    ]
    if _begins_like_a_header(memory.content, keys, has_header=has_header):
        notes.append(f"{NO_FRONT_MATTER}; {_PLACE}")
    return tuple(notes)


def _begins_like_a_header(text: str, keys: Collection[str], *, has_header: bool) -> bool:
    """Whether keys of a memory stand before a line that would end front matter."""
    fence = _FENCE.search(text)
    if fence is None:
        return False
    found = _KEY.findall(text, 0, fence.start())
    if not has_header and text.startswith("---"):
        return bool(found)
    return sum(key.lower() in keys for key in found) >= (1 if has_header else _ENOUGH)
