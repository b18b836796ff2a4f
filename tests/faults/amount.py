"""Number of runs: all, or with FORGED_FAULTS=short as many as `make test` has time for.

A short run strikes in every state and phase, only fewer times, and leaves out what takes a minute of waiting.
Outside of the fault tier it draws fewer examples; `make test-all` draws all. FORGED_FAULT_MINUTES is the time
of test_three_machines.py, and FORGED_FAULT_SEED its seed, which a failure names.
"""

from __future__ import annotations

import os

SHORT = os.environ.get("FORGED_FAULTS") == "short"
MINUTES = float(os.environ.get("FORGED_FAULT_MINUTES") or 0)
SEED = int(os.environ.get("FORGED_FAULT_SEED") or 0)


def times(whole: int, short: int) -> int:
    """How often something is done in this run."""
    return short if SHORT else whole
