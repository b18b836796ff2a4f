"""When a build that failed is tried again."""

from __future__ import annotations

from forged.errors import ProviderError
from forged.models import LONGEST_ASKED_S

_RETRY_S, _RETRY_MOST_S = 1.0, 60.0


def retry_after(error: Exception, before: float | None) -> float:
    """Seconds until the next attempt: what the endpoint asks for, else twice as long as `before`."""
    asked = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked is not None:
        return min(max(asked, _RETRY_S), LONGEST_ASKED_S)
    return min((before or _RETRY_S / 2) * 2, _RETRY_MOST_S)
