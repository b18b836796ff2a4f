"""The pieces of a message that its author typed or pasted, and the sentences of those that were typed.

In goes the text of a user's message without what a harness put there, out come its pieces in order, each of
them typed, foreign, or unsure. Nobody says where a paste begins, so each block between blank lines is
weighed:

- Lines of a form settle it: code, logs, diffs, tables, quotes, heads of mails and tickets, a chat's lines,
  what a colon introduces, all between a salutation and a signature, what others said (`forwarded`).
- What stands beside a line that says where it comes from is that; what stands beside a line that asks for
  something to be done with a text mostly is that text, surely so if it reads like a document, is in another
  language, or speaks of agents and users in the third person.
- One of these alone leaves it unsure: it may be a person's word, and as an order it waits for one.

From a sentence on that gives a role or a task ("You are agent 3 of 8"), a message is the brief of a script.

`sentences` cuts what was typed: a code span and a quotation are never cut, each item of a list is a sentence
of its own, and one that is mostly somebody else's words is none of the person's.

Characters that nobody sees are left out of the pieces. The words are data, `[segments]` of `authorship.toml`.
The time taken is linear in the length of the text; nothing is raised.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from forged.capture.forwarded import (
    FENCE,
    Said,
    bare,
    is_chat,
    is_formed,
    is_item,
    is_list,
    is_others,
    is_table,
    language,
    table,
    talk,
)
from forged.conversation import Utterance
from forged.text.unseen import without_unseen

# Characters of the longest message that somebody typed. Of a longer one, a specification or a file, the
# person's own words stand at the start or at the end.
TYPED = 6_000
# Characters of the longest block that asks for something, and of the shortest that reads like a document.
_ASKS, _DOCUMENT = 160, 50
_SEEN = 1_200
# Of the longest that does so by pointing at something alone.
_BARE = 70
_QUESTION = re.compile(
    r"[?？]|^(?:what|why|how|where|was|wie|wo|warum|wieso|que|qué|por|pourquoi|où|o que)\b|吗|呢|啥|か$",
    re.IGNORECASE | re.MULTILINE,
)
_FOREIGN, _UNSURE = 3, 2
_OTHERS: dict[Said, int] = {"": 0, "unsure": _UNSURE, "foreign": _FOREIGN}
_QUOTED = re.compile(r'\A\s*(?:"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|「[^」]+」|『[^』]+』)[.,;。]?\s*\Z')
_BOOKISH = re.compile(r"\W{0,3}(?:[A-ZÄÖÜÀ-ÖØ-Þ]|[\u3040-\u30ff\u4e00-\u9fff]).*[.。!！:…]\s*\Z", re.DOTALL)
_COLON = re.compile(r"[:：]\s*$")
_OWN = re.compile(
    r"\b(?:I|I'm|my|me|ich|mein\w*|mir|mich|yo|mis?|je|j'|mon|ma|mes|eu|meus?|minhas?)\b|我|私|俺|僕",
    re.IGNORECASE,
)

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

Of = Literal["typed", "unsure", "foreign", "brief"]


class PasteWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, one pattern of each table."""

    prefixes: re.Pattern[str]
    headers: re.Pattern[str]
    salutes: re.Pattern[str]
    signs: re.Pattern[str]
    sources: re.Pattern[str]
    handles: re.Pattern[str]
    points: re.Pattern[str]
    agents: re.Pattern[str]
    announces: re.Pattern[str]
    appoints: re.Pattern[str]
    roles: re.Pattern[str]
    briefs: re.Pattern[str]


@functools.cache
def words() -> PasteWords:
    """All of them; read once, when the first message with more than a line comes."""
    return msgspec.convert(
        table("segments"), PasteWords, dec_hook=lambda _, found: re.compile("|".join(found), re.IGNORECASE)
    )


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
    """All pieces, as if no message was a brief."""
    blocks = [*_blocks(without_unseen(text))]
    if len(blocks) == 1 and len(blocks[0]) == 1 and not _has_form(blocks[0][0]) and len(text) <= TYPED:
        return (Piece(blocks[0]),) if not (begun or goes_on) else (Piece(blocks[0], "foreign"),)
    blocks, others = talk(blocks)
    points = _weighed(blocks, others)
    inner = range(0 if begun else 1, len(blocks) - (0 if goes_on else 1))
    is_long = begun or goes_on or len(text) > TYPED
    return tuple(
        Piece(block, "foreign" if is_long and place in inner else _of(found))
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
    """Return True if a piece is code or a quotation."""
    marked = FENCE.match(piece.lines[0]) or any(line.lstrip().startswith(">") for line in piece.lines)
    return bool(marked) or _QUOTED.match(piece.text) is not None


@functools.cache
def _brief() -> re.Pattern[str]:
    told = words()
    role = f"(?:{told.appoints.pattern}){_BETWEEN}(?<![a-zà-ÿ])(?:{told.roles.pattern})(?![a-zà-ÿ])"
    return re.compile(f"{_BEGINS}(?:{role}|{told.briefs.pattern})", re.IGNORECASE)


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
    lines = _with_brief_apart(without_unseen(text), found).splitlines()
    return "\n".join(f"> {line}" if line in pasted else line for line in lines) if pasted else text


def _with_brief_apart(text: str, found: Sequence[Piece]) -> str:
    """The message with a line break where its brief begins in the midst of a line."""
    first = next((piece.lines[0] for piece in found if piece.of == "brief"), "")
    before, brief, behind = text.partition(first) if first else (text, "", "")
    own = before.rstrip(" ")
    return f"{own}\n{brief}{behind}" if brief and own and own[-1] != "\n" else text


def _has_form(line: str) -> bool:
    return is_formed(line) or is_item(line) or is_others(line)


def _of(points: int) -> Of:
    if points >= _FOREIGN:
        return "foreign"
    return "unsure" if points >= _UNSURE else "typed"


def _weighed(blocks: Sequence[tuple[str, ...]], others: Sequence[Said]) -> list[int]:
    """What speaks for each block being foreign, by the beginning of its lines, and `others` said it."""
    blocks = [tuple(line[:_SEEN] for line in block) for block in blocks]
    points = [max(_by_itself(block), _OTHERS[said]) for block, said in zip(blocks, others, strict=True)]
    for place in _letters(blocks):
        points[place] = _FOREIGN
    for place, block in enumerate(blocks[:-1]):
        if _is_head(block):  # what stands below the head of a mail or ticket
            points[place + 1] = _FOREIGN
        elif _COLON.search(block[-1]) and points[place] < _FOREIGN:
            points[place + 1] = _introduced(block[-1], blocks[place + 1], points[place + 1])
    asks = _asking(blocks, points)
    tells = [points[at] < _FOREIGN and _tells_source(block) for at, block in enumerate(blocks)]
    mother = next((language("\n".join(each)) for at, each in enumerate(blocks) if asks[at] or tells[at]), "")
    if not (has_asks := any(asks)) and not any(tells):
        return points
    has_source = any(tells)
    for place, block in enumerate(blocks):
        if asks[place] or tells[place] or points[place] >= _FOREIGN or _is_own(block):
            continue
        points[place] += _beside(block, mother, asks=has_asks, tells=has_source)
    return points


def _asking(blocks: Sequence[tuple[str, ...]], points: Sequence[int]) -> list[bool]:
    """Which blocks are a request; one that only points at something is one where no other is."""
    own = [found < _FOREIGN for found in points]
    plainly = [mine and _asks(block, pointing=False) for mine, block in zip(own, blocks, strict=True)]
    if any(plainly):
        return plainly
    return [mine and _asks(block, pointing=True) for mine, block in zip(own, blocks, strict=True)]


def _introduced(line: str, block: tuple[str, ...], points: int) -> int:
    """What a block comes to behind a line that ends in a colon."""
    if words().announces.search(line) is None:
        return _FOREIGN
    return 0 if is_list(block) and words().agents.search("\n".join(block)) is None else points


def _beside(block: tuple[str, ...], mother: str, *, asks: bool, tells: bool) -> int:
    """What speaks against a block for standing where it does."""
    text = "\n".join(block)
    if tells:
        return _FOREIGN
    found = _UNSURE if asks else 0
    theirs = language(text)
    is_other = bool(mother and theirs) and theirs != mother
    return found + (found > 0 and _is_document(text)) + _UNSURE * is_other


def _by_itself(block: tuple[str, ...]) -> int:
    text = "\n".join(block)
    if is_list(block) and not words().prefixes.match(text):
        return _of_list(block, text)
    if any(is_formed(line) for line in block) or is_table(block) or is_chat(block) or _QUOTED.match(text):
        return _FOREIGN
    if words().prefixes.match(text.lstrip()) or _is_head(block):
        return _FOREIGN
    if len(block) > 1 and any(_QUOTED.match(line) for line in block):
        return _FOREIGN
    if _introduces(block):
        return _FOREIGN if words().sources.search(block[0]) else _UNSURE
    return _UNSURE + _is_document(text) if words().agents.search(text) else 0


def _is_head(block: tuple[str, ...]) -> bool:
    return sum(words().headers.match(line) is not None for line in block) > 1


def _of_list(block: tuple[str, ...], text: str) -> int:
    """People type lists, and say of what: one that no line announces is a paste like any other."""
    if is_item(block[0]) or words().announces.search(block[0]) is None:
        return _FOREIGN
    return _UNSURE * (words().agents.search(text) is not None)


def _introduces(block: tuple[str, ...]) -> bool:
    """Whether the first line says what the others are, and not that they are to be kept."""
    return len(block) > 1 and _COLON.search(block[0]) is not None and not words().announces.search(block[0])


def _is_document(text: str) -> bool:
    return len(text) >= _DOCUMENT and _BOOKISH.match(text) is not None


def _letters(blocks: Sequence[tuple[str, ...]]) -> Iterator[int]:
    """The places of letters: from a salutation to a signature, or one of these alone."""
    begins: int | None = None
    for place, block in enumerate(blocks):
        if begins is None and any(words().salutes.match(line.strip()) for line in block) and len(blocks) > 1:
            begins = place
        is_signed = any(words().signs.match(line.strip()) for line in block[-2:])
        if is_signed and (len(block) > 1 or begins is not None):
            yield from range(place if begins is None else begins, place + 1)
            begins = None
    if begins is not None:
        yield begins


def _asks(block: tuple[str, ...], *, pointing: bool) -> bool:
    """Whether a block is a short request that may be about a text beside it."""
    text = "\n".join(block)
    if len(text) > _ASKS or _is_own(block):
        return False
    if _QUESTION.search(text) and words().points.search(text):
        return True
    # Who tells something ends it with a stop; who asks in passing does not.
    points = (
        pointing and len(text) <= _BARE and text[-1] not in ".。" and words().points.search(text) is not None
    )
    return points or words().handles.search(text) is not None


def _tells_source(block: tuple[str, ...]) -> bool:
    text = "\n".join(block)
    return len(text) <= 2 * _ASKS and words().sources.search(text) is not None and not _is_own(block)


def _is_own(block: tuple[str, ...]) -> bool:
    """Whether a block announces in the first person what is to be kept, or says so of the person."""
    text = "\n".join(block)
    return words().agents.search(text) is None and bool(words().announces.search(text) and _OWN.search(text))


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


# --- sentences ----------------------------------------------------------------------------------------


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
