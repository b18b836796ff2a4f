"""Which units of what was said are worth keeping, by what the head says of their texts.

In go units and how much speaks for each text, out come the units above the bar, in their order: at most two
of a message, and no sentence twice. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forged.capture.head.units import Unit

_MOST = 2


def score(unit: Unit, keep: Callable[[str], float]) -> float:
    """Return how much speaks for a unit: its message and its best sentence count alike."""
    return (keep(unit.around) + max(keep(each.text) for each in unit.sentences)) / 2


def chosen(found: Sequence[Unit], keep: Callable[[str], float], bar: float) -> list[Unit]:
    """Return the units to keep."""
    scores = {place: score(unit, keep) for place, unit in enumerate(found)}
    taken: list[int] = []
    for place in sorted(scores, key=lambda each: -scores[each]):
        rivals = [found[other] for other in taken if found[other].message == found[place].message]
        if scores[place] >= bar and len(rivals) < _MOST and not _is_said(found[place], rivals):
            taken.append(place)
    return [found[place] for place in sorted(taken)]


def _is_said(unit: Unit, rivals: Sequence[Unit]) -> bool:
    return any(_has(unit, rival) or _has(rival, unit) for rival in rivals)


def _has(unit: Unit, other: Unit) -> bool:
    return any(each.text in unit.text for each in other.sentences)
