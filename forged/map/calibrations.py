"""The calibration of each dense leg, computed once and kept for as long as the leg lives.

`carried` and `thinned` have that of a leg which came of another by an edit, in advance, so that no search
waits for it; they cost what the edit changed. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from forged.map.baseline import Baseline, Calibration
from forged.map.dense import DenseLeg

# Weak: a calibration goes with its leg.
_calibrations: WeakKeyDictionary[DenseLeg, Calibration] = WeakKeyDictionary()


def calibrated(leg: DenseLeg, baseline: Baseline) -> Calibration:
    """The calibration of a leg, computed once. `leg` has at least one vector."""
    known = _known(leg, baseline)
    if known is None:
        known = _calibrations[leg] = Calibration.of(leg, baseline)
    return known


def carried(before: DenseLeg | None, places: NDArray[np.int64], leg: DenseLeg, baseline: Baseline) -> None:
    """Calibrate a leg that came of `before` by an edit, if of anything, unless it is of another model.

    Row i was `places[i]` there, or is new at -1.
    """
    _calibrate(before, leg, baseline, lambda known: known.edited(places, leg))


def thinned(before: DenseLeg | None, leg: DenseLeg, baseline: Baseline) -> None:
    """Calibrate a leg with the rows of `before`, of which more are missing, unless it is of another model."""
    _calibrate(before, leg, baseline, lambda known: known.thinned(leg))


def _calibrate(
    before: DenseLeg | None, leg: DenseLeg, baseline: Baseline, derive: Callable[[Calibration], Calibration]
) -> None:
    if not leg.present or not baseline.fits(leg):
        return
    known = None if before is None else _known(before, baseline)
    if known is None:
        calibrated(leg, baseline)
    else:
        _calibrations[leg] = derive(known)


def _known(leg: DenseLeg, baseline: Baseline) -> Calibration | None:
    known = _calibrations.get(leg)
    return known if known is not None and known.baseline is baseline else None
