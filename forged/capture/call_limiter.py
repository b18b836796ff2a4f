"""Whether the next event may cost a model call now: not while the endpoint fails, nor beyond a limit.

The gate asks the model's health and the governor, remembers the governor's answer, and tells both what a call
came to. The built-in rules and decided events need no gate. The governor is asked again every minute at the
latest: seconds on a clock that stands still in a suspended machine say little about midnight.
"""

from __future__ import annotations

from forged.capture.values import TaskFailed, Usage
from forged.errors import ProviderError
from forged.models import Attempt, EndpointHealth, Governor
from forged.state import Event
from forged.text.tokens import BYTES_PER_TOKEN, estimate

_LOOK_AGAIN_S = 60.0
_ATTEMPTS = 2
PROMPT_TOKENS = 1500  # of a classifier's prompt without the window, roughly
_PURPOSE = "capture"
_NO_CALL_FAILED = frozenset({"storage", "internal"})


class CallLimiter:
    """One for the daemon. `now` is in the seconds of the health's clock."""

    def __init__(self, governor: Governor, health: EndpointHealth) -> None:
        self._governor = governor
        self._health = health
        self._attempt = Attempt(health)
        self._until = 0.0
        self._why = ""

    @property
    def attempts(self) -> int:
        """How many calls an event may cost that passes now: one, if the last call failed."""
        return 1 if self._health.has_failed else _ATTEMPTS

    def wait_s(self, now: float) -> float:
        """Seconds until it is worth another question, 0 if it is now."""
        outage = self._health.outage()
        return max(outage.wait_s if outage is not None else 0.0, self._until - now, 0.0)

    def why(self, now: float) -> str:
        """Why nothing passes, or nothing."""
        outage = self._health.outage()
        if outage is not None and outage.wait_s:
            return f"calls fail, next attempt in {outage.wait_s:.0f} s: {outage.message}"
        return self._why if self.wait_s(now) else ""

    def admits(self, event: Event, now: float) -> bool:
        """Whether an event may cost a call now. A yes takes its place among the calls of the minute."""
        if self.wait_s(now):
            return False
        refusal = self._governor.admit(_estimate(event))
        if refusal is None:
            self._attempt.abandoned()  # one that was admitted and came to no call
            self._attempt = self._health.begin()
            return True
        self._until, self._why = now + min(refusal.wait_s, _LOOK_AGAIN_S), refusal.message
        return False

    def answered(self, event: Event, usage: Usage) -> None:
        """The model was asked about an event, if `usage` says so, and answered."""
        if usage.calls:
            self._spend(event, usage, failed=0)
            self._health.made(usage.calls)
            self._attempt.succeeded()
        self._attempt.abandoned()

    def failed(self, event: Event, report: TaskFailed) -> None:
        """It was not found out what an event comes to; the report says whether calls are to blame.

        A model whose answer is of no use is alive: its event waits or is given up by its own attempts.
        """
        self._attempt.abandoned()
        if report.reason in _NO_CALL_FAILED:
            return
        unsaid = report.reason == "timeout" and not report.usage.calls
        usage = _guessed(event) if unsaid else report.usage
        self._spend(event, usage, failed=usage.calls)
        self._health.made(usage.calls)
        error = ProviderError(report.message, reason=report.reason, retry_after_s=report.retry_after_s)
        self._health.failed(error)  # once: what fails over one event may be the event's own fault

    def lost(self, event: Event) -> None:
        """A worker died that may have been waiting for the model: the call counts by its estimate."""
        self._attempt.abandoned()
        self._spend(event, _guessed(event), failed=1)

    def _spend(self, event: Event, usage: Usage, *, failed: int) -> None:
        if not usage.calls:
            return
        self._governor.spend(
            _PURPOSE,
            calls=usage.calls,
            failed=failed,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            said_tokens=usage.calls * estimate(*(each.text for each in event.window)),
        )


def _guessed(event: Event) -> Usage:
    return Usage(1, _estimate(event), 0)


def _estimate(event: Event) -> int:
    return PROMPT_TOKENS + event.size // BYTES_PER_TOKEN
