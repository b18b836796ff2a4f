"""Which turn a retrieve belongs to: in goes the request, out comes the key of what is kept for that turn.

A turn is its user message, the newest one with text that a person typed. What assistant and tools add behind
it changes nothing, so each further model call of a turn has the key of the first. Only that message is read,
and of the others as much as tells a turn without a `turn_id` from the next in which the same is said: its
place since the summary, what was said just before it, and the maps that are there. An agent that cuts its
list from the front has a new key then, which costs one retrieval more; nobody gets what was found for
another message, nor a turn without a name what was found in other memories.

There is no key for who names neither turn nor session: of that nothing is kept.
"""

from __future__ import annotations

import hashlib

import msgspec

from forged.daemon.handlers.heard import newest_typed, said_before
from forged.retrieval import TurnKey
from forged.scopes import Workplace
from forged_client import protocol as wire

_encoded = msgspec.msgpack.Encoder().encode


def key_of(request: wire.Retrieve, place: Workplace) -> TurnKey | None:
    """The key of the turn, for all requests that differ in budget, deadline or generation alone."""
    typed = newest_typed(request.messages, request.last_summary_index)
    if not request.turn_id and not (request.session_id and typed):
        return None
    settings = place.settings
    asked: list[object] = [settings.retrieval_top_k, settings.retrieval_hop_depth, request.hypotheses]
    if typed is not None:
        asked.append(typed.text)
        if not request.turn_id:
            before = said_before(request.messages, request.last_summary_index, typed.place)
            asked += [typed.place, before, place.files.shown()]
    digest = hashlib.blake2b(_encoded(asked), digest_size=16).digest()
    return request.session_id, place.tops, request.turn_id, digest
