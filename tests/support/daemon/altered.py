"""`forged serve` for fast tests: constants with other values, and a clock that a signal advances.

    python altered.py [MODULE:NAME=NUMBER...] serve ...

SIGUSR2 advances the clock of deadlines and waits, `time.monotonic`, by a minute, in the daemon alone. The
capture worker, which imports this file and gets no signal, keeps its clock, but gets the constants. With
FORGED_TEST_CLOCK_AHEAD_S the clock of the date, `time.time`, is so many seconds fast in both.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time

_MINUTE_S = 61.0

_real, _real_date = time.monotonic, time.time
_ahead = 0.0
_DATE_AHEAD_S = float(os.environ.get("FORGED_TEST_CLOCK_AHEAD_S", "0"))


def _monotonic() -> float:
    return _real() + _ahead


def _date() -> float:
    return _real_date() + _DATE_AHEAD_S


def _forward(*_: object) -> None:
    global _ahead  # noqa: PLW0603 - the clock of the process
    _ahead += _MINUTE_S


def _set(constant: str) -> None:
    """Set a constant. Raises AttributeError if the module has none of that name."""
    place, _, value = constant.partition("=")
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    getattr(owner, name)
    setattr(owner, name, json.loads(value))


time.monotonic = _monotonic
time.time = _date

if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _forward)
    while ":" in sys.argv[1]:
        _set(sys.argv.pop(1))
    from forged.__main__ import main

    sys.exit(main())
