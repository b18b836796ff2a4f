"""Whether the next event may cost a model call now: not while the endpoint fails, nor beyond a limit.

The breaker and the governor each say when another call may go; the gate asks them, remembers the answer until
then, and tells them what a call came to. It stands before events that need a call: not before the built-in
rules, nor before what was decided already. The governor is asked again every minute at the latest: seconds on
a clock that stands still in a suspended machine say little about midnight.
"""

from __future__ import annotations

from forged.capture.values import Failed, Usage
from forged.errors import ANSWERED
from forged.models import Breaker, Governor
from forged.state import Event
from forged.text.tokens import BYTES_PER_TOKEN

_LOOK_AGAIN_S = 60.0
_ATTEMPTS = 2
_PROMPT_TOKENS = 1500  # of a classifier's prompt without the window, roughly
_PURPOSE = "capture"
_NO_CALL_FAILED = frozenset({"storage", "internal"})


class Gate:
    """One for the daemon. `now` is in the seconds of the breaker's clock."""

    def __init__(self, governor: Governor, breaker: Breaker) -> None:
        self._governor = governor
        self._breaker = breaker
        self._until = 0.0
        self._why = self._failure = ""

    @property
    def attempts(self) -> int:
        """How many calls an event may cost that passes now: one, if it only tries the endpoint."""
        return 1 if self._breaker.is_probe else _ATTEMPTS

    def wait_s(self, now: float) -> float:
        """Seconds until it is worth another question, 0 if it is now."""
        return max(self._breaker.wait_s(now), self._until - now, 0.0)

    def why(self, now: float) -> str:
        """Why nothing passes, or nothing."""
        if wait_s := self._breaker.wait_s(now):
            return f"calls fail, next attempt in {wait_s:.0f} s: {self._failure}"
        return self._why if self.wait_s(now) else ""

    def admits(self, event: Event, now: float) -> bool:
        """Whether an event may cost a call now. A yes takes its place among the calls of the minute."""
        if self.wait_s(now):
            return False
        refusal = self._governor.admit(_estimate(event))
        if refusal is None:
            return True
        self._until, self._why = now + min(refusal.wait_s, _LOOK_AGAIN_S), refusal.message
        return False

    def answered(self, usage: Usage) -> None:
        """The model was asked, if `usage` says so, and answered."""
        if usage.calls:
            self._spend(usage, failed=0)
            self._breaker.succeeded()

    def failed(self, event: Event, report: Failed) -> None:
        """It was not found out what an event comes to; the report says whether calls are to blame.

        A model that answers with what is of no use is alive: its event waits or is given up by its own count.
        """
        if report.reason in _NO_CALL_FAILED:
            return
        unsaid = report.reason == "timeout" and not report.usage.calls
        usage = _guessed(event) if unsaid else report.usage
        self._spend(usage, failed=usage.calls)
        if report.reason in ANSWERED:
            self._breaker.succeeded()
            return
        self._failure = report.message
        self._breaker.failed(report.reason, report.retry_after_s)

    def lost(self, event: Event) -> None:
        """A worker died that may have been waiting for the model: the call counts by its estimate."""
        self._spend(_guessed(event), failed=1)

    def _spend(self, usage: Usage, *, failed: int) -> None:
        if usage.calls:
            self._governor.spend(
                _PURPOSE,
                calls=usage.calls,
                failed=failed,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )


def _guessed(event: Event) -> Usage:
    return Usage(1, _estimate(event), 0)


def _estimate(event: Event) -> int:
    return _PROMPT_TOKENS + event.size // BYTES_PER_TOKEN
