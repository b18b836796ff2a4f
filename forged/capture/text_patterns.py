"""Recognise program output, the language and the words of a text; normalise texts for patterns.

Program output is code, logs, diffs, tables, boxes, prompts, quotes and chats. Lines come without line ends.
The words are in `authorship.toml`. People type "nao" for "não", so texts and patterns are compared in lower
case without accents; kana marks stay. Raises KeyError for a `{word}` without a list.
"""

from __future__ import annotations

import functools
import operator
import os
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from forged.text.invisible import INVISIBLE

FILE = os.path.join(os.path.dirname(__file__), "authorship.toml")
# Characters of a line that are read, at its beginning and end.
_SEEN = 300
# Most compared characters of a text; a longer one is cut at a line, sentence or word in its last quarter.
MOST_COMPARED = 2048
_CUTS = tuple(re.compile(rf"(?s:.*){end}") for end in (r"\n", r"(?:[.!?…](?=\s)|[。！？])", r"\s"))
# A day since which something holds, and a commit.
_SINCE = re.compile(
    r"\b(?:since|seit|desde|depuis)(?: (?:last|letztem|letzter|el|la|le|o|a|this|diesem))? [^\W\d]+"
    r"|[^\W\d]{1,4}(?:から|以来)",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}\b|[(`]\d{7,40}[)`]", re.IGNORECASE)
FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_ITEM = re.compile(r"[ ]{0,3}(?:[-*+•·]|\d{1,3}[.)、])\s+(?=\S)")
_FORMED = re.compile(
    r"""
      >                                                         # quoted
    | (?:[ ]{4}|\t)\s*\S                                        # indented code
    | [+|@#<{}\[\]()\\/;]|```|~~~                               # diff, table, heading, markup, comment, fence
    | -{2,}|={3,}|[$%]\s|[\w.~/@:-]*[$#]\s                      # rule, prompt of a shell
    | diff\s|index\s[0-9a-f]{7}|commit\s[0-9a-f]{7}|Author:|Date:
    | \[?\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2}\s+\d+\s\d\d:     # times of a log
    | \W?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|PASS|PASSED|FAIL|FAILED|HINT)\b
    | (?:error|warning|fatal|note|hint|panic)(?:\[\w+\])?:\s.*\b(?:lint|line|src|-->|[\w/]+\.\w+:\d+)
    | (?:npm|yarn|pip|cargo)\s(?:WARN|ERR|notice|error|warning)
    | Traceback\s|\s*File\s"|\s+at\s\S+[(:]|(?:\w+\.)*\w*(?:Error|Exception|Warning):\s
    | (?:error|warning)\[\w+\]:\s | \s+(?:-->|=|\|)\s              # a compiler's
    | [\w./-]+\.\w{1,5}:(?:\s|\d|$) | [\w./-]+\.\w{1,5}\s\d+:\d+   # what grep prints: a file and its line
    | [\w-]{1,40}:\s*$                                           # a key of YAML
    | \S{0,40}\s?\{"                                             # JSON
    | (?:remote|hint|api|web|db):\s | [\w-]{1,20}\s[|]\s
    | \s*(?:[\u2501-\u259f]|\u2500{3}|[⎿⏺✔✓✗✘✕❯➜]\s)           # a box, a bar, what a program ticks off
    | \(\S{1,30}\)\s\S{0,60}[$%\#]\s | [\w.-]+@[\w.-]+\s\S{0,80}\s?[%$#]\s  # other prompts: of a shell,
    | PS\s[^>\n]{1,80}>|[A-Z]:\\[^>\n]{0,80}>\S                    # of Windows,
    | [\w-]{1,40}=[#>*]\s | (?:In|Out)\s?\[\d+\]:                 # of databases and interpreters
    | (?:mysql|mariadb|sqlite|mongosh?|redis[^>\n]{0,40}|gdb|ghci|scala|julia|cqlsh\S*|iex\(\d+\)|irb\S*)>\s
    | \(\d{1,9}\s(?:rows?|filas?|lignes?|linhas?|Zeilen?|行)\) | \d{1,9}\srows?\sin\sset
    """,
    re.VERBOSE,
)
# A speaker, perhaps with a time, and a message.
_SPEAKER = re.compile(r"\W?(?:\d\d?:\d\d\W+)?[\w.@-]{1,24}(?: [\w.-]{1,16})?(?: \d\d?:\d\d)?\s?[:：]\s+\S")
_BARE_SPEAKER = re.compile(r"[\w.-]{1,16} \d\d?:\d\d$")
_COLUMNS = re.compile(r"\S.{0,200}?\s\|\s|\S{1,200}\t\S")
# Three columns separated by spaces; people type at most two.
_SPACED = re.compile(r"\s{0,40}(?:\S{1,80}(?: \S{1,80}){0,3}(?<![.!?:;。])\s{2,40}){2}\S")
_BOX = re.compile(r"[│┃║┆┊]")
_CODE_END = re.compile(r"[;{}]\s*$|^(?:def|class|import|from|func|fn|return|const|let|var)\s.*[:;({]")
_LEAST_WORDS, _MARGIN = 3, 2
_WORD = re.compile(r"[^\W\d_]+")
_COMMON_WORDS = {
    "en": "the and of to is are that this for with you it not be on must all have by from",
    "de": "der die das und ist nicht ein eine zu den mit auf für von werden nur noch wir ich",
    "es": "el los las y es una para con por se del al que esto lo como más no siempre",
    "fr": "le les et est une pour avec dans du des ce que pas il on nous vous toutes sur",
    "pt": "o os as e é uma para com não do da em no na que isso você sempre por um",
}
_COMMON = {name: frozenset(words.split()) for name, words in _COMMON_WORDS.items()}
COMMON = frozenset().union(*_COMMON.values())
_KANA_LETTER, _HAN_LETTER = re.compile(r"[\u3040-\u30ff]"), re.compile(r"[\u4e00-\u9fff]")
# Largest share of letters of another script.
_MOST_FOREIGN = 0.15
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_BEGINNING = 5
# Words before a place, a part or a time that a statement is about.
_PLACE = re.compile(
    r"\b(?:for|in|on|at|under|within|during|für|im|auf|bei|beim|am|an|während|unter|para|en|durante|bajo|pour|dans"
    r"|sur|chez|pendant|no|na|nos|nas|em)\s+(?:(?:the|our|my|this|that|a|der|die|das|dem|den|unser\w*|mein\w*"
    r"|dies\w*|el|la|los|las|este|esta|mi|le|les|cette|ce|mon|o|os|as|meu|minha|esse|essa)\s+)?([^\W\d]{3,})"
)
_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "＇": "'", "“": '"', "”": '"', "ß": "ss"})
_CODE = re.compile(r"`+[^`\n]*`+")
_LAST_LATIN = "\u024f"
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
_EDGE = r"\b"
# Letters of a common beginning and of a part of a compound that relate two words; bits for sets of such runs.
_ALIKE, _PART, _BITS = 4, 5, 1024


def read_table(name: str) -> Mapping[str, Sequence[str]]:
    """Return a table of `authorship.toml`: lists of regular expressions by name."""
    with open(FILE, "rb") as text:
        return tomllib.load(text)[name]  # type: ignore[no-any-return]


def is_formed(line: str) -> bool:
    """Return True for a line that only a program writes, or a person who quotes (code, log, table)."""
    if _FORMED.match(line[:_SEEN]) is not None or _CODE_END.search(line[-_SEEN:]) is not None:
        return True
    return len(_BOX.findall(line[:_SEEN])) > 1


def is_list(lines: Sequence[str]) -> bool:
    """Return True for lines that are list items, the first one perhaps a heading."""
    items = [_ITEM.match(line) is not None for line in lines]
    return any(items) and all(items[1:]) and not any(is_formed(without_bullet(line)) for line in lines)


def is_item(line: str) -> bool:
    """Return True for a list item."""
    return _ITEM.match(line) is not None


def without_bullet(line: str) -> str:
    """Return a list item without its bullet or number."""
    return _ITEM.sub("", line, count=1)


def is_table(lines: Sequence[str]) -> bool:
    """Return True if at least two lines are in columns."""
    beginnings = [line[:_SEEN] for line in lines]
    return any(sum(each.match(line) is not None for line in beginnings) > 1 for each in (_COLUMNS, _SPACED))


def is_chat(lines: Sequence[str]) -> bool:
    """Return True if at least two lines begin with a speaker."""
    return sum(bool(_SPEAKER.match(line) or _BARE_SPEAKER.match(line)) for line in lines) > 1


def language(text: str) -> str:
    """Guess the language of a text: `en`, `de`, `es`, `fr`, `pt`, `zh` or `ja`, or "" if unsure."""
    han, kana = len(_HAN_LETTER.findall(text)), len(_KANA_LETTER.findall(text))
    words = _WORD.findall(text.lower())
    letters = sum(map(len, words)) or 1
    if (han + kana) / letters >= _MOST_FOREIGN:
        return "ja" if kana else "zh"
    votes = sorted(
        ((sum(word in common for word in words), name) for name, common in _COMMON.items()), reverse=True
    )
    (best, name), (second, _) = votes[:2]
    return name if best >= _LEAST_WORDS and best - second >= _MARGIN else ""


@functools.lru_cache(maxsize=64)
def places_in(text: str) -> tuple[tuple[str, int], ...]:
    """Return the words of a lower-case text that name a place, a part or a time, each with its index."""
    return tuple((match[1], match.start()) for match in _PLACE.finditer(text))


def is_numbered(word: str) -> bool:
    """Return True for a word with a digit."""
    return any(character.isdigit() for character in word)


def are_related(one: str, other: str) -> bool:
    """Return True if two words have a common beginning or part."""
    if one == other:
        return True
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    letters = len(short)
    if letters < _ALIKE:
        return False
    if letters >= _PART and short[: max(_PART, letters - 2)] in long:
        return True
    start = max(_ALIKE, (2 * letters + 2) // 3)
    return short[:start] == long[:start]


class WordIndex:
    """Index of words that finds in a microsecond if one of them is related to another word."""

    __slots__ = ("_begin", "_runs", "_words")

    def __init__(self, words: Sequence[str]) -> None:
        self._words, self._begin, self._runs = words, 0, 0
        for begin, runs in map(_runs_of, words):
            self._begin, self._runs = self._begin | begin, self._runs | runs

    def has_related(self, word: str) -> bool:
        """Return True if a word is related to one of these."""
        if word in self._words:
            return True
        return self._meets(*_runs_of(word)) and any(are_related(word, each) for each in self._words)

    def may_share(self, other: WordIndex) -> bool:
        """Return False if no word is related to one of another index."""
        return self._meets(other._begin, other._runs)

    def _meets(self, begin: int, runs: int) -> bool:
        return bool(begin & (self._begin | self._runs) or runs & self._begin)


@functools.lru_cache(maxsize=4096)
def _runs_of(word: str) -> tuple[int, int]:
    """Return how a word begins, and all runs of letters in it, each as bits of their hashes."""
    runs = [1 << hash(word[at : at + _PART]) % _BITS for at in range(len(word) - _PART + 1)]
    begin = 1 << hash(word[:_ALIKE]) % _BITS
    return begin | (runs[0] if runs else 0), functools.reduce(operator.or_, runs, 0)


def words_said(texts: Iterable[str]) -> frozenset[str]:
    """Return the content words of texts, cut to five letters; pairs of Chinese and Japanese characters."""
    # Imported here, as the worker needs no stemmer.
    from forged.text.same_text import content_words  # noqa: PLC0415

    found: set[str] = set()
    for text in (INVISIBLE.sub("", each) for each in texts):
        words = (word for word in content_words(_IDEOGRAPHS.sub(" ", text)) if word not in COMMON)
        found.update(word if is_numbered(word) else word[:_BEGINNING] for word in words)
        for run in _IDEOGRAPHS.findall(text):
            found.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(found)


@functools.cache
def segment_patterns() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns that tell typed from pasted text, by name, read once from `authorship.toml`."""
    return patterns_of("segments")


def patterns_of(name: str) -> Mapping[str, re.Pattern[str]]:
    """Compile one pattern for each list of a table of `authorship.toml`."""
    return {each: re.compile("|".join(found), re.IGNORECASE) for each, found in read_table(name).items()}


def word_patterns(lists: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a pattern for each word list by name; a list may use earlier ones as `{name}`."""
    words: dict[str, str] = {}
    for name, entries in lists.items():
        words[name] = fill_in(f"(?:{'|'.join(entries)})", words)
    return words


def fill_in(pattern: str, words: Mapping[str, str]) -> str:
    """Replace every `{word}` in a pattern by its list; a count such as `{2,80}` stays."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: words[found[1]], pattern)


def plain(text: str) -> str:
    """Return a text for matching patterns: lower case, no accents, straight quotes, code as `x`."""
    return _CODE.sub("`x`", without_accents(text.lower().translate(_STRAIGHT))).strip()


def without_accents(text: str) -> str:
    """Return a text with Latin letters without accents; other letters stay."""
    return text if text.isascii() else "".join(map(_without_accent, text))


@functools.lru_cache(maxsize=1024)
def _without_accent(letter: str) -> str:
    """Return a Latin letter without its accent, and any other letter as it is."""
    return unicodedata.normalize("NFD", letter)[0] if letter <= _LAST_LATIN else letter


def any_of(found: Iterable[str]) -> str:
    """Join regular expressions into one; those at a word's edge are tried only there.

    Trying a hundred patterns at each letter would take most of the time for a sentence.
    """
    branches = [branch for pattern in found for branch in _branches(pattern)]
    edged = [branch.removeprefix(_EDGE) for branch in branches if branch.startswith(_EDGE)]
    others = [branch for branch in branches if not branch.startswith(_EDGE)]
    return "|".join([*([f"{_EDGE}(?:{'|'.join(edged)})"] if edged else []), *others])


def _branches(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern outside its groups."""
    depth = start = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "|" and not depth:
            yield pattern[start : token.start()]
            start = token.end()
    yield pattern[start:]


def opening(text: str, most: int = MOST_COMPARED) -> str:
    """Return the beginning of a text that is compared: up to `most` characters, cut at a sentence."""
    if len(text) <= most or len(text := text.strip()) <= most:
        return text
    cuts = (cut.match(text, 3 * most // 4, most) for cut in _CUTS)
    return text[: next((found.end() for found in cuts if found), most)].rstrip()


@functools.lru_cache(maxsize=1024)
def without_commits_and_dates(text: str) -> str:
    """Return a text without commit names and days since which something holds."""
    return _COMMIT.sub(" ", _SINCE.sub(" ", text))
