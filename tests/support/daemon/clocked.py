"""`forged serve` in which a minute goes by whenever a test sends SIGUSR2: nobody waits for real minutes.

The clock that is put forward is the one of deadlines and waits, `time.monotonic`, in the daemon alone. It
stays what it is in the capture worker, which imports this file and gets no signal.
"""

from __future__ import annotations

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


time.monotonic = _monotonic

if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _forward)
    from forged.__main__ import main

    sys.exit(main())
