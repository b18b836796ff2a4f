"""Part a message into typed, unsure and foreign pieces, and cut sentences of the typed ones.

In: the text of a user's message without what a harness put there. `weighing` judges its blocks. From a
sentence on that gives a role or a task ("You are agent 3 of 8"), a message is the brief of a script. A code
span and a quotation are never cut, each item of a list is a sentence, and a sentence that is mostly quoted is
none of the person's. Unseen characters are left out. Linear in the length of the text; raises nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import msgspec

from forged.capture.forms import FENCE, bare, is_formed, is_item, is_list, words
from forged.capture.forwarded import is_others, talk
from forged.capture.weighing import QUOTED, Of, weighed
from forged.conversation import Utterance
from forged.text.unseen import UNSEEN

# Characters of the longest message that somebody typed. Of a longer one, a specification or a file, the
# person's own words stand at the start or at the end.
TYPED = 6_000

# Before a sentence that is the first of a brief, and between what appoints somebody and the role.
_BEGINS = r"(?:\A|\n|(?<=[.!?…:;]\s)|(?<=[。！？；：]))[\s>#*_\-–•\d.)]{0,8}"
_ENDS_ROLE = "we|our|us|i|my|please|remember|always|never|use|who|which|because"
_BETWEEN = rf"(?:(?!\b(?:{_ENDS_ROLE})\b)[^.!?;:。！？\n]){{0,60}}?"

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


class Piece(msgspec.Struct, frozen=True):
    """Lines of a message in their order, without the blank lines around them."""

    lines: tuple[str, ...]
    of: Of = "typed"

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def pieces(text: str, *, begun: bool = False, goes_on: bool = False) -> tuple[Piece, ...]:
    """All pieces of a message, or of a part: the rest of one `begun`, the beginning of one that `goes_on`."""
    return _before_brief(_pieces(text, begun=begun, goes_on=goes_on))


def _pieces(text: str, *, begun: bool, goes_on: bool) -> tuple[Piece, ...]:
    blocks = [*_blocks(UNSEEN.sub("", text))]
    if len(blocks) == 1 and len(blocks[0]) == 1 and not _has_form(blocks[0][0]) and len(text) <= TYPED:
        return (Piece(blocks[0]),) if not (begun or goes_on) else (Piece(blocks[0], "foreign"),)
    blocks, others = talk(blocks)
    points = weighed(blocks, others)
    inner = range(0 if begun else 1, len(blocks) - (0 if goes_on else 1))
    is_long = begun or goes_on or len(text) > TYPED
    return tuple(
        Piece(block, "foreign" if is_long and place in inner else found)
        for place, (block, found) in enumerate(zip(blocks, points, strict=True))
    )


def _before_brief(found: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The pieces of a message, parted where a brief begins, which is all that follows.

    In code and quotations stand the briefs that a person works on.
    """
    for place, piece in enumerate(found):
        begins = None if _is_shown(piece) else _brief().search(piece.text)
        if begins is None:
            continue
        before = tuple(piece.text[: begins.start()].splitlines())
        rest = tuple(piece.text[begins.start() :].strip("\n").splitlines())
        own = (Piece(before, piece.of),) if any(map(str.strip, before)) else ()
        briefs = (Piece(each.lines, "brief") for each in found[place + 1 :])
        return (*found[:place], *own, Piece(rest, "brief"), *briefs)
    return found


def _is_shown(piece: Piece) -> bool:
    marked = FENCE.match(piece.lines[0]) or any(line.lstrip().startswith(">") for line in piece.lines)
    return bool(marked) or QUOTED.match(piece.text) is not None


@functools.cache
def _brief() -> re.Pattern[str]:
    told = words()
    role = f"(?:{told['appoints'].pattern}){_BETWEEN}(?<![a-zà-ÿ])(?:{told['roles'].pattern})(?![a-zà-ÿ])"
    return re.compile(f"{_BEGINS}(?:{role}|{told['briefs'].pattern})", re.IGNORECASE)


def pieces_of(
    window: Sequence[Utterance], *, begun: bool, goes_on: bool
) -> Iterator[tuple[int, tuple[Piece, ...]]]:
    """The place of each message of the user and its pieces; `begun` and `goes_on` are those of the event.

    The first message may be the rest of one, and the last one the beginning of one.
    """
    last = len(window) - 1
    for place, each in enumerate(window):
        if each.role == "user":
            yield place, pieces(each.text, begun=begun and not place, goes_on=goes_on and place == last)


def marked(text: str, found: Sequence[Piece]) -> str:
    """The message that these pieces are of, every line that was pasted behind the mark of a quotation."""
    pasted = {line for piece in found if piece.of != "typed" for line in piece.lines}
    lines = _with_brief_apart(UNSEEN.sub("", text), found).splitlines()
    return "\n".join(f"> {line}" if line in pasted else line for line in lines) if pasted else text


def _with_brief_apart(text: str, found: Sequence[Piece]) -> str:
    """The message with a line break where its brief begins in the midst of a line."""
    first = next((piece.lines[0] for piece in found if piece.of == "brief"), "")
    before, brief, behind = text.partition(first) if first else (text, "", "")
    own = before.rstrip(" ")
    return f"{own}\n{brief}{behind}" if brief and own and own[-1] != "\n" else text


def _has_form(line: str) -> bool:
    return is_formed(line) or is_item(line) or (any(map(str.isdigit, line)) and is_others(line))


def _blocks(text: str) -> Iterator[tuple[str, ...]]:
    """Runs of lines between blank lines; what is fenced, to the end where no fence ends it, is one."""
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            block.append(line)
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                yield tuple(block)
                block, fence = [], ""
        elif mark or not line.strip():
            if block:
                yield tuple(block)
            block, fence = ([line], mark[1]) if mark else ([], "")
        else:
            block.append(line)
    if block:
        yield tuple(block)


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
    return words()["announces"].search(_QUOTATION.sub("", sentence)) is None


def _is_speech(quotation: str) -> bool:
    """Whether it holds words, as somebody says them, and is no name or pattern."""
    return len(_SPACED.findall(quotation)) >= _LEAST_BLANKS or _IDEOGRAPH.search(quotation) is not None


def _width(quotation: str) -> int:
    return len(quotation) + len(_IDEOGRAPH.findall(quotation))
