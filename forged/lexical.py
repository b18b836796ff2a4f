"""The lexical half of a vector map: BM25 over hashed word stems, held in a few numpy arrays.

A leg is a compressed sparse matrix, terms down and memories across: no vocabulary strings and no Python
object per posting, so ten thousand memories cost five megabytes and assemble in tens of milliseconds. Terms
are 32-bit hashes; a collision makes two words one, which costs less than the strings would. What depends on
the whole collection (document frequency, average length) is not in a leg: it is taken at query time over all
legs the request sees, because per-leg statistics let a small unrelated leg crowd in (design.md D18). That is
also why an edit can splice its own postings and leave the rest alone.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain

import msgspec
import numpy as np
import Stemmer
from numpy.typing import NDArray

from forged.english import IRREGULAR, STOP_WORDS

Terms = NDArray[np.uint32]
Scores = NDArray[np.float32]
Ints = NDArray[np.int32]

# The usual BM25 constants; on LoCoMo every pair in 0.9-1.5 x 0.5-0.75 stays within 0.4 points of these.
_K1 = 1.2
_B = 0.75
_MAX_TF = 255
_NO_TERMS = np.empty(0, np.uint32)
# Most pieces of text are met again; the long ones are not, and would fill memory.
_CACHED_CHUNKS = 8192
_CACHED_LENGTH = 24

# Scripts written without spaces, and Korean, whose particles hide the word: indexed as pairs of characters.
_PAIRED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u1049\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and accents, which `\w` leaves out: without them Hindi or Hebrew words fall to pieces.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u0669\u0900-\u0963\u0966-\u0dff"


def _word_pattern(character: str) -> re.Pattern[str]:
    """Words and identifiers: up to eight runs of `character` joined by one separator, or C++ and C#."""
    run = f"{character}{{1,64}}"
    return re.compile(rf"{run}(?:(?:[.'-]|_{{1,2}}){run}){{0,7}}(?:\+\+|#(?!{character}))?")


_ASCII_WORD = _word_pattern("[A-Za-z0-9]")


# The wide classes take 10 ms to compile, which a daemon that meets only English need not spend.
@cache
def _wide_word() -> re.Pattern[str]:
    return _word_pattern(rf"(?:[^\W_{_PAIRED}]|[{_MARKS}])")


@cache
def _pair() -> re.Pattern[str]:
    return re.compile(rf"(?=([{_PAIRED}]{{2}}))|(?<![{_PAIRED}])([{_PAIRED}])(?![{_PAIRED}])")


# Parts of an identifier: HTTPServer is HTTP and Server, APIs is one word, sha256 is sha and 256.
_PART = re.compile(r"[A-Z]{2,}s?(?![a-z])|[A-Z]?[a-z]+|[A-Z]|[0-9]+")
_SEPARATOR = re.compile(r"[._'-]+")
_CONTRACTION = re.compile(r"(?:n't|'(?:s|m|d|re|ve|ll))$")
_JOINERS = str.maketrans("", "", "-_'")

_stemmer = Stemmer.Stemmer("english", 0)
_stemmer_lock = threading.Lock()  # a Stemmer keeps one buffer for the word at hand


def terms(text: str) -> Terms:
    """Return the hashed terms of a text, one for each occurrence, in no meaningful order.

    Lower-cased English stems without stop words; identifiers whole and in parts; pairs of characters where
    words are not separated by spaces. The same text gives the same terms in every process.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'")
    found: list[int] = []
    for chunk in text.split():
        found += _known_chunk(chunk) if len(chunk) <= _CACHED_LENGTH else _chunk(chunk)
    return np.array(found, np.uint32)


def _chunk(chunk: str) -> tuple[int, ...]:
    """Terms of a piece of text without white space."""
    if chunk.isascii():
        return tuple(chain.from_iterable(map(_word_terms, _ASCII_WORD.findall(chunk))))
    found = chain.from_iterable(map(_word_terms, _wide_word().findall(chunk)))
    return (*found, *(_hash("".join(pair)) for pair in _pair().findall(chunk)))


_known_chunk = lru_cache(_CACHED_CHUNKS)(_chunk)


def _word_terms(word: str) -> tuple[int, ...]:
    """Terms of one word or identifier; nothing for a stop word."""
    lower = word.lower()
    if lower in STOP_WORDS:
        return ()
    if "'" in word:
        word = word[: len(_CONTRACTION.sub("", lower))]
    parts = _PART.findall(word) if word.isascii() else _SEPARATOR.split(word)
    if parts == [word]:
        return _part_terms(word)
    # foo_bar, fooBar and foo-bar are one name; 3.1 and 31 are not one number.
    name = word.lower().translate(_JOINERS)
    return (_hash(_stem(name) if name.isalpha() else name), *chain.from_iterable(map(_part_terms, parts)))


def _part_terms(part: str) -> tuple[int, ...]:
    part = part.lower()
    return () if part in STOP_WORDS else (_hash(_stem(part)),)


def _stem(word: str) -> str:
    with _stemmer_lock:
        stem: str = _stemmer.stemWord(IRREGULAR.get(word, word))
    return stem


def _hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


class LexicalLeg(msgspec.Struct, frozen=True, eq=False):
    """Postings of one map: `rows[offsets[i]:offsets[i + 1]]` are the memories that hold `terms[i]`.

    `terms` uint32 (t,) ascending and unique; `offsets` int32 (t + 1,); `rows` int32 (p,) ascending within a
    term; `counts` uint8 (p,), occurrences up to 255; `lengths` int32 (n,), number of terms of each memory.
    """

    terms: Terms
    offsets: Ints
    rows: Ints
    counts: NDArray[np.uint8]
    lengths: Ints

    def __len__(self) -> int:
        """Count the memories, those without a single term included."""
        return len(self.lengths)

    @classmethod
    def empty(cls, size: int) -> LexicalLeg:
        """Stand in for the leg of that many memories while it is not built: nothing matches."""
        return cls.build([_NO_TERMS] * size)

    @classmethod
    def build(cls, docs: Sequence[Terms]) -> LexicalLeg:
        """Assemble the leg of memories 0 to n - 1 from their terms."""
        found, rows, counts = _postings(np.arange(len(docs), dtype=np.int32), docs)
        first = _first_of_each(found)
        return cls(found[first], np.append(first, np.int32(len(rows))), rows, counts, _lengths(docs))

    def splice(
        self, *, kept_old: Ints, kept_new: Ints, added_new: Ints, added: Sequence[Terms], size: int
    ) -> LexicalLeg:
        """Return the leg after an edit; equal, array by array, to one built from scratch.

        Args:
            kept_old: rows of this leg that stay, strictly ascending.
            kept_new: where each of them goes, strictly ascending: memories keep their order.
            added_new: rows of new and changed memories, in any order.
            added: their terms.
            size: memories afterwards; every row is in `kept_new` or `added_new`.
        """
        found, fresh, fresh_counts = _postings(added_new, added)
        names, frequency, rows, counts = self._renumbered(kept_old, kept_new)
        unknown = np.unique(found)
        unknown = unknown[_find(names, unknown) < 0]
        place = np.searchsorted(names, unknown)
        names, frequency = np.insert(names, place, unknown), np.insert(frequency, place, 0)

        term = np.searchsorted(names, found)
        ends = np.cumsum(frequency)
        at = _insertion_points(rows, ends[term] - frequency[term], ends[term], fresh)
        frequency += np.bincount(term, minlength=len(names))
        used = frequency > 0

        lengths = np.zeros(size, np.int32)
        lengths[kept_new] = self.lengths[kept_old]
        lengths[added_new] = _lengths(added)
        return LexicalLeg(
            names[used],
            _offsets(frequency[used]),
            np.insert(rows, at, fresh),
            np.insert(counts, at, fresh_counts),
            lengths,
        )

    def spans(self, wanted: Terms) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where the postings of each wanted term start and stop; the same place for an unknown term."""
        at = _find(self.terms, wanted)
        start = self.offsets[at]
        return start, np.where(at < 0, start, self.offsets[at + 1])

    def _renumbered(
        self, kept_old: Ints, kept_new: Ints
    ) -> tuple[Terms, NDArray[np.int64], Ints, NDArray[np.uint8]]:
        """Terms, their number of postings, rows and counts, of the memories that stay."""
        target = np.full(len(self), -1, np.int32)
        target[kept_old] = kept_new
        rows, counts = target.take(self.rows), self.counts  # twice as fast as indexing
        frequency = np.diff(self.offsets).astype(np.int64)
        stays = rows >= 0
        gone = np.flatnonzero(~stays)
        if len(gone):
            term = np.searchsorted(self.offsets, gone, side="right") - 1
            frequency -= np.bincount(term, minlength=len(self.terms))
            rows, counts = rows[stays], counts[stays]
        return self.terms, frequency, rows, counts


def scores(legs: Sequence[LexicalLeg], queries: Sequence[Terms]) -> Scores:
    """BM25 of every memory for every query, as float32 of shape (queries, rows of all legs in turn).

    Zero means that no term matches. Scores are divided by the weight of the query's known terms, so that a
    long and a short query can be compared: 1 is about what a memory with each of them once reaches.
    """
    asked = _Asked.of(legs, queries)
    weight = asked.rarity * (_K1 + 1) / asked.total(asked.rarity * (asked.frequency > 0))
    average = max(1.0, sum(int(leg.lengths.sum()) for leg in legs) / max(1, sum(map(len, legs))))
    return np.hstack([asked.summed(leg, weight, _length_norm(leg, average)) for leg in legs])


def matched_shares(legs: Sequence[LexicalLeg], queries: Sequence[Terms]) -> Scores:
    """How much of each query a memory matches, 0 to 1, same shape as `scores`.

    Terms weigh by their rarity, and a term that no memory holds weighs most: a question about something that
    was never said matches nothing well (design.md section 5, `retrieval_min_score`).
    """
    asked = _Asked.of(legs, queries)
    weight = asked.rarity / asked.total(asked.rarity)
    return np.hstack([asked.summed(leg, weight, None) for leg in legs])


class _Asked(msgspec.Struct, frozen=True, eq=False):
    """Distinct terms of all queries, each (t,): whose it is, how many memories hold it, how rare that is."""

    queries: int
    terms: Terms
    owner: NDArray[np.int64]
    frequency: NDArray[np.int64]
    rarity: NDArray[np.float64]

    @classmethod
    def of(cls, legs: Sequence[LexicalLeg], queries: Sequence[Terms]) -> _Asked:
        unique = [np.unique(query) for query in queries]
        wanted = np.concatenate([*unique, _NO_TERMS])
        owner = np.repeat(np.arange(len(queries)), [len(query) for query in unique])
        frequency = np.zeros(len(wanted), np.int64)
        for leg in legs:
            start, stop = leg.spans(wanted)
            frequency += stop - start
        size = sum(map(len, legs))
        rarity = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
        return cls(len(queries), wanted, owner, frequency, rarity)

    def total(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give each term the sum of its query's weights, or 1 where that is nothing."""
        sums = np.bincount(self.owner, weight, self.queries)[self.owner]
        return np.where(sums > 0, sums, 1)

    def summed(
        self, leg: LexicalLeg, weight: NDArray[np.float64], norm: NDArray[np.float32] | None
    ) -> Scores:
        """Add the weights of the terms that match, (queries, rows), damped by `norm` (rows,) if given."""
        if not len(self.terms):
            return np.zeros((self.queries, len(leg)), np.float32)
        start, stop = leg.spans(self.terms)
        spans = list(map(slice, start.tolist(), stop.tolist()))
        found = stop - start
        rows = np.concatenate([leg.rows[span] for span in spans]).astype(np.intp)
        value = np.repeat(weight.astype(np.float32), found)
        if norm is not None:
            tf = np.concatenate([leg.counts[span] for span in spans]).astype(np.float32)
            value *= tf
            tf += norm.take(rows)
            value /= tf
        rows += np.repeat(self.owner * len(leg), found)
        sums = np.bincount(rows, value, self.queries * len(leg))
        return sums.astype(np.float32).reshape(self.queries, len(leg))


def _length_norm(leg: LexicalLeg, average: float) -> NDArray[np.float32]:
    norm: NDArray[np.float32] = (_K1 * (1 - _B + _B / average * leg.lengths)).astype(np.float32)
    return norm


def _find(names: Terms, wanted: Terms) -> NDArray[np.int64]:
    """Position of each wanted term in the ascending `names`, -1 where it is unknown."""
    if not len(names):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[at] == wanted, at, -1)


def _postings(rows: Ints, docs: Sequence[Terms]) -> tuple[Terms, Ints, NDArray[np.uint8]]:
    """Sorted by term and row: term, row and number of occurrences of each pair.

    Works in place on one array of 64-bit pairs, because what this holds for a moment stays with the process.
    """
    pairs = np.concatenate([*docs, _NO_TERMS], dtype=np.uint64)
    pairs <<= np.uint64(32)
    pairs |= np.repeat(rows.astype(np.uint32), _lengths(docs))
    pairs.sort()
    first = _first_of_each(pairs)
    counts = np.minimum(np.diff(first, append=np.int32(len(pairs))), _MAX_TF).astype(np.uint8)
    pairs = pairs[first]
    own_rows = pairs.astype(np.uint32).view(np.int32)  # the lower half
    pairs >>= np.uint64(32)
    return pairs.astype(np.uint32), own_rows, counts


def _first_of_each(ascending: NDArray[np.uint32] | NDArray[np.uint64]) -> Ints:
    """Positions where a new value begins."""
    begins = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    return np.flatnonzero(begins).astype(np.int32)


def _insertion_points(
    rows: Ints, low: NDArray[np.int64], high: NDArray[np.int64], wanted: Ints
) -> NDArray[np.int64]:
    """Bisect many ascending stretches `rows[low:high]` at once, each for its own wanted row."""
    low, high = low.copy(), high.copy()
    while len(unsure := np.flatnonzero(low < high)):
        middle = (low[unsure] + high[unsure]) // 2
        after = rows[middle] < wanted[unsure]
        low[unsure[after]] = middle[after] + 1
        high[unsure[~after]] = middle[~after]
    return low


def _offsets(frequency: NDArray[np.int64]) -> Ints:
    return np.concatenate(([0], np.cumsum(frequency))).astype(np.int32)


def _lengths(docs: Sequence[Terms]) -> Ints:
    return np.fromiter(map(len, docs), np.int32, len(docs))
