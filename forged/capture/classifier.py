"""The interface of a classifier, which proposes what is worth keeping: a rule set, or a chat model.

Both get the same window and answer with unchecked proposals; what becomes of those is decided in `documents`,
for both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forged.capture.values import Classified, KnownMemory, Usage
from forged.errors import ProviderError
from forged.state import Event


class CallFailed(ProviderError):  # noqa: N818 - reads as what happened
    """A classifier's calls came to nothing; `usage` is what they cost all the same."""

    def __init__(self, error: ProviderError, usage: Usage) -> None:
        super().__init__(
            str(error), reason=error.reason, status=error.status, retry_after_s=error.retry_after_s
        )
        self.usage = usage


class Classifier(Protocol):
    """Window to proposals."""

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return what to keep, which is mostly nothing.

        `known` are memories that a model should know about, nearest first. `deadline` is `time.monotonic()`
        seconds over all of at most `attempts` calls. Raises CallFailed.
        """
        ...
