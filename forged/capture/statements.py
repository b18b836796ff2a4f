"""The statements of a window: what a person typed, each with the neighbour that it needs to be understood.

In goes the window of an event, out come the sentences of the user in their order. What was pasted, and what a
harness put there, is the source of no statement (`typed`). `whole` is a statement with its neighbour where it
means nothing alone:

- a complaint with the sentence behind it, which says what to do instead;
- one that points back ("never do that here") with the sentence before it;
- a mere request to keep something with what was said before it;
- a yes with the assistant's sentence that it agrees to, if it names something of it or asks to keep it.

The words are data, `neighbours.toml`, read with the first window. Nothing is raised.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterator, Sequence

import msgspec

from forged.capture.pasted_lines import is_item, is_list
from forged.capture.rules.prose import sentences_of
from forged.capture.typed import Piece, pieces, pieces_of
from forged.conversation import Utterance

FILE = os.path.join(os.path.dirname(__file__), "neighbours.toml")
_STRAIGHT = str.maketrans("’‘＇", "'''")
_MARKS = " \t.,;:!?…。，、！？-–—()\"'"
# Characters of the longest sentence that needs another one, and of the assistant's message that is read.
_SHORT, _READ = 120, 2_000


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


class Neighbours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, one pattern of each table."""

    asks_alone: re.Pattern[str]
    points_back: re.Pattern[str]
    complains: re.Pattern[str]
    agrees: re.Pattern[str]


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
        asks_alone = _matches(_neighbours().asks_alone, text)
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
    if after and _begins(told.complains, text) and not _matches(told.asks_alone, after):
        return f"{text} {after}"
    if before and _begins(told.points_back, text):
        return f"{before} {text}"
    return text


def _agreed(text: str, before: str, after: str, proposed: str, *, asks_alone: bool) -> str:
    """What of the assistant's a sentence says yes to, or asks to keep."""
    if asks_alone:
        return proposed if not before or _is_yes(before) else ""
    if before or not _is_yes(text):
        return ""
    is_named = _matches(_neighbours().asks_alone, after) or _shares(text, proposed)
    return proposed if is_named else ""


def _is_yes(text: str) -> bool:
    return len(text) <= _SHORT and _begins(_neighbours().agrees, text)


def _shares(text: str, proposed: str) -> bool:
    """Whether an answer names something of what was proposed."""
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
def _neighbours() -> Neighbours:
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    return msgspec.convert(
        file, Neighbours, dec_hook=lambda _, found: re.compile("|".join(found), re.IGNORECASE)
    )
