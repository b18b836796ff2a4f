"""Token budget and rate limit of model calls, and their daily accounts.

One Governor counts for the whole daemon, so that a limit holds over all of its parts. Days are UTC. It
decides before a call on an estimate and counts the real use after it. A failed call is counted too, because
a provider may have charged for it. The accounts are in memory: `restore` loads those of an earlier daemon,
and `accounts` are saved for the next.
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
_MOST_TOKENS = 10**9  # of one call, because an endpoint may report any number
# Failures of a call that the endpoint has not read, and so not charged for.
_UNREAD = frozenset({"unreachable", "auth", "rate_limited", "held"})


class LimitReached(msgspec.Struct, frozen=True):
    """The limit that refuses a call, the wait in seconds, and a sentence about both."""

    reason: Literal["daily_token_limit", "calls_per_minute"]
    wait_s: float
    message: str


_Days = dict[tuple[str, str], DayCost]


class Governor:
    """Token limit, rate limit and daily accounts of all model calls; belongs to one event loop.

    A limit of 0 is none. `clock` returns Unix seconds.
    """

    def __init__(
        self, *, daily_token_limit: int, calls_per_minute: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._token_limit = daily_token_limit
        self.calls_per_minute = calls_per_minute
        self._clock = clock
        self._slots: deque[float] = deque()  # expiry of each call of the last minute
        self._under_way = 0
        self._days: _Days = {}

    def restore(self, days: Iterable[DayCost]) -> None:
        """Add the daily counts of an earlier daemon to the accounts; those over 90 days old are dropped."""
        for day in days:
            self._add_to_account(day)

    def accounts(self) -> tuple[DayCost, ...]:
        """Return the counts of calls and tokens by day and purpose, of all kept days."""
        return tuple(self._days.values())

    def admit(self, tokens: int, *, can_wait: bool = True) -> LimitReached | None:
        """Take a slot for a call of about `tokens`; return None, or the limit that refuses it.

        Calls per minute limit only calls with `can_wait`; an agent that waits for its memories cannot.
        """
        refusal = self._daily_refusal(tokens) or (self._rate_refusal() if can_wait else None)
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
        """Count calls with their failures and tokens, by purpose; each call after the first takes a slot.

        `said_tokens` are the prompt tokens of the conversation.
        """
        now = self._clock()
        self._slots.extend([now + _MINUTE_S] * (calls - 1))
        prompted, completed = _clamped(prompt_tokens), _clamped(completion_tokens)
        conversation = min(said_tokens, prompted)
        self._add_to_account(DayCost(utc_day(now), purpose, calls, failed, prompted, completed, conversation))

    def _add_to_account(self, day: DayCost) -> None:
        """Add counts to the account of their day and purpose; drop accounts older than 90 days."""
        key = (day.day, day.purpose)
        self._days[key] = summed(self._days.get(key, DayCost(*key)), day)
        since = utc_day(self._clock(), back=_DAYS_KEPT - 1)
        self._days = {key: kept for key, kept in self._days.items() if kept.day >= since}

    @contextlib.contextmanager
    def under_way(self, tokens: int) -> Iterator[None]:
        """Count estimated tokens during a `with` block, so that parallel calls keep the limit."""
        self._under_way += tokens
        try:
            yield
        finally:
            self._under_way -= tokens

    @property
    def tokens_today(self) -> int:
        """Return the tokens of all calls since midnight UTC."""
        today = utc_day(self._clock())
        return sum(day.tokens for day in self._days.values() if day.day == today)

    @property
    def resets_at(self) -> str:
        """Return the time at which today's count restarts, as RFC 3339 text."""
        now = self._clock()
        return datetime.fromtimestamp(now + _until_midnight(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def days(self, number: int) -> tuple[DayCost, ...]:
        """Return the costs of the last `number` days, today first, by day and purpose."""
        since = utc_day(self._clock(), back=number - 1)
        chosen = sorted((day for day in self._days.values() if day.day >= since), key=lambda day: day.purpose)
        return tuple(sorted(chosen, key=lambda day: day.day, reverse=True))

    def over_daily_limit(self, tokens: int) -> str:
        """Return the reason that `tokens` more exceed today's limit, or ""; takes no slot."""
        refusal = self._daily_refusal(tokens)
        return refusal.message if refusal is not None else ""

    def _daily_refusal(self, tokens: int) -> LimitReached | None:
        """Return the refusal if `tokens` more exceed today's limit; else None."""
        used = self.tokens_today + self._under_way
        if not self._token_limit or used + tokens <= self._token_limit:
            return None
        message = (
            f"{used:,} of today's {self._token_limit:,} tokens are used and the next call takes about "
            f"{tokens:,}; the count restarts at {self.resets_at}, `memory.daily_token_limit` sets the limit"
        )
        return LimitReached("daily_token_limit", _until_midnight(self._clock()), message)

    def _rate_refusal(self) -> LimitReached | None:
        """Return the refusal if the last minute's calls reach the limit; else None. Drop expired slots."""
        now = self._clock()
        # A clock that was set back leaves slots that would never expire.
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
    """`ChatModel` around another, for a waiting caller: obeys the daily token limit, counts use."""

    def __init__(self, model: ChatModel, governor: Governor, purpose: str) -> None:
        self._model = model
        self.health = model.health
        self._governor = governor
        self._purpose = purpose

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Complete a prompt and count its tokens, or raise ProviderError (`limit`) above today's limit."""
        tokens = estimate(prompt.system, prompt.user)
        if refusal := self._governor.admit(tokens, can_wait=False):
            raise ProviderError(refusal.message, reason="limit", retry_after_s=refusal.wait_s)
        with self._governor.under_way(tokens):
            try:
                done = await self._model.complete(prompt, deadline=deadline)
            except BaseException as error:  # a cancelled call has left as well
                unread = isinstance(error, ProviderError) and error.reason in _UNREAD
                self._governor.spend(self._purpose, failed=1, prompt_tokens=0 if unread else tokens)
                raise
        self._governor.spend(
            self._purpose, prompt_tokens=done.prompt_tokens, completion_tokens=done.completion_tokens
        )
        return done

    async def aclose(self) -> None:
        await self._model.aclose()


def _clamped(tokens: int) -> int:
    """Return a token count between 0 and the most that one call may have."""
    return min(max(tokens, 0), _MOST_TOKENS)


def _until_midnight(now: float) -> float:
    """Return the seconds until midnight UTC."""
    return _DAY_S - now % _DAY_S
