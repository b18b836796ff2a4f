"""The sentences that a person wrote, out of a message that may hold anything.

Of the message only what was typed counts (`forged.capture.typed`); that is cut into sentences. A code span
and a quotation are never cut, each item of a list is a sentence of its own, and one that is mostly somebody
else's words is none of the person's. One pass over the text, at most one look at each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from forged.capture.pasted_lines import bare, is_list
from forged.capture.typed import Piece, pieces, words

# A line that long was wrapped by an editor; after a shorter one the person began a new thought.
WRAPPED = 60

_SPACE = re.compile(r"(`+[^`\n]*`+)|\s+")
_QUOTE = r"""(?: "[^"\n]{0,300}" | “[^”\n]{0,300}” | „[^“”\n]{0,300}[“”] | «[^»\n]{0,300}»
    | 「[^」\n]{0,300}」 | 『[^』\n]{0,300}』 )"""
_QUOTATION = re.compile(_QUOTE, re.VERBOSE)
_END = re.compile(
    rf"""
      (?P<end>(?<=[:：]\s){_QUOTE}(?<=[.!?…。！？]["”“»」』])(?=\s) | [.!?…]+(?=[\s"')]|$) | [。！？]+ | \n)
    | `+[^`\n]*`+ | {_QUOTE}                                                   # stays whole
    | \b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl|z\.B|bzw|d\.h|p\.ej|p\.ex|par\sex)\.(?=\s\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Of a sentence, by characters: beyond it the sentence tells what somebody else said.
_MOST_QUOTED, _LEAST_QUOTED = 0.45, 24
_LEAST_BLANKS = 3
_SPACED, _IDEOGRAPH = re.compile(r"\s"), re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def sentences(text: str) -> Iterator[str]:
    """Yield the person's sentences of a message in order, with their end marks, blank space made single."""
    for piece in pieces(text):
        yield from sentences_of(piece)


def sentences_of(piece: Piece) -> Iterator[str]:
    """Those of one piece; none of one that is foreign or of a brief."""
    if piece.of in ("foreign", "brief"):
        return
    if is_list(piece.lines):
        paragraph = "".join(f"{bare(line)}\n" for line in piece.lines)
    else:
        paragraph = _unwrapped(piece.lines)
    yield from (each for part in _cut(paragraph) for each in _tidy(part) if not _is_quoted(each))


def parts_of(piece: Piece) -> list[str]:
    """Return the sentences of a piece with their end marks and the blank space behind: together its text."""
    text = "\n".join(piece.lines) if is_list(piece.lines) else _unwrapped(piece.lines).rstrip()
    return [part for part in _cut(text) if part]


def _unwrapped(lines: Sequence[str]) -> str:
    return "".join(f"{line} " if len(line) >= WRAPPED else f"{line}\n" for line in lines)


def _cut(paragraph: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(paragraph):
        if match["end"] is not None:
            yield paragraph[start : match.end()]
            start = match.end()
    yield paragraph[start:]


def _tidy(piece: str) -> Iterator[str]:
    sentence = _SPACE.sub(lambda found: found[1] or " ", piece).strip()
    if sentence.strip(".!?…。！？"):
        yield sentence


def _is_quoted(sentence: str) -> bool:
    """Whether most of a sentence is a quotation, and what stands around it does not ask to keep that."""
    quotations = [each for each in _QUOTATION.findall(sentence) if _is_speech(each)]
    quoted = sum(map(len, quotations))
    if quoted < _MOST_QUOTED * len(sentence) or sum(map(_width, quotations)) < _LEAST_QUOTED:
        return False
    return words().announces.search(_QUOTATION.sub("", sentence)) is None


def _is_speech(quotation: str) -> bool:
    """Whether it holds words, as somebody says them, and is no name or pattern."""
    return len(_SPACED.findall(quotation)) >= _LEAST_BLANKS or _IDEOGRAPH.search(quotation) is not None


def _width(quotation: str) -> int:
    return len(quotation) + len(_IDEOGRAPH.findall(quotation))
