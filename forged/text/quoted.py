"""Foreign text inside a frame of ours, so that nothing in it can pass for a part of the frame.

`quoted` puts every line behind a mark; `one_line` and `label` are for places in the frame itself. All leave
out what nobody can see and what turns text around, and of `<`, in whatever spelling, a bracket.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

TAG = "forged-memories"
MARK = ">"

_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Controls, zero-width and bidirectional marks, and characters that say in ASCII what no screen shows. What
# joins letters (U+200C, U+200D) stays: Persian and emoji need it.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_MARKS = re.compile(rf"^[ \t]*{MARK}[{MARK} \t]*", re.MULTILINE)
_UNPLAIN = re.compile(r"[^\w .:@/+-]+")
_OPENS = re.compile(rf"(<|&(?:amp;)*(?:lt|#0*60|#x0*3c);?|(?<!\\)\\+u003c)[/\\]*{TAG.replace('-', '[-_]?')}")
# Letters of other scripts, brackets and dashes that are drawn alike.
_BRACKETS = "‹〈《⟨⟪˂ᐸ❮❰≺≪«"
_ALIKE = str.maketrans(
    f"оοеѕіιԁɡցгмϻƒ{_BRACKETS}∕⁄╱⧸‐‑‒–—−﹣⁃ー", f"ooesiidggrmmf{'<' * len(_BRACKETS)}////---------"
)
# Without one of them nothing opens a tag.
_MAY_OPEN = re.compile(rf"[<＜﹤≮⊀\u2329︽︿{_BRACKETS}&＆﹠\\＼﹨]")
# What is not seen: marks on letters, joiners, controls.
_BARE = {"Mn", "Me", "Cf", "Cc"}


def quoted(text: str) -> str:
    """All lines of `text` behind the mark."""
    plain = text.rstrip()
    if plain and plain.isascii() and plain.isprintable() and not _MAY_OPEN.search(plain):
        return f"{MARK} {plain}"  # one line, in which all is seen
    lines = (_visible(line).rstrip() for line in _BREAK.split(_without_tags(text.rstrip())))
    return "\n".join(f"{MARK} {line}" if line else MARK for line in lines)


def unquoted(text: str) -> str:
    """Lines without the marks that they begin with."""
    return _MARKS.sub("", text) if MARK in text else text


def one_line(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, in one line."""
    line = _visible(_BREAK.sub(" ", text))
    return _without_tags(line if len(line) <= limit else line[: limit - 1] + "…")


def label(text: str, limit: int) -> str:
    """The same without any mark of punctuation that a frame is made of."""
    return _UNPLAIN.sub("_", one_line(text, limit))


def _visible(line: str) -> str:
    return line if line.isascii() and line.isprintable() else _UNSEEN.sub("", line)


def _without_tags(text: str) -> str:
    if not _MAY_OPEN.search(text) or (text.isascii() and "forged" not in text.lower()):
        return text
    folded = [(letter, place) for place, each in enumerate(text) for letter in _folded(each)]
    kept, start = [], 0
    for found in _OPENS.finditer("".join(letter for letter, _ in folded)):
        first, last = folded[found.start(1)][1], folded[found.end(1) - 1][1]
        kept += [text[start:first], "("]
        start = last + 1
    return "".join([*kept, text[start:]])


@lru_cache(4096)
def _folded(letter: str) -> str:
    """What a letter is read as; nothing where it is a space or is not seen."""
    plain = unicodedata.normalize("NFKD", letter).casefold().translate(_ALIKE)
    return "".join(each for each in plain if not (each.isspace() or unicodedata.category(each) in _BARE))
