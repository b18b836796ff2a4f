"""Retry state of the event that the worker has: its kills and failures, and when it is given up.

A killed worker counts against an event only if it had the event and made no progress; files put in place by
an earlier attempt are no progress. A failure counts only if it says something about this event, and not about
the endpoint or the disk, which would have met any other just so.
"""

from __future__ import annotations

import msgspec

from forged.capture.queue import Waiting
from forged.capture.values import Failed

MOST_KILLS, MOST_FAILURES = 3, 5
# An event's own back-off after a failed call, doubling; storage that is full is looked at more often.
_RETRY_S, _RETRY_MOST_S, STORAGE_RETRY_S = 2.0, 60.0, 2.0
_NOT_ITS_FAULT = frozenset({"unreachable", "rate_limited", "auth", "limit", "storage"})


class Attempt(msgspec.Struct):
    """An event taken from the queue, since a time of the caller's clock.

    `is_given` says whether the worker has it, so that a report about it may come. `is_cancelled` is set when
    its text was forgotten meanwhile: it may be finished, but is not tried again. After trouble,
    `waiting.given_up` says why it is to be given up, or nothing.
    """

    waiting: Waiting
    since: float
    is_given: bool = False
    is_cancelled: bool = False
    has_progress: bool = False
    linked: int = 0

    @property
    def event_id(self) -> str:
        return self.waiting.event.id

    def linked_one(self) -> None:
        """One of its documents is in place, since just now or since an earlier attempt."""
        self.linked += 1
        if self.linked > self.waiting.linked:
            self.waiting.linked = self.linked
            self.has_progress = True

    def died(self, reason: str) -> None:
        """The worker died over it."""
        self.is_given = False
        self.waiting.kills += not self.has_progress
        if self.waiting.kills >= MOST_KILLS:
            self.waiting.given_up = f"the worker died {MOST_KILLS} times over it: {reason}"

    def failed(self, report: Failed) -> float:
        """It was not finished; return the seconds that it has to wait."""
        self.is_given = False
        if report.reason == "storage":
            return STORAGE_RETRY_S
        self.waiting.failures += report.reason not in _NOT_ITS_FAULT
        if self.waiting.failures >= MOST_FAILURES:
            what = "attempts" if report.reason in ("gone", "unwritten") else "calls"
            self.waiting.given_up = f"{MOST_FAILURES} {what} failed, the last: {report.message}"
        # The endpoint may ask for less. If it asks for more, all wait for that, at the gate.
        return min(report.retry_after_s or _RETRY_S * 2.0**self.waiting.failures, _RETRY_MOST_S)
