"""Decide whether an endpoint's model is worth a call: one `Health` for all that ask it.

It hears how each call went and how long it took; `trouble` and `admit` judge, `condition` reports. Two calls
in a row that fail open it, over however long a time. Then at most two calls a minute go, one at a time; a
success closes it. Who is in a hurry is refused at once. A Retry-After holds for everybody. A model whose last
two answers took longer than an agent has is skipped by agents, until one came in time. A refused text says
nothing about the endpoint but that it answers.
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
"""So many failures in a row, or answers that came too late, are believed."""

LONGEST_ASKED_S = 300.0
"""Whoever asks for more patience than this is asked again all the same."""

# How long ago the last call, and the one before it, must be; with something to spare on the way there.
_LAST_S, _BEFORE_S = 30.5, 60.5
# What is still under way when its agent has gone takes longer than the agent had, so much at least.
_LONGER = 1.1
# Of an agent's time: what has not answered by then will hardly be in time, if the one before was not.
_SOON = 0.75
# What is refused for what it says, or not brought to an end: the model answers, and may take the next.
_REFUSED = ANSWERED | {"bad_input"}
# Failures in which nothing was asked of the endpoint.
_WITHOUT_CALL = frozenset({"limit", "held", "slow", "storage", "unwritten", "gone", "internal"})
_FOREVER = float("inf")

State = Literal["untried", "ok", "slow", "failing"]


class RetryBudget(msgspec.Struct, eq=False):
    """An agent that waits, in `time.monotonic()` seconds, and the retry that all calls of its turn share."""

    until: float
    since: float = msgspec.field(default_factory=time.monotonic)
    may_retry: bool = True

    @property
    def budget_s(self) -> float:
        return self.until - self.since

    def take_retry(self, at: float) -> bool:
        """Whether a call may be made once more at this time; if so, that was the last."""
        granted, self.may_retry = self.may_retry and at < self.until, self.may_retry and at >= self.until
        return granted


class Trouble(msgspec.Struct, frozen=True):
    """Why nobody should wait for a call; `wait_s` is when one may go to see how it is, 0 for now."""

    reason: str
    message: str
    wait_s: float

    def error(self) -> ProviderError:
        return ProviderError(self.message, reason=self.reason, retry_after_s=self.wait_s)


class Health:
    """Of one model at one base URL; belongs to one event loop. `uses` says what it is asked for."""

    def __init__(self, host: str = "", model: str = "", clock: Callable[[], float] | None = None) -> None:
        self.host = host
        self.model = model
        self.uses: tuple[str, ...] = ()
        self._clock = clock or time.monotonic
        self._starts: deque[float] = deque(maxlen=2)
        self._took: deque[list[float]] = deque(maxlen=2)  # one number each, as an answer may still come
        self._failures = 0
        self._probe: Attempt | None = None
        self._under_way: set[Attempt] = set()  # of agents that still wait
        self._asked_until = 0.0
        self._succeeded_at: float | None = None
        self._failing_since: float | None = None
        self._reason = self._message = ""
        self._believed_since = 0.0  # what began before that is no word about now
        self._granted_s = 0.0  # what the last agent had for its whole turn

    def use(self, purpose: str) -> None:
        self.uses = tuple(dict.fromkeys((*self.uses, purpose)))

    # --- whether to ask -------------------------------------------------------------------------------

    def trouble(self, within_s: float = _FOREVER) -> Trouble | None:
        """Why an answer should not be waited for that has to come within so many seconds, or None."""
        now = self._clock()
        asked_s = self._asked_until - now
        if self.is_open:
            return Trouble(self._reason, self._message, max(asked_s, self._wait_s(now)))
        if asked_s > 0:
            return Trouble(self._reason, self._message, asked_s)
        if self._is_slow(within_s):
            message = f"{self._named} took over {_seconds(self._took[-1][0])} for an answer, twice in a row"
            return Trouble("slow", message, self._wait_s(now))
        return None

    def admit(self, waiting: RetryBudget | None = None) -> None:
        """Return if a call may go now. Raises ProviderError: in trouble nobody waits, and few go at all."""
        within_s = _FOREVER if waiting is None else waiting.until - self._clock()
        trouble = self.trouble(within_s)
        if trouble is not None and (waiting is not None or trouble.wait_s > 0):
            raise trouble.error()

    @property
    def is_open(self) -> bool:
        """Whether the next call only looks if the endpoint is back, and should be a single one."""
        return self._failures >= ENOUGH

    @property
    def is_doubted(self) -> bool:
        return self._failures > 0

    def ask_again(self) -> None:
        """Ask at once: a person who says so may have mended the cause."""
        self._failures, self._asked_until = 0, 0.0
        self._believed_since = self._clock()
        self._took.clear()

    def _wait_s(self, now: float) -> float:
        if self._probe is not None and now < self._probe.began + _BEFORE_S:
            return self._probe.began + _BEFORE_S - now
        ago = zip(reversed(self._starts), (_LAST_S, _BEFORE_S), strict=False)
        return max((0.0, *(start + apart - now for start, apart in ago)))

    def _is_slow(self, within_s: float) -> bool:
        """Whether the last two took too long, or the last one did and another is about to."""
        late = [took > within_s for (took,) in self._took]
        if len(late) == ENOUGH and all(late):
            return True
        now = self._clock()
        return late[-1:] == [True] and any(attempt.hardly_after <= now for attempt in self._under_way)

    @property
    def _named(self) -> str:
        return f"{self.model} at {self.host}" if self.host else "the model"

    # --- how it went ----------------------------------------------------------------------------------

    def begin(self, waiting: RetryBudget | None = None, *, timed: bool = False) -> Attempt:
        """A call begins; `timed` if it is of the kind that agents wait for, so that it tells the speed."""
        now = self._clock()
        self._starts.append(now)
        if waiting is not None:
            self._granted_s = waiting.budget_s
        attempt = Attempt(self, now, self._granted_s, timed=timed)
        if timed and waiting is not None:
            attempt.hardly_after = waiting.until - (1 - _SOON) * waiting.budget_s
            self._under_way.add(attempt)
        if self.is_open:
            self._probe = attempt
        return attempt

    def succeeded(self) -> None:
        self._failures, self._asked_until = 0, 0.0
        self._succeeded_at, self._failing_since = self._clock(), None
        self._believed_since = self._succeeded_at
        self._reason = self._message = ""

    def failed(self, error: ProviderError) -> None:
        """A call came to nothing; one that was not made says nothing here."""
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

    def made(self, calls: int) -> None:
        """So many calls were made elsewhere and are over; `succeeded` or `failed` follows."""
        self._starts.extend([self._clock()] * calls)

    def _over(self, attempt: Attempt) -> None:
        self._under_way.discard(attempt)
        if self._probe is attempt:
            self._probe = None

    # --- what to tell ---------------------------------------------------------------------------------

    def condition(self) -> EndpointReport:
        now, state = self._clock(), self._state()
        trouble = self.trouble(self._granted_s or _FOREVER)
        message = f"{self._named} took longer for its last answer than an agent's {_seconds(self._granted_s)}"
        return EndpointReport(
            host=self.host,
            model=self.model,
            uses=self.uses,
            state=state,
            last_success_s=_since(self._succeeded_at, now),
            failing_s=_since(self._failing_since, now),
            reason="slow" if state == "slow" else self._reason,
            message=message if state == "slow" else self._message,
            next_s=round(trouble.wait_s, 1) if trouble is not None else None,
        )

    def _state(self) -> State:
        if self._failing_since is not None:
            return "failing"
        if self._took and self._took[-1][0] > self._granted_s > 0:
            return "slow"
        return "untried" if self._succeeded_at is None else "ok"


class Attempt:
    """One call that is under way; it ends as `succeeded` or `failed`, or else is `abandoned`."""

    def __init__(
        self, health: Health, began: float = 0.0, budget_s: float = 0.0, *, timed: bool = False
    ) -> None:
        self._budget_s = budget_s  # of the agent that waits for it, for its whole turn
        self.hardly_after = _FOREVER  # what comes later hardly comes in time
        self.began = began
        self._health = health
        self._timed = timed
        self._took: list[float] | None = None

    def outlived(self) -> None:
        """Who waited for it has gone, and it is not over."""
        if self._timed and self._took is None:
            self._health._under_way.discard(self)
            self._took = [self._budget_s * _LONGER]
            self._health._took.append(self._took)

    def succeeded(self) -> None:
        self.abandoned()
        if self._took is not None:
            self._took[0] = self._so_far
        elif self._timed:
            self._health._took.append([self._so_far])
        self._health.succeeded()

    def failed(self, error: ProviderError) -> None:
        """It came to nothing, which is no news if another has succeeded since it began."""
        self.abandoned()
        if self.began >= self._health._believed_since:
            self._health.failed(error)

    def abandoned(self) -> None:
        """It was given up before its end, which says nothing; after any other end nothing at all."""
        self._health._over(self)

    @property
    def _so_far(self) -> float:
        return self._health._clock() - self.began


def _since(at: float | None, now: float) -> float | None:
    return None if at is None else round(now - at, 1)


def _seconds(number: float) -> str:
    return f"{number:.1f} s"
