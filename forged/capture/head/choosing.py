"""Which units of what was said are worth keeping, by what the head says of their texts.

In go units and how much speaks for each text, out come the units above the bar, in their order: at most two
of a message, each with the sentences beside it that are likely to be worth keeping too, and no sentence
twice. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forged.capture.head.head import Leanings
from forged.capture.head.units import LONG, Unit

_MOST = 2
# What a message counts, and its best sentence beside it.
_MESSAGE = 0.5


def score(unit: Unit, says: Callable[[str], float]) -> float:
    """Return how much speaks for a unit: half its best sentence, half the message that it stands in.

    A sentence that is likelier not to be meant is not helped by its message.
    """
    best = max(says(each.text) for each in unit.sentences)
    return _MESSAGE * says(unit.around) + (1 - _MESSAGE) * best if best >= 0 else best


def asking(here: Sequence[Unit], judged: Mapping[str, Leanings]) -> float:
    """Return how much speaks for it that the units of one message ask for something to be remembered."""
    return max(score(unit, lambda text: judged[text].asks) for unit in here)


def best_of(here: Sequence[Unit], keep: Callable[[str], float]) -> Unit:
    """Return what of one message is most likely to be worth keeping, whatever its bar."""
    place = max(range(len(here)), key=lambda each: score(here[each], keep))
    return _together(here[max(0, place - 1) : place + 2], here[place], keep)


def chosen(found: Sequence[Unit], keep: Callable[[str], float], bar: float) -> list[Unit]:
    """Return the units to keep."""
    scores = [score(unit, keep) for unit in found]
    taken: dict[int, Unit] = {}
    for place in sorted(range(len(found)), key=lambda each: -scores[each]):
        unit = found[place]
        rivals = [other for other in taken.values() if other.message == unit.message]
        if scores[place] >= bar and len(rivals) < _MOST and not _is_said(unit, rivals):
            beside = found[max(0, place - 1) : place + 2]
            taken[place] = _together([each for each in beside if not _is_said(each, rivals)], unit, keep)
    return [taken[place] for place in sorted(taken)]


def _together(beside: Sequence[Unit], unit: Unit, keep: Callable[[str], float]) -> Unit:
    """A unit with those right beside it that are more likely to be worth keeping than not."""
    mine = [each for each in beside if each.message == unit.message]
    likely = [each for each in mine if each is unit or keep(each.sentences[0].text) > 0]
    sentences = tuple(sentence for each in likely for sentence in each.sentences)
    text = " ".join(each.text for each in sentences)
    return Unit(text, sentences, unit.around) if len(likely) > 1 and len(text) <= LONG else unit


def _is_said(unit: Unit, rivals: Sequence[Unit]) -> bool:
    return any(_has(unit, rival) or _has(rival, unit) for rival in rivals)


def _has(unit: Unit, other: Unit) -> bool:
    return any(each.text in unit.text for each in other.sentences)
