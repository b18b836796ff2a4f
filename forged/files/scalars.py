"""Texts as they are written as values of front matter. Nothing is raised.

The three styles follow go-yaml v3's emitter, whose quoting no general dumper has. Beyond it `=` and `<<` are
quoted, because a YAML 1.1 reader gives them a meaning, and text with line ends is escaped instead of becoming
a `|` block.
"""

from __future__ import annotations

import math
import re
from functools import cache

_ASCII_ESCAPED = re.compile("[^\x20-\x7e]")
_NEEDS_QUOTES = re.compile(r"[#,\[\]{}&*!|>'\"%@` ]|[-?:](?: |\Z)|---|\.\.\.|.*(?:: |:\Z| #| \Z)", re.DOTALL)
_WORD_WITH_TYPE = re.compile(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|=|<<|\.nan|\.NaN|\.NAN|[-+]?\.(?:inf|Inf|INF)"
    r"|[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
)
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+"
    r"|[-+]?0(?:[xX][0-9a-fA-F]*|[oO][0-7]*|[bB][01]*)"
    r"|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"  # base 60
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.Zz+ -]*)?")
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


@cache  # the wide class takes 6 ms to compile: not at the start of a daemon
def _escaped() -> re.Pattern[str]:
    return re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def scalar(text: str) -> str:
    """Return a text as the value of a key. What UTF-8 cannot hold becomes `?`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    escaped = _ASCII_ESCAPED if text.isascii() else _escaped()
    if escaped.search(text) or _reads_as_another_type(text):
        return '"' + re.sub(rf'["\\]|{escaped.pattern}', _escape, text) + '"'
    if _NEEDS_QUOTES.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _reads_as_another_type(text: str) -> bool:
    digits = text.replace("_", "")
    if _WORD_WITH_TYPE.fullmatch(text) or _NUMBER.fullmatch(digits) or _DATE.fullmatch(text):
        return True
    # go-yaml takes 1e5 for a number and 1e400 for text; session ids of hex digits can look like either.
    return _EXPONENT.fullmatch(digits) is not None and math.isfinite(float(digits))


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
