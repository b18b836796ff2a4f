"""One total deadline for a call, whatever the call does on the way.

Time limits per operation add up, and a peer that sends a byte now and then renews them for ever. A call
therefore gets one point in time at its start and asks here, before each wait, how long it may still be.
"""

from __future__ import annotations

from time import monotonic

from forged_client.errors import DeadlineExceeded

# Longer waits overflow a socket's time-out, and nobody means them.
_LONGEST_S = 86_400.0


class Deadline:
    """A point in time, `seconds` from now; not-a-number and negative values are now."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = min(seconds, _LONGEST_S) if seconds > 0 else 0.0
        self._at = monotonic() + self._seconds

    def seconds(self) -> float:
        """Seconds left; 0 when it has passed."""
        return max(self._at - monotonic(), 0.0)

    def left(self, doing: str) -> float:
        """Seconds left, above 0. Raises DeadlineExceeded, naming what was being done."""
        seconds = self._at - monotonic()
        if seconds <= 0:
            raise self.exceeded(doing)
        return seconds

    def exceeded(self, doing: str) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer within {self._seconds:g} s ({doing})")
