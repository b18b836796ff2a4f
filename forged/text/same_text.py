"""Decide if two texts say the same: equal except typography, or with a word or two more.

Treating two facts as one loses the second for ever, while a repetition costs a prompt line, so doubt means
different. By vectors "use tabs" and "never use tabs" are closer than most paraphrases. Texts are alike if
their word sequences, without articles and lead-ins, are equal. One may have at most a fifth more words, if
these are ordinary: no function word, negation, number, name or code. Order counts. Only plurals and third
persons are folded, as a full stemmer joins "product" and "production".
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count, zip_longest

import msgspec
import Stemmer

from forged.text.english import STOP_WORDS, TURNING
from forged.text.invisible import INVISIBLE

# --- the same but for typography ------------------------------------------------------------------------

_STRAIGHT = str.maketrans("‘’‚‛“”„‟«»「」『』", "''''" + '"' * 10)
# Only enclosing pairs: in "use *args", "a_b" and "prefer ' over \"" the marks are content.
_CODE = re.compile(r"(`{1,3})(?=[^\s`])([^`]*[^\s`])\1(?!`)")
_HOLE = "\ue000"  # in place of code; a private-use character
_PAIRS = (
    ("*", re.compile(r"(?<![\w*])(\*{1,3})(?=[\w\ue000\"'])([^*]+)(?<=[\w\ue000\"'.!?,:)])\1(?![\w*])")),
    ("_", re.compile(r"(?<!\w)(_)(?=[^\W_])([^_]+)(?<=[^\W_])_(?!\w)")),
    ('"', re.compile(r"(\")(?=[^\s\"])([^\"]*[^\s\"])\"")),
    ("'", re.compile(r"(?<!\w)(')(?=[^\s'])([^']*[^\s'])'(?!\w)")),
)
_BULLET = re.compile(r"^[-*•] (?=[^\W\d_])")
_STOPS = ".,;:!?。、"


def normalised(text: str) -> str:
    """Return a text without differences of case, width, blanks, emphasis, quotes, final stops."""
    return _folded(_plain(text))


def _folded(plain: str) -> str:
    """Return a text without case, final punctuation and backticks, to compare it with another."""
    plain = _CODE.sub(r"\2", plain)
    bare = plain.rstrip(_STOPS)
    # After a space the mark is content: "the separator is ;".
    bare = (plain if bare.endswith(" ") else bare or plain).casefold()
    return bare if bare.isascii() else unicodedata.normalize("NFKC", bare)


def _plain(text: str) -> str:
    """Return a text in one line without quotes, emphasis and bullet; each word of code in backticks."""
    text = INVISIBLE.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_STRAIGHT).replace(_HOLE, "")
    text = " ".join(text.split())
    code = [span[2] for span in _CODE.finditer(text)]
    if code:
        text = _CODE.sub(_HOLE, text)
    for mark, pair in _PAIRS:
        if mark in text:
            text = pair.sub(r"\2", text)
    if code:
        pieces = (" ".join(f"`{word}`" for word in span.split()) for span in code)
        text = "".join(chain.from_iterable(zip_longest(text.split(_HOLE), pieces, fillvalue="")))
    return _BULLET.sub("", text)


# --- a sequence of words --------------------------------------------------------------------------------

# Beginnings of requests to keep something, without negations; they are no content.
_LEAD_IN = re.compile(
    r"""(?:(?:please|also|so|(?:ok|okay|important|reminder|fyi)(?=[,:])|as\ a\ reminder
        |(?:always\ )?remember(?:\ that|\ to)?|note(?:\ that|(?=[,:]))|keep\ in\ mind(?:\ that|(?=[,:]))
        |from\ (?:now|here)\ on|going\ forward|for\ (?:the\ record|future\ reference|next\ time)
        |(?:the\ )?user\ (?:strongly\ )?(?:prefers(?:\ to)?|(?:wants|likes|would\ like)(?:\ (?:us|me)\ to)?)
        |(?:the\ )?user\ asked(?:\ us)?\ to|(?:the\ )?user\ (?:says|said|stated|mentioned|noted)\ that
        |(?:i|we)(?:\ would|'d)?\ (?:strongly\ )?(?:prefer(?:\ to)?|(?:want|like)(?:\ you\ to)?)
        |prefer(?:\ to)?|(?:we|you)\ (?:should|need\ to|have\ to)
      )[,:]?(?:\ |$))+
    |(?:(?:请|請|记住|記住|(?:用户|我)更?(?:偏好|喜欢|希望))[,:\ ]*)+""",
    re.VERBOSE | re.IGNORECASE,
)
_ARTICLES = frozenset(("a", "an", "the", "please"))
_DASHES = frozenset("-–—•")
_READ_AS = {"i": "user", "am": "is", "are": "is", "has": "have", "does": "do", "users": "users"}
_CONTRACTIONS = tuple(
    (re.compile(rf"{short}\b", re.IGNORECASE), long)
    for short, long in (
        (r"\bcannot", "can not"),
        (r"\bcan't", "can not"),
        (r"\bwon't", "will not"),
        (r"(?<=\w)n't", " not"),
        (r"(?<=\w)'m", " am"),
        (r"(?<=\w)'re", " are"),
        (r"(?<=\w)'ve", " have"),
        (r"(?<=\w)'ll", " will"),
    )
)

_IDEOGRAPH = (
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# NFKC makes half-width forms of wide ones; between ideographs they are punctuation too.
_CHUNK = re.compile(rf"[{_IDEOGRAPH}][,;:!?]*|[^\s、。・{_IDEOGRAPH}]+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_TAIL = re.compile(r"(?<=[\w)\]}%+#`])[.,;:!?]+$")
_SENTENCE_END = re.compile(r"(?<=[.!?;:]) ")

# An extra word of these is news. Shorter words are news anyway.
_TURNING = STOP_WORDS | TURNING

# Most words are seen again; long ones are not, and would fill memory.
_CACHED_CHUNKS = 16_384
_CACHED_LENGTH = 24


class _ComparedWord(msgspec.Struct, frozen=True, gc=False):
    """Word in the form to compare; `is_ordinary`: a text with it in addition may still say the same."""

    key: str
    is_ordinary: bool = False


def content_words(text: str) -> tuple[str, ...]:
    """Return content words in order and singular, without lead-ins, articles and stop words."""
    return tuple(word.key for word in _words(_plain(text)) if word.key not in STOP_WORDS)


def _words(plain: str) -> list[_ComparedWord]:
    """Return the words of a text in the form to compare."""
    if "'" in plain or "annot" in plain:
        for short, long in _CONTRACTIONS:
            plain = short.sub(long, plain)
    return [word for sentence in _SENTENCE_END.split(plain) for word in _words_of_sentence(sentence)]


def _words_of_sentence(sentence: str) -> Iterator[_ComparedWord]:
    """Yield the words of a sentence in the form to compare, without a lead-in."""
    lead_in = _LEAD_IN.match(sentence)
    begins = True
    for chunk in _CHUNK.findall(sentence, lead_in.end() if lead_in else 0):
        word = _known_word(chunk, begins) if len(chunk) <= _CACHED_LENGTH else _word(chunk, begins)
        if word is not None:
            yield word
        begins = (begins and word is None) or chunk in _DASHES


def _word(chunk: str, begins: bool) -> _ComparedWord | None:
    """Return the word of a chunk, None for an article or a dash; `begins`: it may begin a sentence."""
    bare = _bare(chunk)
    if not _WORD.fullmatch(bare):
        return None if chunk in _DASHES else _ComparedWord((bare or chunk).casefold())
    lower = bare.casefold()
    if "`" in chunk or (bare != lower and not (begins and bare[1:] == lower[1:])):
        return _ComparedWord(_READ_AS.get(lower, lower))  # a name: Rails is no plural
    if lower in _ARTICLES:
        return None
    is_ordinary = bare == lower and len(lower) > 3 and lower.isascii() and lower not in _TURNING
    return _ComparedWord(_READ_AS.get(lower) or _singular(lower), is_ordinary)


_known_word = lru_cache(_CACHED_CHUNKS)(_word)


def _bare(chunk: str) -> str:
    """Return a chunk without the sentence's punctuation; punctuation of code stays."""
    if chunk[0] == "(" and not chunk.startswith("()"):
        chunk = chunk[1:]
    chunk = _TAIL.sub("", chunk)
    if chunk.endswith(")") and "(" not in chunk:
        chunk = _TAIL.sub("", chunk[:-1])
    return chunk.strip("`")


_stemmer = Stemmer.Stemmer("english", 0)
_stemmer_lock = threading.Lock()  # a Stemmer has one buffer


def _singular(word: str) -> str:
    """Return a word without the -s of a plural or third person, by Snowball."""
    if word in STOP_WORDS or not word.isascii() or "'" in word:
        return word
    with _stemmer_lock:
        stem: str = _stemmer.stemWord(word)
    if word in (stem, f"{stem}s", f"{stem}es", f"{stem}e", f"{stem[:-1]}y"):
        return stem
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word if word.endswith("ss") else word.removesuffix("s")


# --- many texts -----------------------------------------------------------------------------------------


class TextIndex:
    """Index of texts by their words, to find if one says the same as another. Not thread-safe.

    With 10,000 texts of 100 words: 1.2-1.9 s to add all, 1-3 ms for a query, 50 ms at worst, about 60 MB.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._folded: set[str] = set()
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._plain: list[str] = []
        self._sequences: list[tuple[int, ...]] = []
        # By word number: the positions of texts with it.
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        for text in texts:
            self.add(text)

    def __len__(self) -> int:
        return len(self._plain)

    def add(self, text: str) -> None:
        """Add a text to the index, unless one that differs only in typography is there."""
        plain = _plain(text)
        folded = _folded(plain)
        if folded in self._folded:
            return
        self._folded.add(folded)
        sequence = tuple(self._numbers[word.key] for word in _words(plain))
        for number in set(sequence):
            self._holders[number].append(len(self._plain))
        self._plain.append(plain)
        self._sequences.append(sequence)

    def has_like(self, text: str) -> bool:
        """Return True if a text of the index says the same as this one."""
        plain = _plain(text)
        if _folded(plain) in self._folded:
            return True
        words = _words(plain)
        sequence = tuple(self._numbers.get(word.key, -1) for word in words)
        return any(
            _is_part(*sorted((sequence, self._sequences[other]), key=len))
            and self._adds_nothing(sequence, words, other)
            for other in self._candidates(sequence)
        )

    def _candidates(self, sequence: Sequence[int]) -> Iterable[int]:
        """Return the positions of texts that share enough words with a sequence to say the same."""
        # With n words, k of them additions: k <= (n - k) / 5, hence k <= n / 6.
        to_spare = len(sequence) // 6 - sequence.count(-1)
        if to_spare < 0:
            return ()
        known = sorted(set(sequence) - {-1}, key=lambda number: len(self._holders[number]))
        return set(chain.from_iterable(self._holders[number] for number in known[: to_spare + 1]))

    def _adds_nothing(self, sequence: tuple[int, ...], words: Sequence[_ComparedWord], other: int) -> bool:
        """Return True if the longer of two texts has only ordinary words in addition."""
        theirs = self._sequences[other]
        if len(sequence) == len(theirs):
            return True
        if len(theirs) > len(sequence):
            sequence, theirs, words = theirs, sequence, _words(self._plain[other])
        additions = (Counter(sequence) - Counter(theirs)).keys()
        return all(
            word.is_ordinary for number, word in zip(sequence, words, strict=True) if number in additions
        )


def _is_part(shorter: Sequence[int], longer: Sequence[int]) -> bool:
    """Return True if `longer` has `shorter` in order, and at most a fifth more (none below 6)."""
    room = len(shorter) // 5 if len(shorter) >= 6 else 0
    if len(longer) - len(shorter) > room:
        return False
    rest = iter(longer)
    return all(number in rest for number in shorter)
