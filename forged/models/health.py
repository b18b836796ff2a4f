"""Circuit breaker of a model at an endpoint, shared by all of its callers.

It records result and duration of each call. `outage` and `admit` decide about the next call, `report`
reports for status. Two failures in a row open it, however far apart. While it is open at most two calls a
minute pass, one at a time, and a success closes it. Waiting agents are refused at once. A Retry-After holds
for all callers. Agents skip a model whose last two answers took longer than an agent can wait, until one is
in time. A refused text only shows that the endpoint answers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from forged.errors import ANSWERED, ProviderError, SizeRefused
from forged_client.protocol import EndpointReport

ENOUGH = 2
"""Number of failures, or late answers, in a row that count as an outage."""

LONGEST_ASKED_S = 300.0
"""A longer Retry-After is cut to this."""

# Minimum age of the last call, and of the one before it, with a margin for the way to the endpoint.
_LAST_S, _BEFORE_S = 30.5, 60.5
# Estimated duration of a call that is still running when its agent has gone, as a multiple of the agent's
# time.
_LONGER = 1.1
# Fraction of an agent's time after which an answer will hardly be in time, if the one before was not.
_SOON = 0.75
# Failures that depend on the text, or were cut off: the model answers, and may take the next text.
_REFUSED = ANSWERED | {"bad_input"}
# Failures before any request to the endpoint.
_WITHOUT_CALL = frozenset({"limit", "held", "slow", "storage", "unwritten", "gone", "internal"})
_FOREVER = float("inf")

State = Literal["untried", "ok", "slow", "failing"]


class RetryBudget(msgspec.Struct, eq=False):
    """Time of a waiting agent, in `time.monotonic()` seconds, and the one retry that its turn shares."""

    until: float
    since: float = msgspec.field(default_factory=time.monotonic)
    may_retry: bool = True

    @property
    def budget_s(self) -> float:
        """Return the seconds of the agent's whole turn."""
        return self.until - self.since

    def take_retry(self, at: float) -> bool:
        """Use up the turn's one retry, return True; False if it is used up or time is over."""
        granted, self.may_retry = self.may_retry and at < self.until, self.may_retry and at >= self.until
        return granted


class Outage(msgspec.Struct, frozen=True):
    """The reason to make no call now; `wait_s` is the time until a single probe may go, 0 for now."""

    reason: str
    message: str
    wait_s: float

    def error(self) -> ProviderError:
        """Return the outage as an error for the caller."""
        return ProviderError(self.message, reason=self.reason, retry_after_s=self.wait_s)


class EndpointHealth:
    """Circuit breaker of one model at one base URL, in one event loop; `uses` are the model's purposes."""

    def __init__(self, host: str = "", model: str = "", clock: Callable[[], float] | None = None) -> None:
        self.host = host
        self.model = model
        self.uses: tuple[str, ...] = ()
        self._clock = clock or time.monotonic
        self._starts: deque[float] = deque(maxlen=2)
        self._took: deque[list[float]] = deque(maxlen=2)  # a list, since a running call sets it later
        self._failures = 0
        self._probe: Attempt | None = None
        self._under_way: set[Attempt] = set()  # calls of agents that still wait
        self._asked_until = 0.0
        self._succeeded_at: float | None = None
        self._failing_since: float | None = None
        self._reason = self._message = ""
        self._believed_since = 0.0  # failures of calls that began earlier do not count
        self._granted_s = 0.0  # time of the last agent's whole turn

    def add_use(self, purpose: str) -> None:
        """Add a purpose of this model to `uses`."""
        self.uses = tuple(dict.fromkeys((*self.uses, purpose)))

    # --- admission of calls ---------------------------------------------------------------------------

    def outage(self, within_s: float = _FOREVER) -> Outage | None:
        """Return the reason not to call now, or not to wait `within_s` seconds for an answer; else None."""
        now = self._clock()
        asked_s = self._asked_until - now
        if self.is_open:
            return Outage(self._reason, self._message, max(asked_s, self._wait_s(now)))
        if asked_s > 0:
            return Outage(self._reason, self._message, asked_s)
        if self._is_slow(within_s):
            message = (
                f"{self._named} took over {_seconds_text(self._took[-1][0])} for an answer, twice in a row"
            )
            return Outage("slow", message, self._wait_s(now))
        return None

    def admit(self, waiting: RetryBudget | None = None) -> None:
        """Raise ProviderError in an outage, except for a due probe for which no agent waits."""
        within_s = _FOREVER if waiting is None else waiting.until - self._clock()
        outage = self.outage(within_s)
        if outage is not None and (waiting is not None or outage.wait_s > 0):
            raise outage.error()

    @property
    def is_open(self) -> bool:
        """Return True after two failures in a row, when only single probes may go."""
        return self._failures >= ENOUGH

    @property
    def has_failed(self) -> bool:
        """Return True if calls have failed since the last success or refused text."""
        return self._failures > 0

    def reset(self) -> None:
        """Forget failures, Retry-After and late answers, so that the next call goes at once."""
        self._failures, self._asked_until = 0, 0.0
        self._believed_since = self._clock()
        self._took.clear()

    def _wait_s(self, now: float) -> float:
        """Return the seconds until a single probe may go."""
        if self._probe is not None and now < self._probe.began + _BEFORE_S:
            return self._probe.began + _BEFORE_S - now
        ago = zip(reversed(self._starts), (_LAST_S, _BEFORE_S), strict=False)
        return max((0.0, *(start + apart - now for start, apart in ago)))

    def _is_slow(self, within_s: float) -> bool:
        """Return True if the last two answers took over `within_s`, or one did and a running call will."""
        late = [took > within_s for (took,) in self._took]
        if len(late) == ENOUGH and all(late):
            return True
        now = self._clock()
        return late[-1:] == [True] and any(attempt.late_after <= now for attempt in self._under_way)

    @property
    def _named(self) -> str:
        """Return model and host, for a message."""
        return f"{self.model} at {self.host}" if self.host else "the model"

    # --- results of calls -----------------------------------------------------------------------------

    def begin(self, waiting: RetryBudget | None = None, *, timed: bool = False) -> Attempt:
        """Record the start of a call and return its `Attempt`; the duration of `timed` calls counts."""
        now = self._clock()
        self._starts.append(now)
        if waiting is not None:
            self._granted_s = waiting.budget_s
        attempt = Attempt(self, now, self._granted_s, timed=timed)
        if timed and waiting is not None:
            attempt.late_after = waiting.until - (1 - _SOON) * waiting.budget_s
            self._under_way.add(attempt)
        if self.is_open:
            self._probe = attempt
        return attempt

    def record_success(self) -> None:
        """Record a successful call, which closes the breaker."""
        self._failures, self._asked_until = 0, 0.0
        self._succeeded_at, self._failing_since = self._clock(), None
        self._believed_since = self._succeeded_at
        self._reason = self._message = ""

    def record_failure(self, error: ProviderError) -> None:
        """Record a failed call, if one was made, and Retry-After; a refused text is no outage."""
        if error.reason in _WITHOUT_CALL:
            return
        now = self._clock()
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._reason, self._message = error.reason, str(error)
        refused = error.reason in _REFUSED or isinstance(error, SizeRefused)
        self._failures = 0 if refused else self._failures + 1
        if error.retry_after_s and not refused:
            asked_s = min(error.retry_after_s, LONGEST_ASKED_S)
            self._asked_until = max(self._asked_until, now + asked_s)

    def record_calls(self, calls: int) -> None:
        """Record ended calls of another process; the caller then records their result."""
        self._starts.extend([self._clock()] * calls)

    def _finish(self, attempt: Attempt) -> None:
        """Take an ended call out of the running ones, and clear the probe if this call was it."""
        self._under_way.discard(attempt)
        if self._probe is attempt:
            self._probe = None

    # --- report for status ----------------------------------------------------------------------------

    def report(self) -> EndpointReport:
        """Return state, reason, ages and time of the next call of this model, for a status report."""
        now, state = self._clock(), self._state()
        outage = self.outage(self._granted_s or _FOREVER)
        message = (
            f"{self._named} took longer for its last answer than an agent's {_seconds_text(self._granted_s)}"
        )
        return EndpointReport(
            host=self.host,
            model=self.model,
            uses=self.uses,
            state=state,
            last_success_s=_seconds_since(self._succeeded_at, now),
            failing_s=_seconds_since(self._failing_since, now),
            reason="slow" if state == "slow" else self._reason,
            message=message if state == "slow" else self._message,
            next_s=round(outage.wait_s, 1) if outage is not None else None,
        )

    def _state(self) -> State:
        """Return the model's state for a status report: failing, slow, untried or ok."""
        if self._failing_since is not None:
            return "failing"
        if self._took and self._took[-1][0] > self._granted_s > 0:
            return "slow"
        return "untried" if self._succeeded_at is None else "ok"


class Attempt:
    """One running call of a model; its outcome and duration are recorded in the model's health."""

    def __init__(
        self, health: EndpointHealth, began: float = 0.0, budget_s: float = 0.0, *, timed: bool = False
    ) -> None:
        self._budget_s = budget_s  # time of the waiting agent's whole turn
        self.late_after = _FOREVER  # a later answer is hardly in time
        self.began = began
        self._health = health
        self._timed = timed
        self._took: list[float] | None = None

    def record_caller_left(self) -> None:
        """Record that the agent has gone while its call goes on: a late answer, of estimated duration."""
        if self._timed and self._took is None:
            self._health._under_way.discard(self)
            self._took = [self._budget_s * _LONGER]
            self._health._took.append(self._took)

    def record_success(self) -> None:
        """End the call; record its success and its duration."""
        self.abandon()
        if self._took is not None:
            self._took[0] = self._elapsed_s
        elif self._timed:
            self._health._took.append([self._elapsed_s])
        self._health.record_success()

    def record_failure(self, error: ProviderError) -> None:
        """End the call; record the failure, unless another call has succeeded since this one began."""
        self.abandon()
        if self.began >= self._health._believed_since:
            self._health.record_failure(error)

    def abandon(self) -> None:
        """End the call without a result; it has no effect after another end."""
        self._health._finish(self)

    @property
    def _elapsed_s(self) -> float:
        """Return the seconds since the call began."""
        return self._health._clock() - self.began


def _seconds_since(at: float | None, now: float) -> float | None:
    """Return the seconds since a time; None if there was none."""
    return None if at is None else round(now - at, 1)


def _seconds_text(number: float) -> str:
    """Return seconds as text."""
    return f"{number:.1f} s"
