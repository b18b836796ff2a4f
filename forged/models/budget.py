"""What model calls cost, and when the next one has to wait: limits, and accounts by day.

One Governor counts for the whole daemon, because a limit that each part keeps for itself is no limit. Days
are UTC. It decides before a call on an estimate and counts after it what was really used; a call that fails
is counted too, since a provider may have charged for it. The accounts are in memory: `restore` takes those
of an earlier daemon, `accounts` are what is written down for the next.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from forged.counters import summed
from forged.errors import ProviderError
from forged.memory import utc_day
from forged.models import ChatModel, Completion, Prompt
from forged.text.tokens import estimate
from forged_client.protocol import DayCost

_DAY_S, _MINUTE_S = 86_400, 60.0
_DAYS_KEPT = 90
_MOST_TOKENS = 10**9  # of one call: an endpoint may claim anything
# Failures of a call that nobody read and so nobody charged for.
_UNREAD = frozenset({"unreachable", "auth", "rate_limited", "held"})
_WITHOUT_CALL = frozenset({"limit", "held", "storage", "internal"})


class LimitReached(msgspec.Struct, frozen=True):
    """Which limit stands in the way, for how many seconds, and a sentence that tells a person both."""

    reason: Literal["daily_token_limit", "calls_per_minute"]
    wait_s: float
    message: str


_Days = dict[tuple[str, str], DayCost]


class Governor:
    """Limits and accounts of all model calls; belongs to one event loop.

    A limit of 0 is none. `clock` gives Unix seconds.
    """

    def __init__(
        self, *, daily_token_limit: int, calls_per_minute: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._token_limit = daily_token_limit
        self.calls_per_minute = calls_per_minute
        self._clock = clock
        self._slots: deque[float] = deque()  # when each call of the last minute falls out
        self._under_way = 0
        self._days: _Days = {}

    def restore(self, days: Iterable[DayCost]) -> None:
        """Add what an earlier daemon counted in the last 90 days."""
        for day in days:
            self._add(day)

    def accounts(self) -> tuple[DayCost, ...]:
        """All days and purposes that are kept."""
        return tuple(self._days.values())

    def admit(self, tokens: int, *, can_wait: bool = True) -> LimitReached | None:
        """Whether a call of about so many tokens may go now; None is yes, and its slot is taken.

        The calls of a minute limit only what `can_wait`: an agent that asks for its memories cannot.
        """
        refusal = self._beyond_day(tokens) or (self._beyond_minute() if can_wait else None)
        if refusal is None:
            self._slots.append(self._clock() + _MINUTE_S)
        return refusal

    def spend(
        self,
        purpose: str,
        *,
        calls: int = 1,
        failed: int = 0,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        said_tokens: int = 0,
    ) -> None:
        """Count what was used. Of several calls the first had its slot from `admit`; the others take one.

        `said_tokens` are those among the prompt tokens that a conversation takes.
        """
        now = self._clock()
        self._slots.extend([now + _MINUTE_S] * (calls - 1))
        prompted, completed = _plausible(prompt_tokens), _plausible(completion_tokens)
        said = min(said_tokens, prompted)
        self._add(DayCost(utc_day(now), purpose, calls, failed, prompted, completed, said))

    def _add(self, day: DayCost) -> None:
        key = (day.day, day.purpose)
        self._days[key] = summed(self._days.get(key, DayCost(*key)), day)
        since = utc_day(self._clock(), back=_DAYS_KEPT - 1)
        self._days = {key: kept for key, kept in self._days.items() if kept.day >= since}

    @contextlib.contextmanager
    def under_way(self, tokens: int) -> Iterator[None]:
        """A running call counts by its estimate: calls side by side must not pass the limit together."""
        self._under_way += tokens
        try:
            yield
        finally:
            self._under_way -= tokens

    @property
    def tokens_today(self) -> int:
        today = utc_day(self._clock())
        return sum(day.tokens for day in self._days.values() if day.day == today)

    @property
    def resets_at(self) -> str:
        """When the count of today starts anew, as RFC 3339 text."""
        now = self._clock()
        return datetime.fromtimestamp(now + _until_midnight(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def days(self, number: int) -> tuple[DayCost, ...]:
        """What the last days cost, today included: newest first, purposes in their order as text."""
        since = utc_day(self._clock(), back=number - 1)
        chosen = sorted((day for day in self._days.values() if day.day >= since), key=lambda day: day.purpose)
        return tuple(sorted(chosen, key=lambda day: day.day, reverse=True))

    def beyond_today(self, tokens: int) -> str:
        """Why so many tokens more would be too many for today, or nothing; no call is meant yet."""
        refusal = self._beyond_day(tokens)
        return refusal.message if refusal is not None else ""

    def _beyond_day(self, tokens: int) -> LimitReached | None:
        used = self.tokens_today + self._under_way
        if not self._token_limit or used + tokens <= self._token_limit:
            return None
        message = (
            f"{used:,} of today's {self._token_limit:,} tokens are used and the next call takes about "
            f"{tokens:,}; the count restarts at {self.resets_at}, `memory.daily_token_limit` sets the limit"
        )
        return LimitReached("daily_token_limit", _until_midnight(self._clock()), message)

    def _beyond_minute(self) -> LimitReached | None:
        now = self._clock()
        # A clock that was set back leaves slots that would never fall out.
        while self._slots and not now < self._slots[0] <= now + _MINUTE_S:
            self._slots.popleft()
        if not self.calls_per_minute or len(self._slots) < self.calls_per_minute:
            return None
        wait_s = self._slots[-self.calls_per_minute] - now
        message = (
            f"the calls of the last minute reach the limit of {self.calls_per_minute:,}; the next may go in "
            f"{math.ceil(wait_s)} s"
        )
        return LimitReached("calls_per_minute", wait_s, message)


class GovernedChat:
    """A ChatModel that asks the governor first and tells it afterwards; for calls that somebody waits for."""

    def __init__(self, model: ChatModel, governor: Governor, purpose: str) -> None:
        self._model = model
        self.health = model.health
        self._governor = governor
        self._purpose = purpose

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """See `ChatModel`; also raises ProviderError of reason `limit`, without a call."""
        tokens = estimate(prompt.system, prompt.user)
        if refusal := self._governor.admit(tokens, can_wait=False):
            raise ProviderError(refusal.message, reason="limit", retry_after_s=refusal.wait_s)
        with self._governor.under_way(tokens):
            try:
                done = await self._model.complete(prompt, deadline=deadline)
            except BaseException as error:  # a cancelled call was on its way as well
                unread = isinstance(error, ProviderError) and error.reason in _UNREAD
                self._governor.spend(self._purpose, failed=1, prompt_tokens=0 if unread else tokens)
                raise
        self._governor.spend(
            self._purpose, prompt_tokens=done.prompt_tokens, completion_tokens=done.completion_tokens
        )
        return done

    async def aclose(self) -> None:
        await self._model.aclose()


def _plausible(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


def _until_midnight(now: float) -> float:
    return _DAY_S - now % _DAY_S
