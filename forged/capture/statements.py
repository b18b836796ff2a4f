"""The statements of a window: what a person typed, each with the neighbour that it needs to be understood.

In goes the window of an event, out come the sentences of the user in their order. A sentence that means
nothing alone has the one before it beside it (a complaint what is to be done instead, an answer what was
proposed). What was pasted, and what a harness put there, is the source of no statement. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from forged.capture.rules.prose import sentences
from forged.conversation import Utterance
from forged.memory import Scope


class Statement(msgspec.Struct, frozen=True):
    """One sentence of the user, in the user's words, its blank space made single.

    `before`: what the user typed right before it in the same message. `answers`: the end of the assistant's
    message that a message answers, at its first sentence only. `message`: its place in the window. `scope`:
    whom it is about by the evidence in its words, the repository unless it is the person or all projects.
    `is_mixed`: nothing tells it apart for certain from pasted text with orders in it; as an order it waits
    for a person.
    """

    text: str
    before: str = ""
    answers: str = ""
    message: int = 0
    scope: Scope = Scope.REPO
    is_mixed: bool = False


def statements(
    window: Sequence[Utterance], *, begun: bool = False, goes_on: bool = False
) -> tuple[Statement, ...]:
    """All statements of a window; `begun` and `goes_on` are those of its event."""
    last = len(window) - 1
    return tuple(
        each
        for place, utterance in enumerate(window)
        if utterance.role == "user"
        for each in _of_message(window, place, begun=begun and not place, goes_on=goes_on and place == last)
    )


def _of_message(
    window: Sequence[Utterance], place: int, *, begun: bool, goes_on: bool
) -> Iterator[Statement]:
    before, answers = "", _proposed(window, place)
    for text in sentences(window[place].text, begun=begun, goes_on=goes_on):
        yield Statement(text, before, answers, place)
        before, answers = text, ""


def _proposed(window: Sequence[Utterance], place: int) -> str:
    """The last sentence of the assistant right before a message, or nothing."""
    if not place or window[place - 1].role != "assistant":
        return ""
    return next(iter([*sentences(window[place - 1].text)][-1:]), "")
