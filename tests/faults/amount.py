"""Number of runs: all, or with FORGED_FAULTS=short as many as `make test` has time for.

A short run strikes in every state and phase, only fewer times, and leaves out what takes a minute of waiting.
Outside of the fault tier it draws fewer examples; `make test-all` draws all.
"""

from __future__ import annotations

import os

SHORT = os.environ.get("FORGED_FAULTS") == "short"


def times(whole: int, short: int) -> int:
    """How often something is done in this run."""
    return short if SHORT else whole
