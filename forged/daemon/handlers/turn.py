"""Which turn a retrieve belongs to: in goes the request, out comes the key of what is kept for that turn.

A turn is its user message, the newest one with text that a person typed. What assistant and tools add behind
it changes nothing, so each further model call of a turn has the key of the first. Only that message is read,
and of the others as much as tells a turn without a `turn_id` from the next in which the same is said: its
place since the summary, what was said just before it, and the maps that are there. An agent that cuts its
list from the front has a new key then, which costs one retrieval more; nobody gets what was found for
another message, nor a turn without a name what was found in other memories.

There is no key for who names neither turn nor session: of that nothing is kept.

An agent's list grows by a message or two from call to call and may be long. So of a list that goes on as it
was before only the new messages are looked through; what is kept for that are hashes and no text.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from forged.daemon.handlers.heard import is_said, newest_typed, text_of, window_start
from forged.retrieval import TurnKey
from forged.scopes import Workplace
from forged_client import protocol as wire

LISTS = 256
# Messages before a typed one, and characters of each, that tell its turn from one in which the same is said.
_BEFORE, _BEFORE_LENGTH = 8, 4_096

_encoded = msgspec.msgpack.Encoder().encode


class Typed(msgspec.Struct, frozen=True):
    """The newest message that a person typed: its place in the list, and a digest of what was typed."""

    place: int
    digest: bytes


class _Seen(msgspec.Struct, frozen=True):
    """A list as it was: where its window began, its typed message, its length, and two hashes.

    `said` is of that message and `last` of the last one: of a list that goes on both are still the same.
    """

    start: int
    typed: Typed
    length: int
    said: int
    last: int


class Lists:
    """The lists of the newest 256 turns, by the names that agents give them."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()

    def typed(self, name: tuple[str, ...], messages: Sequence[wire.Message], start: int) -> Typed | None:
        """The newest message since `start` that a person typed, if there is one."""
        known = self._seen.get(name)
        if known is not None and not _goes_on(messages, start, known):
            known = None
        found = newest_typed(messages, start if known is None else known.length)
        if found is not None:
            typed, said = Typed(found[0], _digest(found[1])), _hash(messages[found[0]])
        elif known is not None:
            typed, said = known.typed, known.said
        else:
            return None
        self._keep(name, _Seen(start, typed, len(messages), said, _hash(messages[-1])))
        return typed

    def _keep(self, name: tuple[str, ...], seen: _Seen) -> None:
        self._seen[name] = seen
        self._seen.move_to_end(name)
        while len(self._seen) > LISTS:
            self._seen.popitem(last=False)


def key_of(request: wire.Retrieve, place: Workplace, lists: Lists) -> TurnKey | None:
    """The key of the turn, for all requests that differ in budget, deadline or generation alone."""
    if not (request.turn_id or request.session_id):
        return None
    messages, tops = request.messages, place.tops
    start = window_start(messages, request.last_summary_index)
    typed = lists.typed((request.session_id, request.turn_id, *tops), messages, start)
    if typed is None and not request.turn_id:
        return None
    settings = place.settings
    asked: list[object] = [settings.retrieval_top_k, settings.retrieval_hop_depth, request.hypotheses]
    asked += [request.agent, request.mode]  # what a session has heard is not found again
    if typed is not None:
        asked.append(typed.digest)
        if not request.turn_id:
            before = messages[max(typed.place - _BEFORE, start) : typed.place]
            said = [text_of(each)[:_BEFORE_LENGTH] for each in before if is_said(each)]
            asked += [typed.place - start, said, place.shown()]
    return request.session_id, tops, request.turn_id, _digest(asked)


def _goes_on(messages: Sequence[wire.Message], start: int, known: _Seen) -> bool:
    """Whether these messages are those of a list that was seen, with more behind them or without."""
    return (
        known.start == start
        and len(messages) >= known.length
        and _hash(messages[known.length - 1]) == known.last
        and _hash(messages[known.typed.place]) == known.said
    )


def _hash(message: wire.Message) -> int:
    """What stands for a message in this process."""
    return hash((message.role, text_of(message)))


def _digest(value: object) -> bytes:
    return hashlib.blake2b(_encoded(value), digest_size=16).digest()
