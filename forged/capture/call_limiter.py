"""Decide if an event may cost a model call now, by the endpoint's health and the token limits.

`CallLimiter` asks the model's health and the governor, and reports the cost of calls to both. Built-in rules
and decided events need no call. It asks the governor again at least every minute, because a monotonic clock
does not move while a machine is suspended.
"""

from __future__ import annotations

from forged.capture.values import TaskFailed, Usage
from forged.errors import ProviderError
from forged.models import Attempt, EndpointHealth, Governor
from forged.state import Event
from forged.text.tokens import BYTES_PER_TOKEN, estimate

_LOOK_AGAIN_S = 60.0
_ATTEMPTS = 2
PROMPT_TOKENS = 1500  # of a classifier's prompt without the window, estimated
_PURPOSE = "capture"
_NO_CALL_FAILED = frozenset({"storage", "internal"})


class CallLimiter:
    """Admits capture's model calls unless token limits or outages forbid it; records cost and outcome.

    `now` is in seconds of the health's clock.
    """

    def __init__(self, governor: Governor, health: EndpointHealth) -> None:
        self._governor = governor
        self._health = health
        self._attempt = Attempt(health)
        self._until = 0.0
        self._why = ""

    @property
    def attempts(self) -> int:
        """Return how many calls an admitted event may make: two, or one if the last call failed."""
        return 1 if self._health.has_failed else _ATTEMPTS

    def wait_s(self, now: float) -> float:
        """Return the seconds until a model call for capture may be admitted again, 0 if it may be now."""
        outage = self._health.outage()
        return max(outage.wait_s if outage is not None else 0.0, self._until - now, 0.0)

    def why(self, now: float) -> str:
        """Return the reason why no model call for capture is admitted now, or ""."""
        outage = self._health.outage()
        if outage is not None and outage.wait_s:
            return f"calls fail, next attempt in {outage.wait_s:.0f} s: {outage.message}"
        return self._why if self.wait_s(now) else ""

    def admit(self, event: Event, now: float) -> bool:
        """Admit a call about an event and begin its attempt; return False if none is allowed now."""
        if self.wait_s(now):
            return False
        refusal = self._governor.admit(_estimated_tokens(event))
        if refusal is None:
            self._attempt.abandon()  # admitted before, but without a call
            self._attempt = self._health.begin()
            return True
        self._until, self._why = now + min(refusal.wait_s, _LOOK_AGAIN_S), refusal.message
        return False

    def record_answer(self, event: Event, usage: Usage) -> None:
        """Record the cost and success of an answered event; without calls, release its attempt."""
        if usage.calls:
            self._report_cost(event, usage, failed=0)
            self._health.record_calls(usage.calls)
            self._attempt.record_success()
        self._attempt.abandon()

    def record_failure(self, event: Event, report: TaskFailed) -> None:
        """Record cost and outage of a task that failed in a call; else only release its attempt.

        An unusable answer does not mean that the model is down: the event waits or fails by its own attempts.
        """
        self._attempt.abandon()
        if report.reason in _NO_CALL_FAILED:
            return
        unsaid = report.reason == "timeout" and not report.usage.calls
        usage = _estimated_usage(event) if unsaid else report.usage
        self._report_cost(event, usage, failed=usage.calls)
        self._health.record_calls(usage.calls)
        error = ProviderError(report.message, reason=report.reason, retry_after_s=report.retry_after_s)
        self._health.record_failure(error)  # count once: the event itself may be the cause

    def record_death(self, event: Event) -> None:
        """Record the death of a worker during an event, at the estimated cost of one call."""
        self._attempt.abandon()
        self._report_cost(event, _estimated_usage(event), failed=1)

    def _report_cost(self, event: Event, usage: Usage, *, failed: int) -> None:
        """Report an event's calls, failures and tokens to the governor; nothing without a call."""
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


def _estimated_usage(event: Event) -> Usage:
    """Return the estimated usage of one call about an event."""
    return Usage(1, _estimated_tokens(event), 0)


def _estimated_tokens(event: Event) -> int:
    """Return the estimated tokens of a call about an event: those of the prompt and of its window."""
    return PROMPT_TOKENS + event.size // BYTES_PER_TOKEN
