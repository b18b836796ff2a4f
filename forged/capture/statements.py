"""Find the statements that a person typed in a window, and the provenance of proposals.

A statement's `whole` has the neighbour that it needs: a complaint the sentence behind it, a back reference or
a bare request the one before, a yes the assistant's sentence that it agrees to. `Provenance` of a proposal:
`foreign` was pasted or quoted by the assistant, where nobody typed a word of it or asked to keep something;
`mixed` has words of foreign text alone (a model's a single one) or is a model's of which less than two fifths
were typed, and waits for a person; next to a brief it is foreign; all else is `ours`, agreed proposals too.
Words are compared by their beginnings, without the commonest; a pasted number is foreign. Raises nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from forged.capture.authorship import Piece, pieces, pieces_of, sentences_of
from forged.capture.forms import is_item, is_list, is_numbered, patterns_of, words_said
from forged.capture.rules.requests import asks
from forged.conversation import Utterance

_STRAIGHT = str.maketrans("’‘＇", "'''")
_MARKS = " \t.,;:!?…。，、！？-–—()\"'"
# Characters of the longest sentence that needs another one, and of the assistant's message that is read.
_SHORT, _READ = 120, 2_000
# Of words that are found in foreign text alone; one may be chance, unless it is a number or a name with one.
_LEAST = 2
# Of a model's words, what must have been typed where something was pasted. Measured on tests/data/said/dev
# beside code and logs: of what people order in a model's words a twelfth waits; at half, and by whole words,
# a fifth did.
_TYPED = 0.4
# Characters of what a person is shown of the text beside a proposal.
_SHOWN = 1_200

Authorship = Literal["ours", "mixed", "foreign"]


class Statement(msgspec.Struct, frozen=True):
    """One sentence of the user, in the user's words, its blank space made single.

    `before`: what the user typed before it in the same message. `answers`: the end of the assistant's message
    that a message answers, at its first sentence only. `message`: its place in the window, `around`: its text
    without what was pasted into it, which asks for nothing and speaks for nothing. `is_mixed`: nothing tells
    it apart for certain from pasted text; as an order it waits for a person. `whole`: it and the neighbours
    that it needs. `asks_alone`: it is a request to keep another one.
    """

    text: str
    before: str = ""
    answers: str = ""
    message: int = 0
    around: str = ""
    is_mixed: bool = False
    whole: str = ""
    asks_alone: bool = False


def statements(
    window: Sequence[Utterance], *, begun: bool = False, goes_on: bool = False
) -> tuple[Statement, ...]:
    """All statements of a window; `begun` and `goes_on` are those of its event."""
    return tuple(
        each
        for place, found in pieces_of(window, begun=begun, goes_on=goes_on)
        for each in _of_message(window, place, found)
    )


def _of_message(window: Sequence[Utterance], place: int, found: Sequence[Piece]) -> Iterator[Statement]:
    said = [*_said(found)]
    proposed = _proposed(window, place) if said else ""
    around = "\n\n".join(piece.text for piece in found if piece.of in ("typed", "unsure"))
    for at, (text, heading, is_mixed) in enumerate(said):
        before = heading or (said[at - 1][0] if at else "")
        after = "" if heading or at + 1 == len(said) else said[at + 1][0]
        asks_alone = _matches(_neighbours()["asks_alone"], text)
        own = before or text if asks_alone else _needed(text, before, after)
        agreed = _agreed(text, before, after, proposed, asks_alone=asks_alone) if proposed and at <= 1 else ""
        yield Statement(
            text,
            before,
            "" if at else proposed,
            place,
            around,
            is_mixed,
            " ".join(filter(None, (agreed, own))),
            asks_alone,
        )


def _said(found: Sequence[Piece]) -> Iterator[tuple[str, str, bool]]:
    """Each sentence, the line that it stands below as an item of a list, and whether it is mixed."""
    last = ""
    for piece in found:
        is_items = is_list(piece.lines)
        heading = last if is_items and last.endswith((":", "：")) else ""
        for at, text in enumerate(sentences_of(piece)):
            yield text, heading, piece.of == "unsure"
            if is_items and not at and not is_item(piece.lines[0]):
                heading = text
            last = text


def _needed(text: str, before: str, after: str) -> str:
    """A sentence with those of the person's that it needs, in the order in which they were said."""
    told = _neighbours()
    if len(text) > _SHORT:
        return text
    if after and _begins(told["complains"], text) and not _matches(told["asks_alone"], after):
        return f"{text} {after}"
    if before and _begins(told["points_back"], text):
        return f"{before} {text}"
    return text


def _agreed(text: str, before: str, after: str, proposed: str, *, asks_alone: bool) -> str:
    if asks_alone:
        return proposed if not before or _is_yes(before) else ""
    if before or not _is_yes(text):
        return ""
    is_named = _matches(_neighbours()["asks_alone"], after) or _shares(text, proposed)
    return proposed if is_named else ""


def _is_yes(text: str) -> bool:
    return len(text) <= _SHORT and _begins(_neighbours()["agrees"], text)


def _shares(text: str, proposed: str) -> bool:
    # Few answers come here, and its stemmer is not to be held by every worker.
    from forged.text.same_text import content_words  # noqa: PLC0415

    return not set(content_words(text)).isdisjoint(content_words(proposed))


def _begins(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.match(text.translate(_STRAIGHT).lstrip(_MARKS)) is not None


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    bare = text.translate(_STRAIGHT).strip(_MARKS)
    return bool(bare) and len(bare) <= _SHORT and pattern.fullmatch(bare) is not None


def _proposed(window: Sequence[Utterance], place: int) -> str:
    """The last sentence of the assistant right before a message that is no question, or nothing."""
    if not place or window[place - 1].role != "assistant":
        return ""
    told = [each for piece in pieces(window[place - 1].text[-_READ:]) for each in sentences_of(piece)]
    return next((each for each in reversed(told) if each[-1] not in "?？"), told[-1] if told else "")


@functools.cache
def _neighbours() -> Mapping[str, re.Pattern[str]]:
    return patterns_of("neighbours")


class Provenance:
    """The words of one window by their origin; `begun` and `goes_on` are those of its event."""

    def __init__(self, window: Sequence[Utterance], *, begun: bool = False, goes_on: bool = False) -> None:
        own = pieces_of(window, begun=begun, goes_on=goes_on)
        found = [piece for _, pieces in own for piece in pieces]
        typed = [piece.text for piece in found if piece.of == "typed"]
        self._pasted = [piece for piece in found if piece.of != "typed"]
        self._pasted += [piece for each in window if each.role == "assistant" for piece in _quoted(each.text)]
        said = statements(window, begun=begun, goes_on=goes_on) if self._pasted else ()
        agreed = [each.whole for each in said if not each.is_mixed]
        self._typed = words_said((*typed, *agreed))
        self._unsure = words_said(piece.text for piece in found if piece.of == "unsure") - self._typed
        self._foreign = words_said(piece.text for piece in self._pasted) - self._typed
        self._is_asked = any(map(asks, typed))
        self._brief = words_said(piece.text for piece in found if piece.of == "brief") - self._typed

    def of(self, content: str, *, by_model: bool) -> Authorship:
        """Return the speaker whose words support a proposal."""
        if not self._pasted:
            return "ours"
        said = words_said((content,))
        found = self._judged(said, by_model=by_model)
        is_of_brief = self._brief and (said & self._brief or not said & self._unsure)
        return "foreign" if found == "mixed" and is_of_brief else found

    def _judged(self, said: frozenset[str], *, by_model: bool) -> Authorship:
        foreign, typed = said & self._foreign, said & self._typed
        if len(foreign) >= _LEAST or any(map(is_numbered, foreign)):
            may_be_meant = self._is_asked or typed or not said.isdisjoint(self._unsure)
            return "mixed" if may_be_meant else "foreign"
        return "mixed" if by_model and (foreign or len(typed) < _TYPED * len(said)) else "ours"

    def beside(self, content: str) -> str:
        """What was pasted, that first of which a proposal has words."""
        said = words_said((content,))

        def strangeness(piece: Piece) -> int:
            return -len(said & words_said((piece.text,)))

        return "\n\n".join(_short(sorted(self._pasted, key=strangeness)))


def _quoted(text: str) -> Iterator[Piece]:
    """What the assistant quotes is nobody's word here; what it says itself may be agreed to."""
    if lines := tuple(line for line in text.splitlines() if line.lstrip().startswith(">")):
        yield Piece(lines, "foreign")


def _short(found: Iterable[Piece]) -> Iterator[str]:
    left = _SHOWN
    for piece in found:
        if left > 0:
            yield piece.text if len(piece.text) <= left else f"{piece.text[: left - 1]}…"
            left -= len(piece.text)
