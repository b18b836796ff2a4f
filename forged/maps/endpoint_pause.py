"""For how long an endpoint is not asked after it refused and named a time (`Retry-After`)."""

from __future__ import annotations

import time

from forged.errors import ProviderError

# Whoever asks for more patience than this is asked again all the same.
MOST_S = 300.0


class EndpointPause:
    """The last refusal that named a time, for as long as that time lasts."""

    def __init__(self) -> None:
        self._refusal: ProviderError | None = None
        self._until = 0.0

    def observe(self, error: ProviderError) -> None:
        """Ask nothing for as long as the endpoint wants: edits and scans come sooner than a retry would."""
        if error.retry_after_s is not None:
            self._refusal = error
            self._until = time.monotonic() + min(error.retry_after_s, MOST_S)

    def end(self) -> None:
        """Ask at once: a person who rebuilds may have mended the cause."""
        self._until = 0.0

    def refusal(self) -> ProviderError | None:
        """What the endpoint said, with the seconds that are left; None when it may be asked."""
        error, left = self._refusal, self._until - time.monotonic()
        if error is None or left <= 0:
            return None
        return ProviderError(str(error), reason=error.reason, status=error.status, retry_after_s=left)
