"""Makes any text harmless to a terminal.

Memories, paths and error texts are written by models, repositories and strangers. Whatever could move the
cursor, set the title or the clipboard, hide text or turn its direction is shown instead of obeyed, on a
terminal and in a pipe alike (a pipe often ends on a terminal). Newline and tab stay. A deny-list of
character classes, not of escape sequences: sequences have dialects, their first character does not.
"""

from __future__ import annotations

import re

_DANGEROUS = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 and DEL, without tab and newline
    "\x80-\x9f"  # C1: one-character CSI, OSC and their kin
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks, embeddings, overrides, isolates
    "\u00ad\u034f\u115f\u1160\u180b-\u180f\u3164\ufeff\uffa0"  # soft hyphen, fillers, joiners
    "\u200b-\u200d\u2060-\u2065\u206a-\u206f"  # zero width
    "\u2028\u2029\ufff9-\ufffb"  # line separators, interlinear annotation
    "\ufe00-\ufe0d\U000e0000-\U000e0fff"  # tags and variation selectors: hidden ASCII (emoji ones stay)
    "\U0001d173-\U0001d17a"  # invisible musical format
    "\ud800-\udfff"  # lone surrogates: no encoding can print them
    "]"
)
_DANGEROUS_IN_LINE = re.compile(_DANGEROUS.pattern[:-1] + "\t\n]")


def escape(text: str) -> str:
    """Text for a terminal: controls in caret form (`^[`, `M-^[`), hidden characters as `<U+202E>`."""
    return _DANGEROUS.sub(_shown, text)


def escape_line(text: str) -> str:
    """The same for one line, where newline and tab would forge a line or a column."""
    return _DANGEROUS_IN_LINE.sub(_shown, text)


def escape_json(encoded: str) -> str:
    """Encoded JSON with the same characters as hexadecimal escapes: harmless, and the same value."""
    return _DANGEROUS.sub(_json_escape, encoded)


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code < 0xA0:
        return "M-^" + chr((code - 0x80) ^ 0x40)
    return f"<U+{code:04X}>"


def _json_escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
