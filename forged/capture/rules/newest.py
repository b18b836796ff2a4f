"""Which earlier statement a newer one takes the place of, if any: the newest word wins, and only then.

In go the texts, all of one scope; out comes the place of the one that holds no more, or None. A wrong
replacement hides a memory that still holds and a missed one leaves two side by side, of which the newer is
shown as such: so nothing is replaced in doubt, and among many memories, where one resembles the newer text by
accident, only what speaks of the same thing in the same words. Pure, raises nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from itertools import takewhile

from forged.capture.rules.slots import Signs, says_something, signs, weights

# Nats for a replacement: of what stands among few, of what a model proposed, and among many.
_ENOUGH, _PROPOSED, _AMONG_MANY = 0.5, 0.0, 1.0
_FEW = 12
_ENDS = re.compile(r"(?<=[.!?;:])\s+|\n|\bbtw\b")
_WORDS = re.compile(r"\w[\w.-]*\w|\w")
_SENTENCE = 3  # words of one that says something by itself
# Among many: how much of the older text's subject the newer one names, with and without another value.
_SAME, _SAME_SLOT, _STRANGE = 0.5, 0.3, 0.5


def replaced_by(newer: str, older: Sequence[str]) -> int | None:
    """Return the place of the one of `older` texts that `newer` replaces."""
    judged = [(*_weighed(newer, each), -place) for place, each in enumerate(older)]
    if not judged:
        return None
    weight, found, place = max(judged, key=lambda each: (each[0], each[2]))
    enough = weight > _ENOUGH if len(older) <= _FEW else weight > _AMONG_MANY and _is_plain(found)
    return -place if enough else None


def may_replace(newer: str, older: str) -> bool:
    """Whether a replacement that a model proposes is borne out by the texts, or nothing can be said."""
    if not says_something(older) or _ends_otherwise(newer, older):
        return True
    return _weighed(newer, older)[0] > _PROPOSED


def _ends_otherwise(newer: str, older: str) -> bool:
    """Whether one sentence is said of both but for its last words: "builds run on" one thing or another."""
    new, old = (_WORDS.findall(text.casefold()) for text in (newer, older))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(new, old, strict=False)))
    return same >= _SENTENCE and max(len(new), len(old)) - same <= same


def _weighed(newer: str, older: str) -> tuple[float, Signs]:
    """What speaks for a replacement most, the newer text as a whole or one of its sentences."""
    sentences = (each for each in _ENDS.split(newer) if len(each.split()) >= _SENTENCE)
    found = [signs(each, older) for each in (newer, *sentences)]
    return max(((_weight(each), each) for each in found), key=operator.itemgetter(0))


def _is_plain(found: Signs) -> bool:
    if found.shared >= _SAME:
        return bool(found.led or _slot(found))
    return found.shared >= _SAME_SLOT and _slot(found) > 0 and found.strange < _STRANGE


def _slot(found: Signs) -> float:
    return max(found.value, found.number, found.version)


def _weight(found: Signs) -> float:
    """How much speaks for a replacement, in nats."""
    worth = weights()
    return worth["bias"] + sum(worth[name] * value for name, value in terms(found).items())


def terms(found: Signs) -> dict[str, float]:
    """What is weighed: signs, and what two of them come to together."""
    slot, about, near = _slot(found), min(1.0, 2 * found.shared), 1 - found.strange
    plain = ("led", "value", "number", "version", "given_up", "change", "adds", "flips", "leaves", "apart")
    found_terms: dict[str, float] = {name: getattr(found, name) for name in plain}
    found_terms |= {"about": about, "near": near, "slot_change": slot * found.change}
    for name, value in (("slot", slot), ("change", found.change)):
        pairs = (("about", about), ("near", near), ("led", found.led), ("apart", found.apart))
        found_terms |= {f"{name}_{other}": value * each for other, each in pairs}
    return found_terms
