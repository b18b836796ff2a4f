"""Find the blocks of a message that other people wrote, by lines with a name and a time.

Input: the blocks of a message. Output: the blocks, split at such lines, each with a certainty that it is
foreign. A header line is above a text: a name with an action and a time, or a time in brackets. A bare name
near a time of day is a header only if there are two, because people note appointments; a single one is
unsure. A footer line is below a text. All between two headers is foreign, as is a header's or footer's text.
Text further above is unsure. The words are `[forwarded]` of `authorship.toml`. Long lines are skipped.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from forged.capture.text_patterns import COMMON, read_table

# Longest header or footer line, and the end of a line that may hold a footer, in characters.
_LONGEST, _END = 140, 90
# Longest such line without a time, in characters.
_LONGEST_TIMELESS = 70
_LETTER = "A-Za-zÀ-ÖØ-öø-ÿ0-9_"
_HAN = "[\u30a0-\u30ff\u4e00-\u9fff々]"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w.'’-]*"
_SMALL = r"(?:de|da|do|dos|von|van|der|den|la|le|el|al|bin|y|e|zu)"
# A name: one word, several with capitals, or a few ideographs, and perhaps a role in brackets.
_WHO = (
    rf"(?P<who>{_CAPITAL}(?: (?:{_SMALL} )?{_CAPITAL}){{1,3}}|{_HAN}{{1,8}}?(?: {_HAN}{{1,6}})?"
    r"|(?:u/)?@?(?![\u3040-\u30ff\u4e00-\u9fff])[^\W\d][\w.-]{0,30})(?:さん|様|君)?"
    r"(?: ?[(（\[](?!\d)[^\W\d_][^()（）\[\]\n]{0,24}[)）\]])?(?: @[\w.-]{2,30})?"
)
# A name that is more than a word, so the line is hardly a note of an appointment.
_HANDLE = re.compile(rf"@|\w[._-]\w|\d|\S \S|{_HAN}")

# Marks that replace parts of a line: a date, an age ("2 days ago"), a time of day, a day, a possible date, a
# short age, "opened by", "commented", and "at" before a time.
_DATE, _AGO, _CLOCK, _DAY, _SHORT, _SHORT_AGO, _OPENED_BY, _SAYS, _AT_TIME = "\1\2\3\4\5\6\7\16\20"
_MARKS = {"dates": _DATE, "ago": _AGO, "clocks": _CLOCK, "days": _DAY}
_MARKS |= {"short_dates": _SHORT, "short_ago": _SHORT_AGO}
_MARK = f"[{_DATE}-{_SHORT}]"
_TIMES = rf"{_MARK}(?:[\s,.·|@-]{{0,3}}{_AT_TIME}?{_MARK}){{0,3}}"
_BOXED = rf"(?P<when>[\[(（]{_TIMES}[\])）])"
_HAS_TIME = re.compile(_MARK)
_BEFORE_TIME = re.compile(rf"([^\W\d]{{1,3}}(?: las?)?)\s?(?={_MARK})")
_WHEN = rf"(?P<when>{_AT_TIME}?[\[(（]?{_TIMES}[\])）]?)"
_END_MARK = r"\s*[:：.]?"
_IN_DOT = re.compile(r"[·•|]")

Kind = Literal["", "head", "inline", "maybe", "mail", "foot", "near", "when"]
Certainty = Literal["", "unsure", "foreign"]
_HEADS = frozenset({"head", "inline", "mail"})


@functools.cache
def forwarded_words() -> Mapping[str, re.Pattern[str]]:
    """Return the word patterns of headers and footers of forwarded text, compiled once at first use."""
    file = {name: "|".join(found) for name, found in read_table("forwarded").items()}
    file["moments"] = "|".join(f"(?P<{name}>{file[name]})" for name in _MARKS)

    def whole_words(name: str) -> re.Pattern[str]:
        return re.compile(f"(?<![{_LETTER}])(?:{file[name]})(?![{_LETTER}])", re.IGNORECASE)

    return {name: whole_words(name) for name in file}


class LineShapes(msgspec.Struct, frozen=True):
    """Patterns of lines that frame another person's text: headers, footers, names, times (as marks)."""

    heads: tuple[re.Pattern[str], ...]
    inline: tuple[re.Pattern[str], ...]
    maybe: tuple[re.Pattern[str], ...]
    foot: re.Pattern[str]
    foot_of_line: re.Pattern[str]
    only_when: re.Pattern[str]
    only_name: re.Pattern[str]
    between_buttons: re.Pattern[str]


@functools.cache
def line_shapes() -> LineShapes:
    """Return the patterns of lines that frame another person's text, compiled once at first use."""
    by = r"(?:by|von|por|par|由)"
    place = r"(?:\S{0,80}\w\.\w{1,5}\b\S{0,20}|[#!]\d+)"
    line = r"(?:[ :,]*(?:lines?|zeile|línea|ligne|linha|第)?\s*L?\d+(?:-\d+)?(?:\s*行)?)?"
    apart = r"(?P<apart>\s*[,，—–-]\s*|\s{2,}|\s)"
    phone = r"\+\d[\d ()-]{6,20}"

    def whole(*found: str) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(rf"\W{{0,2}}(?:{each})\s*\Z") for each in found)

    return LineShapes(
        heads=whole(
            rf"{_WHO}\s*(?:has |ha |a |est |hat |が|は)?{_SAYS}[\s,:·|–—-]*{_WHEN}{_END_MARK}",
            rf"{_WHO}\s*(?:hat|ha|a|が|は|于|在)?\s*{_WHEN}\s*に?\s*{_SAYS}{_END_MARK}",
            rf"{_WHO}\s*{_SAYS}\s*(?:on|in|at|im|zu|en|sur|em|no|na|于|在)?\s*{place}{line}[:：]?",
            rf"(?:[#!]\d+\s+)?{_SAYS}\s+{_WHEN}\s+{by}\s*{_WHO}{_END_MARK}",
            rf"{_OPENED_BY}\s*{_WHO}[\s,·|]*(?:{_WHEN})?{_END_MARK}",
            rf"由\s*{_WHO}\s*{_SAYS}",
            rf"{_WHO}\s*[·•|]\s*(?P<when>{_TIMES}|{_SHORT_AGO}){_END_MARK}",
            rf"{_WHO}\s+{_AGO}\s*[·•|].{{1,60}}",
            rf"(?P<who>)\w.{{0,60}}\s»\s*{_WHEN}{_END_MARK}",
            rf"{_BOXED}\s*{_WHO}[:：]?",
            rf"{_WHO}\s*,?\s*{_BOXED}\s*[:：]?",
        ),
        inline=whole(
            rf"{_BOXED}\s*[~-]?\s*(?:{_WHO}|{phone})\s*[:：].*",
            rf"{_WHEN}\s+[-–—]\s+~?\s?(?:{_WHO}|{phone})\s*[:：].*",
            rf"{_WHO}\s*,?\s*{_BOXED}\s*[:：].*",
            rf"{_WHEN}\t{_WHO}\t.*",
        ),
        maybe=whole(rf"{_WHO}{apart}(?P<when>{_TIMES}){_END_MARK}", rf"(?P<when>{_TIMES}){apart}{_WHO}"),
        foot=re.compile(
            rf"\W{{0,2}}[^{_DATE}-{_SHORT}]{{2,30}}{_WHEN}(?:\s+{by}\s+.{{1,40}}|\s+{_WHO})?{_END_MARK}\Z"
        ),
        foot_of_line=re.compile(rf".*\S\s+[–—-]\s?{_WHO}\s+{_WHEN}{_END_MARK}\Z"),
        only_when=re.compile(rf"{_WHEN}\Z"),
        only_name=re.compile(rf"{_WHO}\Z"),
        between_buttons=re.compile(rf"[\s·•|()\d{_DATE}-{_SHORT_AGO}]*\Z"),
    )


def _replace_by_marks(line: str) -> str:
    """Return a line with one-character marks for times ("2 days ago") and actions ("commented")."""
    found_words = forwarded_words()
    line, times = found_words["moments"].subn(lambda found: _MARKS[found.lastgroup or ""], line)
    if not times and len(line) > _LONGEST_TIMELESS:
        return line
    line = found_words["says"].sub(_SAYS, found_words["by"].sub(_OPENED_BY, line))
    return _BEFORE_TIME.sub(
        lambda found: _AT_TIME if found_words["joins"].fullmatch(found[1]) else found[0], line
    )


class Block(msgspec.Struct):
    """Block of a message: lines, the kind of each, and the certainty that another person wrote it."""

    lines: tuple[str, ...]
    kinds: list[Kind]
    certainty: Certainty = ""


def split_forwarded(blocks: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], list[Certainty]]:
    """Split a message's blocks above headers; return them, and the certainty that others wrote each."""
    found = [Block(lines, [_line_kind(lines, at) for at in range(len(lines))]) for lines in blocks]
    names = sum(kind in _HEADS or kind == "maybe" for block in found for kind in block.kinds)
    is_chat = names > 1 and any(_has_text_below(found, at) for at in range(len(found)))
    for block in found if is_chat else ():
        block.kinds = ["head" if kind == "maybe" else kind for kind in block.kinds]
    parted = [part for block in found for part in _split_above_header(block)]
    _mark_below_headers(parted)
    _mark_around_footers(parted)
    return [block.lines for block in parted], [block.certainty for block in parted]


def is_forwarded_line(line: str) -> bool:
    """Return True if a line alone shows, as chat line or footer, that another person wrote it."""
    return _line_kind((line,), 0) in {"inline", "foot"}


def _has_text_below(blocks: Sequence[Block], at: int) -> bool:
    """Return True if a block's name with a time has a text below it; a row of names is an agenda."""
    kinds = blocks[at].kinds
    if kinds in (["maybe"], ["maybe", "when"]):
        return at + 1 < len(blocks)
    return any(each in {"maybe", "when"} and not below for each, below in itertools.pairwise(kinds))


def _split_above_header(block: Block) -> list[Block]:
    """Split a block above its first header; the part above is unsure."""
    at = next((place for place, kind in enumerate(block.kinds) if kind in _HEADS), 0)
    if not at or block.kinds[at] == "mail" or "foot" in block.kinds[:at]:
        return [block]
    return [Block(block.lines[:at], block.kinds[:at], "unsure"), Block(block.lines[at:], block.kinds[at:])]


def _mark_below_headers(blocks: Sequence[Block]) -> None:
    """Mark the blocks between headers and the text below as foreign, below a possible header as unsure."""
    places = [at for at, block in enumerate(blocks) if any(kind in _HEADS for kind in block.kinds)]
    for at in range(places[0], places[-1] + 1) if places else ():
        blocks[at].certainty = "foreign"
    for at in places:
        if blocks[at].kinds[-1] in {"head", "mail", "when"} and at + 1 < len(blocks):
            blocks[at + 1].certainty = "foreign"
    for at, block in enumerate(blocks):
        if _has_text_below(blocks, at):
            for each in blocks[at : at + 2] if block.kinds[-1] in {"maybe", "when"} else (block,):
                each.certainty = each.certainty or "unsure"


def _mark_around_footers(blocks: Sequence[Block]) -> None:
    """Mark the text above a footer as foreign, and text further above as unsure."""
    for at, block in enumerate(blocks):
        if "foot" in block.kinds:
            block.certainty = "foreign"
            text = at - 1 if block.kinds[0] in {"foot", "near"} else at
            if text < 0 < len(blocks) - 1 and len(block.lines) == 1:
                blocks[1].certainty = "foreign"
            elif text >= 0:
                blocks[text].certainty = "foreign"
            for above in blocks[1 : max(1, text)]:
                above.certainty = above.certainty or "unsure"
        elif "near" in block.kinds:
            block.certainty = "foreign"
            around = (*blocks[max(0, at - 1) : at], *blocks[at + 1 : at + 2])
            for near in around if len(block.lines) == 1 else ():
                near.certainty = near.certainty or "unsure"


def _line_kind(lines: Sequence[str], at: int) -> Kind:
    """Return the kind of a line (header, footer, mail, time or ""), by its form and neighbours."""
    line = lines[at].strip()
    if len(line) > _LONGEST:
        return "foot" if _ends_in_footer(_replace_by_marks(line[-_END:])) else ""
    if forwarded_words()["mails"].fullmatch(line):
        return "mail"
    marked = _replace_by_marks(_without_tails(line))
    if len(line) > _LONGEST_TIMELESS and not _HAS_TIME.search(marked):
        return ""
    if any(_has_shape_with_name(each, marked) for each in line_shapes().heads):
        return "head"
    if any(_has_shape_with_name(each, marked) for each in line_shapes().inline):
        return "inline"
    if foot := _footer_kind(line, marked):
        return foot
    if at and _is_name_with_time(lines[at - 1], marked):
        return "when"
    is_maybe = _may_be_header(marked) or _is_name_with_time(line, "".join(lines[at + 1 : at + 2]))
    return "maybe" if is_maybe else ""


def _without_tails(line: str) -> str:
    """Return a line without a trailing label such as "(edited)"."""
    mark = next((each for each in ("·", "•", "|", "(", "[", "（", " - ", " – ") if each in line), "")
    before, _, tail = line.rpartition(mark) if mark else ("", "", "")
    return before.rstrip() if forwarded_words()["tails"].fullmatch(tail.strip(" )]）")) else line


def _footer_kind(line: str, marked: str) -> Kind:
    """Return `foot` for a line that ends another person's text, `near` if it is next to one, else ""."""
    found_words, found = forwarded_words(), line_shapes().foot.match(marked)
    if found and _is_dated(found["when"]) and found_words["below"].match(line.lstrip("-–— ")):
        return "foot"
    if found and _is_dated(found["when"]) and found_words["near"].match(line.lstrip("-–— ")):
        return "near"
    left, buttons = found_words["buttons"].subn("", found_words["moments"].sub(_DATE, line))
    is_bar = buttons > 2 or (buttons and _IN_DOT.search(left))
    return "foot" if _ends_in_footer(marked) or (is_bar and line_shapes().between_buttons.match(left)) else ""


def _ends_in_footer(marked: str) -> bool:
    """Return True if a line ends in a name and a date."""
    found = line_shapes().foot_of_line.match(marked)
    return found is not None and _is_dated(found["when"]) and _is_name(found["who"])


def _has_shape_with_name(shape: re.Pattern[str], marked: str) -> bool:
    """Return True if a marked line matches a pattern, and its name, if any, may be a person's."""
    found = shape.match(marked)
    return found is not None and (not found["who"] or _is_name(found["who"]))


def _may_be_header(marked: str) -> bool:
    """Return True if a marked line is a name and a time, which may be an appointment or a header."""
    for shape in line_shapes().maybe:
        found = shape.match(marked)
        if found is not None and _is_of_day(found["when"]) and _is_name(found["who"]):
            return found["apart"] != " " or _HANDLE.search(found["who"]) is not None
    return False


def _is_name_with_time(line: str, below: str) -> bool:
    """Return True for a bare name on a line and a time of day on the line below."""
    if not below or max(len(line), len(below)) > _LONGEST_TIMELESS:
        return False
    name = line_shapes().only_name.match(_without_tails(line.strip()))
    if name is None or not _is_name(name["who"]):
        return False
    when = line_shapes().only_when.match(_replace_by_marks(_without_tails(below.strip())))
    return when is not None and _is_of_day(when["when"])


def _is_of_day(when: str) -> bool:
    """Return True if a marked time has a time of day or an age such as "2 days ago"."""
    return _CLOCK in when or _AGO in when


def _is_dated(when: str) -> bool:
    """Return True if a marked time has a date or an age such as "2 days ago"."""
    return _DATE in when or _AGO in when


def _is_name(name: str) -> bool:
    """Return True for a plausible name of a person."""
    parts = name.lower().split()
    ends, no_names = (parts[0], parts[-1]), forwarded_words()["no_names"]
    return not any(each in COMMON or no_names.fullmatch(each) for each in ends)
