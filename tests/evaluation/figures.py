"""Figures with confidence bounds: shares and means over resampled units.

A unit is what was drawn when the set was made, such as a session or a conversation; what happens within one
depends on it, so units are resampled and not turns. Equal input gives equal bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

_RESAMPLES = 1000
_SEED = 20261


class Figure(msgspec.Struct, frozen=True):
    """A share or a mean, the interval that holds it in 95 of 100 resamplings, and of how many it is.

    `of` 0 is a figure that nothing speaks about.
    """

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    of: float = 0.0


def ratio(units: Iterable[tuple[float, float]]) -> Figure:
    """The sum of the first numbers over that of the second ones, of pairs of units."""
    pairs = [pair for pair in units if pair != (0, 0)]
    of = sum(whole for _, whole in pairs)
    if not of:
        return Figure()
    low, high = bounds(pairs)
    return Figure(round(_ratio(pairs), 4), round(low, 4), round(high, 4), of)


def bounds(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """What holds the ratio in 95 of 100 resamplings."""
    random = Random(_SEED)
    drawn = sorted(_ratio(random.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    return drawn[round(0.025 * _RESAMPLES)], drawn[round(0.975 * _RESAMPLES) - 1]


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    of = sum(whole for _, whole in pairs)
    return sum(part for part, _ in pairs) / of if of else 0.0
