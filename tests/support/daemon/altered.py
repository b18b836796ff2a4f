"""`forged serve` for who cannot wait: constants with other values, a clock that a signal puts forward.

    python altered.py [MODULE:NAME=NUMBER...] serve ...

SIGUSR2 puts the clock of deadlines and waits, `time.monotonic`, a minute forward, in the daemon alone. It
stays what it is in the capture worker, which imports this file and gets no signal; constants do, too.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time

_MINUTE_S = 61.0

_real = time.monotonic
_ahead = 0.0


def _monotonic() -> float:
    return _real() + _ahead


def _forward(*_: object) -> None:
    global _ahead  # noqa: PLW0603 - the clock of the process
    _ahead += _MINUTE_S


def _set(constant: str) -> None:
    """Give a constant its value. Raises AttributeError where the module has none of that name."""
    place, _, value = constant.partition("=")
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    getattr(owner, name)
    setattr(owner, name, json.loads(value))


time.monotonic = _monotonic

if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _forward)
    while ":" in sys.argv[1]:
        _set(sys.argv.pop(1))
    from forged.__main__ import main

    sys.exit(main())
