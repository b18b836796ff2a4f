"""What a search found as answers: the head of each chain once, and what links lead to.

In go the candidates of a search in their order; out come `Ranked`, best first and hops last. Superseded
memories never show but as older versions of their head. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from forged.map import Candidate, hops
from forged.scopes.source import Ranked
from forged.scopes.view import Key, View

Place = tuple[int, int]
"""A row of a map, by the map's place."""


NOTHING_DECIDED: Mapping[Candidate, str] = MappingProxyType({})
"""Why candidates came of a search without a gate."""


def _always(_source: Place, _target: Place) -> bool:
    return True


def rank(
    view: View,
    candidates: Sequence[Candidate],
    *,
    top_k: int,
    hop_depth: int,
    leads: Callable[[Place, Place], bool] = _always,
    came: Mapping[Candidate, str] = NOTHING_DECIDED,
) -> tuple[Ranked, ...]:
    """Candidates to answers: a chain's head once, with the best score of the chain; then what hops reach.

    `leads` says whether a hop may go from one head to another, and `came` why a candidate was let in.
    """
    best: dict[Key, Ranked] = {}
    for candidate in candidates:
        home = view.maps[candidate.map_index]
        memory = home.at(candidate.row)
        head = home.chains.head_of.get(memory.id)
        key = (candidate.map_index, head or memory.id)
        if key in best:
            continue
        why = came.get(candidate, "")
        found = Ranked(memory, candidate.score, candidate.cosine, candidate.lexical, root=home.root, came=why)
        best[key] = found if head is None else _as_head(view, key, found)
        if len(best) == top_k:
            break
    if not any(each.memory.related for each in best.values()):
        return tuple(best.values())

    def led_to(key: Key) -> Iterator[Key]:
        source = view.maps[key[0]].row_of(key[1])
        for place, head in view.heads_led_to(key):
            row = view.maps[place].row_of(head)
            if source is not None and row is not None and leads((key[0], source), (place, row)):
                yield place, head

    reached = hops(tuple(best), led_to, depth=hop_depth, limit=top_k)
    return (*best.values(), *(_as_head(view, each, via="hop") for each in reached))


def _as_head(view: View, key: Key, found: Ranked | None = None, via: str = "search") -> Ranked:
    """The head of a chain with its older versions, in the place of the version that was found."""
    place, head = key
    home = view.maps[place]
    memory = home.find(head)
    assert memory is not None, "chains and edges name memories of their own map"
    beside = home.chains.beside(head)
    others = [each for each in reversed(view.chain(home, head)) if each.id != head]
    older = tuple(each for each in others if each.id not in beside)
    rivals = tuple(each for each in others if each.id in beside)
    found = found or Ranked(memory, 0.0, via=via, root=home.root, came=via)
    return msgspec.structs.replace(found, memory=memory, older=older, rivals=rivals)
