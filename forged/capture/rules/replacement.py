"""Decide which earlier statement a newer one replaces.

Input: texts of one scope, and their vectors if any (of a long text, of its `opening`). Output: the index of
the replaced text, or None. A wrong replacement hides a valid memory and a missed one shows both, so doubt
means no replacement. With vectors `pair_model` decides, without them weights set by hand.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from itertools import takewhile

from forged.capture.rules.pair_model import NO_ROWS, RowsOf, pair_model
from forged.capture.rules.slots import (
    PairSigns,
    are_parallel,
    clauses,
    gives_up,
    is_about_the_same,
    opening,
    pair_signs,
    says_something,
    signs_of_clauses,
    without_commits_and_dates,
    word_lists,
)

# Least weight in nats of a replacement, and of one that a model proposes.
_ENOUGH, _PROPOSED = 0.8, 0.5
# Least weight of a possible replacement, which a person should see.
_DOUBTED = -0.7
_NAMES = re.compile(r"\w[\w.-]*\w|\w")
_SENTENCE = 3  # words of a sentence that says something by itself
# Least share of the older text's subject that the newer one names, in general and with another value; and
# most unknown words.
_SAME, _SAME_SLOT, _STRANGE = 0.5, 0.3, 0.5


def replaced_by(
    newer: str,
    older: Sequence[str],
    *,
    rows: RowsOf = NO_ROWS,
    penalty: float = 0.0,
    among: float = 0.0,
    penalties: Sequence[float] = (),
    plainly: bool = False,
) -> int | None:
    """Return the index of the text among `older` that `newer` replaces, or None.

    The texts must show it (`is_evident`, with `plainly` or without). `penalty`, and `penalties` of each older
    text, raise the bar, as does the number of memories that they are `among`. A text without a vector is too
    far from the others.
    """
    newer, older = opening(newer), [*map(opening, older)]
    if newer not in rows:
        return _replaced_by_words(
            newer, older, penalty=penalty, among=among, penalties=penalties, plainly=plainly
        )
    bar = pair_model().bar + penalty + math.log(among or max(1, len(older)))
    least = [bar + more for more in penalties or [0.0] * len(older)]
    for place in _indexes_above_bar(newer, older, rows, least):
        if is_evident(newer, older[place], plainly=plainly):
            return place
    return _index_of_given_up(newer, older)


def may_contradict(newer: str, older: Sequence[str], *, rows: RowsOf = NO_ROWS) -> int | None:
    """Return the index of the text among `older` that may contradict `newer`, or None."""
    newer, older = opening(newer), [*map(opening, older)]
    if newer not in rows:
        return _contradicted_by_words(newer, older)
    return next(iter(_indexes_above_bar(newer, older, rows, [pair_model().doubted] * len(older))), None)


def may_replace(newer: str, older: str, *, rows: RowsOf = NO_ROWS) -> bool:
    """Return True if the texts support a replacement that a model proposes."""
    newer, older = opening(newer), opening(older)
    if newer not in rows or older not in rows:
        return _may_replace_by_words(newer, older)
    is_shown = is_evident(newer, older) or _ends_otherwise(newer, older)
    return is_shown and pair_model().scores(newer, [older], rows)[0] > pair_model().proposed


def _indexes_above_bar(newer: str, older: Sequence[str], rows: RowsOf, least: Sequence[float]) -> list[int]:
    """Return the indexes of older texts with a model score above their bar, best first."""
    places = [place for place, text in enumerate(older) if text in rows]
    scores = pair_model().scores(newer, [older[place] for place in places], rows)
    above = {place: score - least[place] for place, score in zip(places, scores, strict=True)}
    return sorted((place for place in places if above[place] > 0), key=lambda place: -above[place])


def _replaced_by_words(
    newer: str,
    older: Sequence[str],
    *,
    penalty: float = 0.0,
    among: float = 0.0,
    penalties: Sequence[float] = (),
    plainly: bool = False,
) -> int | None:
    """Return the index of the text that a newer one replaces, judged without vectors, or None."""
    penalties = penalties or [0.0] * len(older)
    weights = _weights(newer, older, penalties)
    # Evidence is slow, so only likely texts are checked, the likeliest first.
    likely = [place for place, weight in enumerate(weights) if weight > _ENOUGH + penalty]
    for place in sorted(likely, key=lambda at: -weights[at]):
        if is_evident(newer, older[place], plainly=plainly):
            is_sure = weights[place] - math.log(among or len(older)) > _ENOUGH + penalty
            return (
                place
                if is_sure or _is_plain_replacement(newer, older[place], penalty + penalties[place])
                else None
            )
    return None


def is_evident(newer: str, older: str, *, plainly: bool = False) -> bool:
    """Return True if the wording of a newer and an older text shows a replacement.

    The newer one gives up the older text's value, or puts another value in its slot. Without `plainly`, a
    sign of change about the same subject is enough. Parallel statements ("commits in English", "notes in
    German") show nothing, nor does giving up something else.
    """
    named = gives_up(newer, older)
    if named is False or are_parallel(newer, older):
        return False
    is_change = pair_signs(newer, older).change > 0
    is_same = is_about_the_same(newer, older)
    found = signs_of_clauses(without_commits_and_dates(newer), without_commits_and_dates(older))
    return any(
        named or _shows_replacement(each, plainly=plainly, is_change=is_change, is_same=is_same)
        for each in found
    )


def _index_of_given_up(newer: str, older: Sequence[str]) -> int | None:
    """Return the index of the older text that the newer one names as given up, if it is only one."""
    places = [
        place
        for place, each in enumerate(older)
        if gives_up(newer, each) and pair_signs(newer, each).shared >= _SAME and is_evident(newer, each)
    ]
    return places[0] if len(places) == 1 else None


def _shows_replacement(found: PairSigns, *, plainly: bool, is_change: bool, is_same: bool) -> bool:
    """Return True if signs show another value in a slot, or without `plainly` a change."""
    if _slot_sign(found) and (found.shared or is_change):
        return True
    return not plainly and is_same and _are_related(found) and bool(is_change or found.leaves)


def _contradicted_by_words(newer: str, older: Sequence[str]) -> int | None:
    """Return the index of the text that a newer one may contradict, judged without vectors, or None."""
    weights = _weights(newer, older, [0.0] * len(older))
    most = max(weights, default=-math.inf)
    return weights.index(most) if most - math.log(max(1, len(weights))) > _DOUBTED else None


def _weights(newer: str, older: Sequence[str], penalties: Sequence[float]) -> list[float]:
    """Return the weight for replacement of each older text minus its penalty."""
    return [_weight_of(newer, each) - penalty for each, penalty in zip(older, penalties, strict=True)]


def _may_replace_by_words(newer: str, older: str) -> bool:
    """Return True if two texts support a replacement that a model proposes, judged without vectors."""
    if not says_something(older) or _ends_otherwise(newer, older):
        return True
    return is_evident(newer, older) and _weight_of(newer, older) > _PROPOSED


def _ends_otherwise(newer: str, older: str) -> bool:
    """Return True if two sentences differ only in their last words."""
    new, old = (_NAMES.findall(text.casefold()) for text in (newer, older))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(new, old, strict=False)))
    return same >= _SENTENCE and max(len(new), len(old)) - same <= same


@functools.lru_cache(maxsize=256)  # the same pairs are asked for replacement and contradiction
def _weight_of(newer: str, older: str) -> float:
    """Return the highest weight for replacement among the texts and their clauses; -inf if unrelated."""
    return max(map(_score_of_signs, filter(_are_related, signs_of_clauses(newer, older))), default=-math.inf)


def _are_related(found: PairSigns) -> bool:
    """Return True if the signs of two texts show that they are related."""
    return bool(found.shared or found.given_up or _slot_sign(found))


def _is_plain_replacement(newer: str, older: str, penalty: float) -> bool:
    """Return True if the newer text or one of its clauses plainly replaces the older text."""
    found = (pair_signs(each, older) for each in (newer, *clauses(newer)))
    return any(_score_of_signs(each) > _ENOUGH + penalty and _is_same_slot(each) for each in found)


def _is_same_slot(found: PairSigns) -> bool:
    """Return True if signs show one subject, by its first word or by another value in one slot."""
    if found.apart:
        return False
    if found.shared >= _SAME:
        return bool(found.led or _slot_sign(found))
    return found.shared >= _SAME_SLOT and _slot_sign(found) > 0 and found.strange < _STRANGE


def _slot_sign(found: PairSigns) -> float:
    """Return the strongest sign of another value in the same slot."""
    return max(found.value, found.number, found.version)


def _score_of_signs(found: PairSigns) -> float:
    """Return the weight in nats for a replacement, by the weights of slots.toml."""
    worth = word_lists().weights
    return worth["bias"] + sum(worth[name] * value for name, value in pair_features(found).items())


def pair_features(found: PairSigns) -> dict[str, float]:
    """Return by name the features of a text pair that get weights: signs and products of two."""
    slot, about, near = _slot_sign(found), min(1.0, 2 * found.shared), 1 - found.strange
    plain = ("led", "value", "number", "version", "given_up", "change", "adds", "flips", "leaves")
    found_terms: dict[str, float] = {name: getattr(found, name) for name in plain}
    found_terms |= {"about": about, "near": near, "slot_change": slot * found.change}
    found_terms["slot_shared"] = slot * found.shared
    for name, value in (("slot", slot), ("change", found.change)):
        pairs = (("about", about), ("near", near), ("led", found.led))
        found_terms |= {f"{name}_{other}": value * each for other, each in pairs}
    return found_terms
