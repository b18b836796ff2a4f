"""The few memories of a map that matter for some proposals: what says the like, and what they name.

Pure functions over a map; ten thousand memories cost some milliseconds a proposal.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

import numpy as np

from forged.capture.rules.slots import opening
from forged.capture.values import KnownMemory, Proposal
from forged.config import LOCAL
from forged.map import VectorMap, search_maps
from forged.memory import Memory
from forged.models import query_vectors

# A text that says the same has nearly all words in common, so it is among the very first.
_NEAREST = 40
_MOST_OF_SESSION = 200
_MOST_NAMED = 100
# Without an index of words: how much longer one of two texts can be that say the same, a lead-in included.
_STRETCH, _LEAD_IN = 1.5, 80


def candidates(
    home: VectorMap, session_id: str, proposals: Sequence[Proposal], rows: Mapping[str, bytes]
) -> list[Memory]:
    """Memories of a map that proposals of a session are compared with, and all versions of what they name.

    Compared with is what says the like, with all its versions, what its row is near to, and what came from
    the same session.
    """
    found = {each.id: each for each in _of_session(home, session_id)}
    for proposal in proposals:
        row = rows.get(opening(proposal.content.strip()), b"")
        like = (*_like(home, proposal.content), *_near_by_row(home, row))
        named = (*(each.id for each in like), proposal.supersedes, *(edge.id for edge in proposal.related))
        found |= {each.id: each for each in _versions(home, named)}
    return list(found.values())


def nearest(home: VectorMap, content: str, row: bytes, most: int) -> list[Memory]:
    """At most so many memories that come nearest to a text by words and by its row, with their versions."""
    by_words = _nearest(home, content) if home.has_words else ()
    turns = chain.from_iterable(zip_longest(by_words, _near_by_row(home, row)))
    ids = dict.fromkeys(each.id for each in turns if each is not None)
    found = {each.id: each for each in _versions(home, islice(ids, most))}
    return list(found.values())[:most]


def naming(home: VectorMap, names: Iterable[str]) -> Iterator[KnownMemory]:
    """Heads of a map whose first line, its opening if it is long, names one of `names`; a hundred of each."""
    lines = [(opening(found.first_line), found) for found in home.memories if home.chains.is_head(found.id)]
    lowered = [line.lower() for line, _ in lines]
    for name in map(str.lower, names):
        places = (place for place, line in enumerate(lowered) if name in line)
        for line, found in (lines[place] for place in islice(places, _MOST_NAMED)):
            yield KnownMemory(found.id, found.scope, found.category, line)


def _versions(home: VectorMap, ids: Iterable[str]) -> Iterator[Memory]:
    versions = (home.find(version) for each in ids for version in home.chains.chain(each))
    return (each for each in versions if each is not None)


def _near_by_row(home: VectorMap, row: bytes) -> Iterator[Memory]:
    """What is near by vectors, where the map has those of the model that made the row."""
    key = next((leg.key for leg in home.dense if leg.key.startswith(f"{LOCAL}\n")), None)
    if not row or key is None:
        return
    vectors = query_vectors(np.frombuffer(row, np.float32)[None])
    found = search_maps((home,), texts=(), vectors=vectors, lexical_weight=0.0, key=key)
    yield from (home.at(candidate.row) for candidate in found.best(_NEAREST))


def _of_session(home: VectorMap, session_id: str) -> list[Memory]:
    own = [found for found in home.memories if found.session_id == session_id]
    return sorted(own, key=operator.attrgetter("created_at"))[-_MOST_OF_SESSION:]


def _like(home: VectorMap, content: str) -> Iterator[Memory]:
    return _nearest(home, content) if home.has_words else _of_like_length(home, content)


def _nearest(home: VectorMap, content: str) -> Iterator[Memory]:
    found = search_maps((home,), texts=(content,), vectors=None, lexical_weight=1.0)
    return (home.at(candidate.row) for candidate in found.best(_NEAREST))


def _of_like_length(home: VectorMap, content: str) -> Iterator[Memory]:
    size = len(content)
    least, most = (size - _LEAD_IN) / _STRETCH, size * _STRETCH + _LEAD_IN
    return (found for found in home.memories if least <= len(found.content) <= most)
