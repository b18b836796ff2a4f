"""Counters of the daemon since its start, as `forgectl status` shows them.

Every limit of the daemon has a counter here that shows how often it was hit.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def summed(one: S, more: S) -> S:
    """Return a copy of one record of counts, with the integer fields of another added."""
    pairs = ((name, getattr(one, name), getattr(more, name)) for name in one.__struct_fields__)
    return msgspec.structs.replace(one, **{name: a + b for name, a, b in pairs if isinstance(a, int)})


class Metrics(msgspec.Struct):
    """Counters of requests, captures, builds and refusals since the start of the daemon."""

    requests: int = 0
    retrieves: int = 0
    retrieve_hits: int = 0
    retrieve_empty: int = 0
    retrieve_timeouts: int = 0
    retrieve_errors: int = 0
    retrieve_fallbacks: int = 0
    retrieve_partial: int = 0
    turn_cache_hits: int = 0
    remembered: int = 0
    forgotten: int = 0
    captures_accepted: int = 0
    captures_coalesced: int = 0
    captures_durable: int = 0
    captures_rejected: int = 0
    captures_replaced: int = 0
    captures_finished: int = 0
    captured: int = 0
    capture_duplicates: int = 0
    capture_invalid: int = 0
    capture_failures: int = 0
    echoes_removed: int = 0
    secrets_redacted: int = 0
    captures_said_again: int = 0
    undone: int = 0
    rebuilds: int = 0
    rebuild_failures: int = 0
    texts_embedded: int = 0
    connections_refused: int = 0
    connections_evicted: int = 0
    foreign_peers_refused: int = 0
    bad_frames: int = 0
    slow_senders_closed: int = 0
    slow_readers_closed: int = 0
    internal_errors: int = 0
    writes_refused_full: int = 0
    writes_refused_forbidden: int = 0
    writes_refused_otherwise: int = 0


class EgressRecord(msgspec.Struct, frozen=True):
    """Addition to the counts of a host and purpose: calls, failures, texts, characters, tokens."""

    host: str
    purpose: str
    calls: int = 0
    failed: int = 0
    texts: int = 0
    characters: int = 0
    tokens: int = 0
