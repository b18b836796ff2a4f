"""What a person asks to be kept, out of one message, in the person's words.

In go the statements of a message, out comes the text to keep: the sentence that asks with those behind it
that say more of the same. A request that says nothing of its own ("note that down") is about what stands
beside it, in the message, in the assistant's answer that it agrees to, or before both. The text is empty
where nobody says what is to be kept, and nothing where nobody asks. Nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from forged.capture.rules.lasting import Veto, speaks_against
from forged.capture.rules.requests import asks, beside_request, without_request
from forged.capture.scope import scope_of
from forged.capture.statements import Statement
from forged.memory import Scope
from forged.text.pieces import CJK

# Characters of a message that is kept whole but for what speaks against it, and of what is kept of a longer
# one; and the sentences behind a request that may say more of it.
BRIEF, LONG, _MORE = 160, 300, 2
# Letters that say something, one of Han or kana as much as two; and behind a colon or with a number.
_SAYS, _LEAST, _NAMES = 22, 12, 4
_NAMED = re.compile(r"[:：].*[^\W_]|\d", re.DOTALL)
# What speaks against a sentence's being part of a request beside it.
_UNRELATED: frozenset[Veto] = frozenset({"question", "irony", "order"})
_WORDS = re.compile(r"[^\W_]")


class Request(msgspec.Struct, frozen=True):
    """What is asked to be kept: the text, and the sentences that it comes from."""

    text: str
    sentences: tuple[Statement, ...]


def request_in(said: Sequence[Statement], before: str = "") -> Request | None:
    """Return what is asked to be kept; `before` is what the person said last before this message."""
    places = [at for at, each in enumerate(said) if _asks(each)]
    if not places:
        return None
    at = places[0]
    first, last = at, at + 1
    is_brief = sum(len(each.text) for each in said) <= BRIEF
    says_nothing = said[at].asks_alone or letters(without_request(said[at].text)) < _SAYS
    while first > 0 and (is_brief or (says_nothing and at == first)) and _adds(said[first - 1]):
        first -= 1
    while last < len(said) and (is_brief or last - at <= _MORE) and _adds(said[last], said[first:last]):
        last += 1
    text = " ".join(each.text for each in said[first:last])
    if last - first == 1 and (said[at].asks_alone or not _says(text)):
        told = (each for each in (said[at].answers, before) if letters(each) >= _LEAST)
        text = f"{next(told, '')} {text}".strip()
    return Request(text if _says(text) else "", tuple(said[first:last]))


def requests_of(said: Sequence[Statement]) -> dict[int, Request]:
    """Return what is asked for in each message that asks, by the message's place."""
    found: dict[int, Request] = {}
    before = ""
    for place in dict.fromkeys(each.message for each in said):
        mine = [each for each in said if each.message == place]
        if (request := request_in(mine, before)) is not None:
            found[place] = request
        before = mine[-1].text
    return found


def scope_of_all(sentences: Sequence[Statement]) -> Scope:
    """Whom sentences are about, but for the words in which they ask."""
    told = [each for each in sentences if letters(without_request(each.text)) >= _SAYS] or sentences
    return Scope.USER if any(_is_of_person(each.text) for each in told) else Scope.REPO


def _is_of_person(text: str) -> bool:
    """Whether a sentence is about the person both with the clause that asks and without it."""
    return scope_of(without_request(text)) is scope_of(beside_request(text)) is Scope.USER


def _says(text: str) -> bool:
    """Whether there is something to keep in it beside the words that ask."""
    told = without_request(text)
    return letters(told) >= (_NAMES if _NAMED.search(told) else _LEAST)


def _asks(sentence: Statement) -> bool:
    return sentence.asks_alone or asks(sentence.text)


def _adds(sentence: Statement, to: Sequence[Statement] = ()) -> bool:
    """Whether a sentence beside a request may be part of it."""
    if sum(len(each.text) for each in to) + len(sentence.text) > LONG:
        return False
    return _asks(sentence) or not speaks_against(sentence.text, _UNRELATED)


def letters(text: str) -> int:
    """Return how much a text says, one of Han or kana as much as two letters."""
    return len(_WORDS.findall(text)) + len(CJK.findall(text))
