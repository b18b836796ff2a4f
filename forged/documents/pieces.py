"""Pieces of a document as memories, with ids made of source, text and position.

The same text from the same source, cut alike, always gets the same ids. Each piece repeats the end of the one
before. A token is four bytes of UTF-8. A piece ends at the last heading within its last 50 tokens, else at
the last sentence or paragraph there, else at the limit, but never inside a character. Every character is in a
piece, except blank ones. Raises nothing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from forged.memory import Category, Memory, Origin, Piece, Scope, Trigger
from forged.text.tokens import BYTES_PER_TOKEN
from forged_client.private_spans import without_private

MOST_BACK = 50
"""So many tokens a piece may be shorter to end well; of small pieces no more than a quarter."""

_MOST_PATH = 200
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(\S[^\n]*)", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)
# A full stop is followed by a blank. After a letter or a number ("e. g.", "3. Mai"), or before a small
# letter, it ends no sentence. Chinese and Japanese marks need no blank.
_END = re.compile(
    r"""(?:(?<![\s.]\w)(?<!^\w)\.|[!?…])[)\]}"'»”’“]*(?=\s)|[。！？｡][」』”’）】》]*|\n[ \t]*(?=\n)""",
    re.MULTILINE,
)
_NUMBER_BEFORE = re.compile(r"(?:^|\s)\d{1,2}\.$")
# Joiners and variation selectors, which belong to the character before.
_JOINING = "\u200d\ufe0e\ufe0f"
_MOST_JOINED = 8


class PieceSpan(msgspec.Struct, frozen=True):
    """Piece of a document's text: the characters from `start` to `end`.

    `headings` are those above its new text, outermost first.
    """

    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Return the headings as one line of at most 200 characters, which keeps the innermost."""
        path = " > ".join(self.headings)
        while len(path) > _MOST_PATH and " > " in path:
            path = path.partition(" > ")[2]
        return path[:_MOST_PATH]


def cut(text: str, size: int, overlap: int, *, markdown: bool = False) -> tuple[PieceSpan, ...]:
    """Cut a text into pieces of at most `size` tokens that overlap by `overlap`, at most half a piece."""
    headings = tuple(_headings(text)) if markdown else ()
    places = _PieceEnds(text, tuple(at for at, _, _ in headings))
    headings_above, pieces, reached = _HeadingCursor(headings), [], 0
    for start, end in _piece_ranges(text, places, size, min(overlap, size // 2)):
        if not text[start:end].isspace():
            pieces.append(PieceSpan(start, end, text[start:end], headings_above.advance_to(reached)))
        reached = end
    return tuple(pieces)


def _piece_ranges(text: str, places: _PieceEnds, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each piece of a text, cut at a heading or sentence end near the limit."""
    start, back = 0, min(MOST_BACK, size // 4)
    while start < len(text):
        last = _end_of_tokens(text, start, size)
        if last == len(text):
            yield start, last
            return
        end = places.best(_start_of_tokens(text, last, back), last) or last
        yield start, end
        start = max(_start_of_tokens(text, end, overlap), start + 1 + (end - start) // 4)


def _end_of_tokens(text: str, start: int, tokens: int) -> int:
    """Return the largest index up to which a text from `start` has at most so many tokens."""
    most = tokens * BYTES_PER_TOKEN
    part = text[start : start + most].encode("utf-8", "replace")[:most]
    return _between_characters(text, start + len(part.decode("utf-8", "ignore")), least=start + 1)


def _start_of_tokens(text: str, end: int, tokens: int) -> int:
    """Return the smallest index from which a text up to `end` has at most so many tokens."""
    most = tokens * BYTES_PER_TOKEN
    part = text[max(0, end - most) : end].encode("utf-8", "replace")
    return _between_characters(
        text, end - len(part[len(part) - min(most, len(part)) :].decode("utf-8", "ignore")), least=0
    )


def _between_characters(text: str, at: int, *, least: int) -> int:
    """Return the index `at`, or the start of the visible character that a cut there would split."""
    for place in range(at, max(at - _MOST_JOINED, least), -1):
        if place >= len(text) or not _is_joined(text[place - 1], text[place]):
            return place
    return at


def _is_joined(before: str, after: str) -> bool:
    """Return True if two characters are displayed as one."""
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if before == "\u200d" or after in _JOINING or unicodedata.combining(after):
        return True
    return "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tone


class _PieceEnds:
    """Good places to end a piece: headings and ends of sentences."""

    def __init__(self, text: str, headings: Sequence[int]) -> None:
        self._headings = headings
        self._sentence_ends = tuple(_sentence_ends(text))

    def best(self, first: int, last: int) -> int:
        """Return the last heading, else sentence end, after `first` and up to `last`; 0 without any."""
        return _last_between(self._headings, first, last) or _last_between(self._sentence_ends, first, last)


def _last_between(places: Sequence[int], first: int, last: int) -> int:
    """Return the last of these sorted indexes after `first` and up to `last`, or 0."""
    number = bisect_right(places, last)
    return places[number - 1] if number and places[number - 1] > first else 0


def _sentence_ends(text: str) -> Iterator[int]:
    """Yield the ends of sentences and paragraphs."""
    for found in _END.finditer(text):
        is_stop = found[0].startswith(".")
        if not (is_stop and _sentence_goes_on(text, found)):
            yield found.end()


def _sentence_goes_on(text: str, found: re.Match[str]) -> bool:
    """Return True if a full stop does not end its sentence: lower case after it, or a number before."""
    before, behind = text[max(0, found.start() - 4) : found.start() + 1], text[found.end() : found.end() + 8]
    return behind.lstrip()[:1].islower() or _NUMBER_BEFORE.search(before) is not None


# A heading: index, level and words.

_Heading = tuple[int, int, str]


def _headings(text: str) -> Iterator[_Heading]:
    """Yield index, level and words of each heading outside code blocks."""
    fences = [(each.start(), each[1]) for each in _FENCE.finditer(text)]
    blocks = tuple(_code_blocks(fences, len(text)))
    starts = tuple(start for start, _ in blocks)
    for found in _HEADING.finditer(text):
        number = bisect_right(starts, found.start()) - 1
        if number < 0 or blocks[number][1] <= found.start():
            yield found.start(), len(found[1]), _heading_words(found[2])


def _heading_words(heading: str) -> str:
    """Return the words of a heading without its closing `#` signs."""
    words = heading[:_MOST_PATH].rstrip()
    plain = words.rstrip("#")
    return " ".join((plain if plain != plain.rstrip() else words).split())


def _code_blocks(fences: Sequence[tuple[int, str]], length: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each code block."""
    opened: tuple[int, str] | None = None
    for at, fence in fences:
        if opened is None:
            opened = at, fence
        elif fence.startswith(opened[1]):
            yield opened[0], at
            opened = None
    if opened is not None:
        yield opened[0], length


class _HeadingCursor:
    """Cursor that returns the headings above an index of a text; the indexes must not decrease."""

    def __init__(self, headings: Sequence[_Heading]) -> None:
        self._left = list(reversed(headings))
        self._open: list[_Heading] = []

    def advance_to(self, index: int) -> tuple[str, ...]:
        """Return the headings above an index, outermost first; never ask for an earlier index after it."""
        while self._left and self._left[-1][0] <= index:
            fresh = self._left.pop()
            self._open = [each for each in self._open if each[1] < fresh[1]] + [fresh]
        return tuple(words for _, _, words in self._open)


_HASH_DIGITS = 32
FROM_DOCUMENT = "ingest"
"""In place of a session."""


def document_id(source: str, text: str, size: int, overlap: int) -> str:
    """Return the id of a document: a hash of its source, its text, the piece size and the overlap."""
    said = f"{source}\0{size}\0{overlap}\0{text}".encode("utf-8", "replace")
    return f"doc_{hashlib.sha256(said).hexdigest()[:_HASH_DIGITS]}"


def text_digest(text: str) -> str:
    """Return the digest of a document's text without private spans, by which a renamed file is known."""
    return hashlib.sha256(without_private(text).encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]


def piece_id(document: str, index: int) -> str:
    """Return the memory id of a document's piece, made of the document's id and the piece's index."""
    return f"mem_{document.removeprefix('doc_')}_{index:05d}"


def document_of(piece: str) -> str:
    """Return the id of the document that a piece belongs to, by the piece's memory id."""
    return f"doc_{piece.removeprefix('mem_').rpartition('_')[0]}"


def pieces(
    source: str, text: str, *, size: int, overlap: int, is_markdown: bool, now: str
) -> tuple[Memory, ...]:
    """Return the pieces of a document as memories, in order, none for a blank text; `now` is their time."""
    document = document_id(source, text, size, overlap)
    cuts = cut(text, size, overlap, markdown=is_markdown)
    return tuple(
        Memory(
            id=piece_id(document, index),
            content=each.text,
            created_at=now,
            updated_at=now,
            version=1,
            scope=Scope.ORG,
            category=Category.PROJECT_CONVENTIONS,
            session_id=FROM_DOCUMENT,
            trigger=Trigger.EXPLICIT,
            origin=Origin.IMPORT,
            cues=_heading_cues(each),
            piece=Piece(document, index, len(cuts), source),
        )
        for index, each in enumerate(cuts)
    )


def _heading_cues(piece: PieceSpan) -> tuple[str, ...]:
    """Return the path of headings above a piece as its one cue, or none if it contains them all."""
    is_said = all(heading in piece.text for heading in piece.headings)
    return () if is_said else (piece.path,)
