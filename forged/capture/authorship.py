"""Split messages into pieces by author, and extract the statements that a person typed.

`paste_detection` labels the blocks of a message: typed, unsure or foreign. A sentence that assigns a role or
a task ("You are agent 3 of 8") begins a brief, which is script text to its end. Code spans and quotations are
never cut. Each list item is a sentence. A sentence that is mostly quoted is not the person's.

A statement's `whole` includes the neighbour that it needs. A complaint takes the next sentence, a back
reference or a bare request the one before. Words of the agent are never in it: a yes to a request to remember
has the accepted sentence in `agreed`, and an answer has the question in `asked`.

`Provenance` rates a proposal. `foreign`: its words were pasted or quoted, and nothing of it was typed or
asked for. `mixed`: it has words found only in foreign text (for a model, one is enough), or a model wrote it
and less than two fifths of its words were typed; it waits for review. Near a brief, mixed becomes foreign.
`own`: all else. Words are compared by their beginnings, without the commonest. A pasted number counts as
foreign. Invisible characters are ignored. Time is linear in the text; raises nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec

from forged.capture.answers import lists_options, question_in, report_in
from forged.capture.forwarded import is_forwarded_line, split_forwarded
from forged.capture.paste_detection import QUOTED, Author, classify_blocks
from forged.capture.rules.requests import asks, letters_in, without_request
from forged.capture.text_patterns import (
    FENCE,
    is_formed,
    is_item,
    is_list,
    is_numbered,
    patterns_of,
    segment_patterns,
    without_bullet,
    words_said,
)
from forged.conversation import Utterance
from forged.text.invisible import INVISIBLE

# Longest message, in characters, that may be typed as a whole; of a longer one only its start and end.
TYPED = 6_000

# Text before the first sentence of a brief, and text between the verb and the role that it assigns.
_BEGINS = r"(?:\A|\n|(?<=[.!?…:;]\s)|(?<=[。！？；：]))[\s>#*_\-–•\d.)]{0,8}"
_ENDS_ROLE = "we|our|us|i|my|please|remember|always|never|use|who|which|because"
_BETWEEN = rf"(?:(?!\b(?:{_ENDS_ROLE})\b)[^.!?;:。！？\n]){{0,60}}?"

# A line of this length was wrapped by an editor. After a shorter line a new thought begins.
WRAPPED = 60

_SPACE = re.compile(r"(`+[^`\n]*`+)|\s+")
_QUOTE = r"""(?: "[^"\n]{0,300}" | “[^”\n]{0,300}” | „[^“”\n]{0,300}[“”] | «[^»\n]{0,300}»
    | 「[^」\n]{0,300}」 | 『[^』\n]{0,300}』 )"""
_QUOTATION = re.compile(_QUOTE, re.VERBOSE)
_END = re.compile(
    rf"""
      (?P<end>(?<=[:：]\s){_QUOTE}(?<=[.!?…。！？]["”“»」』])(?=\s) | [.!?…]+(?=[\s"')]|$)
        | [?!]+(?=[\u3040-\u9fff]) | [。！？]+ | \n)
    | `+[^`\n]*`+ | {_QUOTE}                                                   # stays whole
    | \b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl|z\.B|bzw|d\.h|p\.ej|p\.ex|par\sex)\.(?=\s\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Share and least number of quoted characters that make a sentence a report of another person's words.
_MOST_QUOTED, _LEAST_QUOTED = 0.45, 24
_LEAST_BLANKS = 3
_SPACED, _IDEOGRAPH = re.compile(r"\s"), re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_STRAIGHT = str.maketrans("’‘＇", "'''")
_JOINING = " \t,;:-–—，；：、"
_MARKS = " \t.,;:!?…。，、！？-–—()\"'"
# Longest sentence, in characters, that may need a neighbour; characters at the end of an agent's message that
# are read.
_SHORT, MOST_ASKED = 120, 2_000
# Letters of a text that usually says something by itself.
SAYS = 22
# Characters of the shortest part of a sentence that has an aside, letters of the shortest clause, most
# clauses of a sentence, and most characters of one that is split.
_LEAST_ASIDE = _LEAST_CLAUSE = 8
_MOST_CLAUSES, _MOST_SPLIT = 4, 600
# Least number of words found only in foreign text. One may be chance, unless it contains a digit.
_LEAST = 2
# Least share of typed words in a model's proposal if something was pasted. Measured on tests/data/said/dev
# beside code and logs: a twelfth of the ordered statements then waits for review. At a half, or with whole
# words, a fifth did.
_TYPED = 0.4
# Most characters of pasted text that are shown with a proposal.
_SHOWN = 1_200

Authorship = Literal["own", "mixed", "foreign"]


class MessagePiece(msgspec.Struct, frozen=True):
    """Consecutive lines of a message with one label of authorship: typed, unsure, foreign or brief."""

    lines: tuple[str, ...]
    author: Author = "typed"

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def pieces(text: str, *, begun: bool = False, goes_on: bool = False) -> tuple[MessagePiece, ...]:
    """Split a message into pieces that are typed, unsure, foreign (pasted) or a brief (a script's order).

    `begun`: the text continues an earlier part. `goes_on`: a later part continues it.
    """
    return _split_off_brief(_pieces(text, begun=begun, goes_on=goes_on))


def _pieces(text: str, *, begun: bool, goes_on: bool) -> tuple[MessagePiece, ...]:
    """Split a message into typed, unsure and foreign pieces by form and length, without finding briefs."""
    blocks = [*_blocks(INVISIBLE.sub("", text))]
    if len(blocks) == 1 and len(blocks[0]) == 1 and not _may_be_foreign(blocks[0][0]) and len(text) <= TYPED:
        return (MessagePiece(blocks[0]),) if not (begun or goes_on) else (MessagePiece(blocks[0], "foreign"),)
    blocks, others = split_forwarded(blocks)
    points = classify_blocks(blocks, others)
    inner = range(0 if begun else 1, len(blocks) - (0 if goes_on else 1))
    is_long = begun or goes_on or len(text) > TYPED
    return tuple(
        MessagePiece(block, "foreign" if is_long and place in inner else found)
        for place, (block, found) in enumerate(zip(blocks, points, strict=True))
    )


def _split_off_brief(found: tuple[MessagePiece, ...]) -> tuple[MessagePiece, ...]:
    """Split pieces at a script's brief ("You are agent 3"); from there to the message's end is `brief`."""
    for place, piece in enumerate(found):
        begins = None if _is_quotation(piece) else _brief_pattern().search(piece.text)
        if begins is None:
            continue
        before = tuple(piece.text[: begins.start()].splitlines())
        rest = tuple(piece.text[begins.start() :].strip("\n").splitlines())
        own = (MessagePiece(before, piece.author),) if any(map(str.strip, before)) else ()
        briefs = (MessagePiece(each.lines, "brief") for each in found[place + 1 :])
        return (*found[:place], *own, MessagePiece(rest, "brief"), *briefs)
    return found


def _is_quotation(piece: MessagePiece) -> bool:
    """Return True for a fenced, `>`-marked or quoted piece: no brief is looked for in it."""
    marked = FENCE.match(piece.lines[0]) or any(line.lstrip().startswith(">") for line in piece.lines)
    return bool(marked) or QUOTED.match(piece.text) is not None


@functools.cache
def _brief_pattern() -> re.Pattern[str]:
    """Compile the pattern of the sentence that begins a script's brief, such as "You are agent 3 of 8"."""
    known = segment_patterns()
    role = f"(?:{known['appoints'].pattern}){_BETWEEN}(?<![a-zà-ÿ])(?:{known['roles'].pattern})(?![a-zà-ÿ])"
    return re.compile(f"{_BEGINS}(?:{role}|{known['briefs'].pattern})", re.IGNORECASE)


def pieces_of(
    window: Sequence[Utterance], *, begun: bool, goes_on: bool
) -> Iterator[tuple[int, tuple[MessagePiece, ...]]]:
    """Yield the index and the pieces of each user message of a conversation window.

    `begun` and `goes_on` are those of the event: the first message may continue an earlier one, and a later
    one may continue the last.
    """
    last = len(window) - 1
    for place, each in enumerate(window):
        if each.role == "user":
            yield place, pieces(each.text, begun=begun and not place, goes_on=goes_on and place == last)


def quote_pasted_lines(text: str, found: Sequence[MessagePiece]) -> str:
    """Return a message with `> ` before each line that was not surely typed; `found` are its pieces."""
    pasted = {line for piece in found if piece.author != "typed" for line in piece.lines}
    lines = _with_brief_apart(INVISIBLE.sub("", text), found).splitlines()
    return "\n".join(f"> {line}" if line in pasted else line for line in lines) if pasted else text


def _with_brief_apart(text: str, found: Sequence[MessagePiece]) -> str:
    """Return a message with a line break before a brief that begins inside a line."""
    first = next((piece.lines[0] for piece in found if piece.author == "brief"), "")
    before, brief, behind = text.partition(first) if first else (text, "", "")
    own = before.rstrip(" ")
    return f"{own}\n{brief}{behind}" if brief and own and own[-1] != "\n" else text


def _may_be_foreign(line: str) -> bool:
    """Return True for a line that may be program output, a list item or another person's words."""
    return is_formed(line) or is_item(line) or (any(map(str.isdigit, line)) and is_forwarded_line(line))


def _blocks(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the runs of lines between blank lines of a text; a fenced block is one run."""
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
    """Yield the sentences of a message that are not pasted, briefs or mostly quoted, with single blanks."""
    for piece in pieces(text):
        yield from sentences_of(piece)


def sentences_of(piece: MessagePiece) -> Iterator[str]:
    """Yield the sentences of a typed or unsure piece, except quotations; of other pieces nothing."""
    if piece.author in ("foreign", "brief"):
        return
    if is_list(piece.lines):
        paragraph = "".join(f"{without_bullet(line)}\n" for line in piece.lines)
    else:
        paragraph = _unwrapped(piece.lines)
    parts = (each for part in _split(paragraph) for each in _split_asides(part))
    yield from (each for part in parts for each in _tidy(part) if not _is_quoted(each))


def parts_of(piece: MessagePiece) -> list[str]:
    """Split a piece into sentences; joined again they are its text, with wrapped lines in one."""
    text = "\n".join(piece.lines) if is_list(piece.lines) else _unwrapped(piece.lines).rstrip()
    return [part for part in _split(text) if part]


def _unwrapped(lines: Sequence[str]) -> str:
    """Join lines of at least 60 characters with the next by a blank; keep other line ends."""
    return "".join(f"{line} " if len(line) >= WRAPPED else f"{line}\n" for line in lines)


def _split(paragraph: str) -> Iterator[str]:
    """Split a paragraph after each sentence, but not inside code spans, quotations or abbreviations."""
    start = 0
    for match in _END.finditer(paragraph):
        if match["end"] is not None:
            yield paragraph[start : match.end()]
            start = match.end()
    yield paragraph[start:]


def _split_asides(sentence: str) -> Iterator[str]:
    """Split a sentence before each aside ("and by the way ..."), which is about another matter."""
    start = 0
    for found in _aside_pattern().finditer(sentence):
        if found.start() - start >= _LEAST_ASIDE and len(sentence) - found.end() >= _LEAST_ASIDE:
            yield sentence[start : found.start()]
            start = found.start("rest")
    yield sentence[start:]


@functools.cache
def _aside_pattern() -> re.Pattern[str]:
    """Compile the pattern of an aside inside a sentence, behind a comma, dash or `and`."""
    begins = _near_patterns()["asides"].pattern
    before = r"(?:(?:\s*[,;，、。]|\s[-–—])\s*(?:(?:and|und|y|et|e|also)\s+)?|\s+(?:and|und|y|et|e)\s+)"
    return re.compile(rf"{before}(?P<rest>{begins})", re.IGNORECASE)


def clauses_of(sentence: str) -> tuple[str, ...]:
    """Split a sentence into clauses, except those that a neighbour needs; joined they are the sentence.

    A long sentence stays whole.
    """
    if len(sentence) > _MOST_SPLIT:
        return (sentence,)
    found, start, known = list[str](), 0, _clauses()
    for end in _clause_pattern().finditer(sentence):
        clause, rest = sentence[start : end.end()], sentence[end.end() :]
        is_inside = any(clause.count(mark) % 2 for mark in '`"')
        is_bound = is_inside or known["binds"].match(rest) or any(map(known["limits"].match, (clause, rest)))
        if is_bound or min(letters_in(clause), letters_in(rest)) < _LEAST_CLAUSE:
            continue
        if len(found) + 1 < _MOST_CLAUSES:
            found.append(clause)
            start = end.end()
    return (*found, sentence[start:])


def without_joins(clause: str) -> str:
    """Return a clause without the words and marks that join it with its neighbours."""
    bare = clause.strip(_JOINING)
    joined = _clauses()["joins"].match(bare)
    return bare[joined.end() :].lstrip(_JOINING) if joined else bare


@functools.cache
def _clause_pattern() -> re.Pattern[str]:
    """Compile the pattern of the end of a clause; code and quotations are not searched."""
    known = _clauses()
    ends = rf"(?:[,;:]|:\(|:\))\s+|\)\s+|\s+(?={known['begins'].pattern})|(?:{known['ends'].pattern})\s*"
    return re.compile(ends, re.IGNORECASE)


@functools.cache
def _clauses() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of clauses by name."""
    return patterns_of("clauses")


def _tidy(piece: str) -> Iterator[str]:
    """Yield a sentence with single blanks outside code, or nothing if it is punctuation only."""
    sentence = _SPACE.sub(lambda found: found[1] or " ", piece).strip()
    if sentence.strip(".!?…。！？"):
        yield sentence


def _is_quoted(sentence: str) -> bool:
    """Return True if a sentence is mostly a quotation, and does not ask to keep the quotation."""
    quotations = [each for each in _QUOTATION.findall(sentence) if _is_speech(each)]
    quoted = sum(map(len, quotations))
    if quoted < _MOST_QUOTED * len(sentence) or sum(map(_width, quotations)) < _LEAST_QUOTED:
        return False
    return segment_patterns()["announces"].search(_QUOTATION.sub("", sentence)) is None


def _is_speech(quotation: str) -> bool:
    """Return True for a quotation of several words, rather than a name or a pattern."""
    return len(_SPACED.findall(quotation)) >= _LEAST_BLANKS or _IDEOGRAPH.search(quotation) is not None


def _width(quotation: str) -> int:
    """Return the length of a text; an ideograph counts twice."""
    return len(quotation) + len(_IDEOGRAPH.findall(quotation))


class Statement(msgspec.Struct, frozen=True):
    """One sentence of the user, with its neighbours, its message and the question that it may answer.

    `before` is the user's text before it in the message. `answers` is the end of the agent's message, for
    the first sentence only, and `agreed` the same if the user accepts it and asks to keep it. `asked` has the
    sentences of an agent's message that asks or proposes something, the asking one first, and `offers` is
    True if that message lists options. `message` is the index in the window, and `message_text` the message
    without pasted text. `is_mixed`: it may be pasted, so an order in it waits for review. `whole` adds the
    neighbours that it needs. `asks_alone`: it only asks to keep another sentence.
    """

    text: str
    before: str = ""
    answers: str = ""
    message: int = 0
    message_text: str = ""
    is_mixed: bool = False
    whole: str = ""
    asks_alone: bool = False
    agreed: str = ""
    asked: tuple[str, ...] = ()
    offers: bool = False


def clause_runs(sentence: Statement) -> dict[tuple[int, int], str]:
    """Return a sentence's clauses and runs of them, by first and last; nothing if one alone says nothing."""
    clauses = () if sentence.asks_alone or asks(sentence.text) else clauses_of(sentence.text)
    places = combinations(range(len(clauses) + 1), 2) if len(clauses) > 1 else ()
    runs = {(first, end - 1): without_joins("".join(clauses[first:end])) for first, end in places}
    return runs if all(map(str.strip, runs.values())) else {}


def statements(
    window: Sequence[Utterance], *, asked: str = "", begun: bool = False, goes_on: bool = False
) -> tuple[Statement, ...]:
    """Return the user's typed and unsure sentences in a window, with the neighbours that each needs.

    `asked` is the end of the agent's message before the window.
    """
    return tuple(
        each
        for place, found in pieces_of(window, begun=begun, goes_on=goes_on)
        for each in _statements_of_message(_agent_before(window, place, asked), place, found)
    )


def _agent_before(window: Sequence[Utterance], place: int, asked: str) -> str:
    """Return the end of the agent's message before the message at `place`, or ""."""
    if not place:
        return asked
    return window[place - 1].text[-MOST_ASKED:] if window[place - 1].role == "assistant" else ""


def _statements_of_message(agent_text: str, place: int, found: Sequence[MessagePiece]) -> Iterator[Statement]:
    """Yield the statements of the user message at `place`, after the agent's text; `found` are its pieces."""
    said = [*_sentences_with_headings(found)]
    agent = _agent_sentences(agent_text) if said else ()
    proposed, asked = _last_proposal(agent), question_in(agent)
    offers = bool(agent) and lists_options(agent_text)
    if not asked and not offers:
        asked = report_in(agent, " ".join(text for text, *_ in said))
    message_text = "\n\n".join(piece.text for piece in found if piece.author in ("typed", "unsure"))
    for at, (text, heading, is_mixed) in enumerate(said):
        before = heading or (said[at - 1][0] if at else "")
        after = "" if heading or at + 1 == len(said) else said[at + 1][0]
        asks_alone = _matches(_near_patterns()["asks_alone"], text)
        own = before or text if asks_alone else _with_neighbours(text, before, after)
        agreed = (
            _agreed_proposal(text, before, after, proposed, asks_alone=asks_alone)
            if proposed and at <= 1
            else ""
        )
        yield Statement(
            text,
            before,
            "" if at else proposed,
            place,
            message_text,
            is_mixed,
            own,
            asks_alone,
            agreed,
            asked,
            offers,
        )


def _sentences_with_headings(found: Sequence[MessagePiece]) -> Iterator[tuple[str, str, bool]]:
    """Yield each sentence of pieces, the heading of its list if any, and True if it may be pasted."""
    last = ""
    for piece in found:
        is_items = is_list(piece.lines)
        heading = last if is_items and last.endswith((":", "：")) else ""
        for at, text in enumerate(sentences_of(piece)):
            yield text, heading, piece.author == "unsure"
            if is_items and not at and not is_item(piece.lines[0]):
                heading = text
            last = text


def _with_neighbours(text: str, before: str, after: str) -> str:
    """Join a short complaint with the sentence after it, or a back reference with the one before it."""
    patterns = _near_patterns()
    if len(text) > _SHORT:
        return text
    if after and _begins_with(patterns["complains"], text) and not _matches(patterns["asks_alone"], after):
        return f"{text} {after}"
    if before and _begins_with(patterns["points_back"], text):
        return f"{before} {text}"
    return text


def narrates(sentence: str) -> bool:
    """Return True for a sentence about what the person noticed, read or remembers, which settles nothing."""
    return _begins_with(_near_patterns()["narrates"], sentence)


def _agreed_proposal(text: str, before: str, after: str, proposed: str, *, asks_alone: bool) -> str:
    """Return the agent's proposal if the user accepts it and asks to keep it, else ""."""
    if asks_alone:
        return proposed if not before or _is_yes(before) else ""
    if before or not _is_yes(text):
        return ""
    asks_here = letters_in(without_request(text)) < SAYS and asks(text)
    return proposed if asks_here or _matches(_near_patterns()["asks_alone"], after) else ""


def _is_yes(text: str) -> bool:
    """Return True for a short sentence that begins with an agreement."""
    return len(text) <= _SHORT and _begins_with(_near_patterns()["agrees"], text)


def _begins_with(pattern: re.Pattern[str], text: str) -> bool:
    """Return True if a text begins with the pattern, ignoring punctuation before it."""
    return pattern.match(text.translate(_STRAIGHT).lstrip(_MARKS)) is not None


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """Return True if a whole text of at most 120 characters matches, ignoring punctuation around it."""
    bare = text.translate(_STRAIGHT).strip(_MARKS)
    return bool(bare) and len(bare) <= _SHORT and pattern.fullmatch(bare) is not None


def _agent_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of an agent's message outside of code, lists and quotations."""
    return tuple(each for piece in pieces(text) if not is_list(piece.lines) for each in sentences_of(piece))


def _last_proposal(said: Sequence[str]) -> str:
    """Return the last of an agent's sentences, preferably no question, or ""."""
    return next((each for each in reversed(said) if each[-1] not in "?？"), said[-1] if said else "")


@functools.cache
def _near_patterns() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of sentences that need a neighbour, by kind."""
    return patterns_of("neighbours")


class Provenance:
    """Rates by a window's typed and pasted words if a proposal is the person's own; shows pasted text.

    `asked`, `begun` and `goes_on` are those of the window's event.
    """

    def __init__(
        self, window: Sequence[Utterance], *, asked: str = "", begun: bool = False, goes_on: bool = False
    ) -> None:
        own = pieces_of(window, begun=begun, goes_on=goes_on)
        found = [piece for _, pieces in own for piece in pieces]
        typed = [piece.text for piece in found if piece.author == "typed"]
        self._pasted = [piece for piece in found if piece.author != "typed"]
        self._pasted += [
            piece for each in window if each.role == "assistant" for piece in _quoted_lines(each.text)
        ]
        if not self._pasted:
            return
        self._typed = words_said(typed)
        said = statements(window, asked=asked, begun=begun, goes_on=goes_on)
        self._agreed = words_said(each.agreed for each in said if not each.is_mixed)
        self._unsure = words_said(piece.text for piece in found if piece.author == "unsure") - self._typed
        self._foreign = words_said(piece.text for piece in self._pasted) - self._typed
        self._is_asked = any(map(asks, typed))
        self._brief = words_said(piece.text for piece in found if piece.author == "brief") - self._typed

    def authorship_of(self, content: str, *, by_model: bool) -> Authorship:
        """Rate a proposal as the person's own, mixed (to be reviewed) or foreign (pasted), by its words."""
        if not self._pasted:
            return "own"
        said = words_said((content,))
        found = self._compare_words(said, by_model=by_model)
        is_of_brief = self._brief and (said & self._brief or not said & self._unsure)
        return "foreign" if found == "mixed" and is_of_brief else found

    def _compare_words(self, said: frozenset[str], *, by_model: bool) -> Authorship:
        """Rate a proposal by its typed and pasted words, before words of a brief are considered."""
        foreign, typed = said & self._foreign, said & self._typed
        if len(foreign) >= _LEAST or any(map(is_numbered, foreign)):
            may_be_meant = self._is_asked or typed or not said.isdisjoint(self._unsure)
            return "mixed" if may_be_meant else "foreign"
        known = typed | (said & self._agreed)
        return "mixed" if by_model and (foreign or len(known) < _TYPED * len(said)) else "own"

    def pasted_text(self, content: str) -> str:
        """Return up to 1,200 characters of the window's pasted text, the pieces most like `content` first."""
        said = words_said((content,))

        def unlikeness(piece: MessagePiece) -> int:
            return -len(said & words_said((piece.text,)))

        return "\n\n".join(_cut_to_limit(sorted(self._pasted, key=unlikeness)))


def _quoted_lines(text: str) -> Iterator[MessagePiece]:
    """Yield one foreign piece with the lines that the assistant quotes by `>`, if there are any."""
    if lines := tuple(line for line in text.splitlines() if line.lstrip().startswith(">")):
        yield MessagePiece(lines, "foreign")


def _cut_to_limit(found: Iterable[MessagePiece]) -> Iterator[str]:
    """Yield the texts of pieces until 1,200 characters in all; the last one may be cut."""
    left = _SHOWN
    for piece in found:
        if left > 0:
            yield piece.text if len(piece.text) <= left else f"{piece.text[: left - 1]}…"
            left -= len(piece.text)
