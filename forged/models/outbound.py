"""Let texts out to an endpoint without secrets and private spans, and count what left.

Raises ProviderError (`held`, `limit`), and then nothing leaves. An endpoint on this machine is one like any
other; models in this process have no door. The daemon's `guard` says whether text may leave at all: somebody
paused, or the day's tokens are used. The capture worker has none, as the daemon hands it nothing that is held
back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self

from forged.config import NetworkConfig, proxy_for
from forged.counters import Departure, Metrics
from forged.errors import ProviderError
from forged.models import Purpose
from forged.text.redaction import INLINE_LENGTH, PLACEHOLDER, redact
from forged.text.tokens import estimate
from forged_client.private import without_private

Record = Callable[[Departure], None]
Affords = Callable[[int], str]
"""Why a call of about so many tokens is too much for today, or nothing."""
Guard = Callable[[tuple[str, ...]], Awaitable[str]]
"""Why nothing that comes from roots at these tops may leave, or nothing; waits until that is known."""

# Their calls are admitted, and those of chat models counted as cost, by who makes them; a database has none.
GOVERNED = frozenset({"hyde", "capture", "doctor", "shared"})
_DIRECT = NetworkConfig()
_BODY_LEAVES = "http11.send_request_body.started"


def _unheard(_: Departure) -> None:
    pass


class Door:
    """One for all endpoints of a process. `metrics` counts the secrets that were cut.

    `record` hears of every request that leaves, and of what came of it.
    """

    def __init__(self, network: NetworkConfig = _DIRECT, record: Record = _unheard) -> None:
        self.metrics = Metrics()
        self.record = record
        self._network = network
        self._guard: Guard = _open
        self._affords: Affords = _free

    def guard(self, guard: Guard, affords: Affords, record: Record, metrics: Metrics) -> None:
        """Ask the first two before each request from now on, and count by the others."""
        self._guard, self._affords, self.record, self.metrics = guard, affords, record, metrics

    async def refusal(self, tops: tuple[str, ...]) -> str:
        """Why nothing of these roots may leave now, or nothing."""
        return await self._guard(tops)

    def proxy_for(self, url: str, key: str) -> str:
        """The proxy by which this URL is called, "" for none. Raises ConfigError: a key would go in clear."""
        return proxy_for(url, key, self._network)

    async def check(self, purpose: Purpose, texts: Sequence[str]) -> None:
        """Whether a request may go; asked before each attempt. Raises ProviderError, `held` or `limit`."""
        if reason := await self.refusal(purpose.tops):
            raise ProviderError(reason, reason="held")
        if purpose.name not in GOVERNED and (reason := self._affords(estimate(*texts))):
            raise ProviderError(reason, reason="limit")

    async def cleared(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts as they may leave, in their order."""
        if sum(map(len, texts)) < INLINE_LENGTH:
            clean = _cleaned(texts)
        else:
            clean = await asyncio.to_thread(_cleaned, texts)
        self.metrics.secrets_redacted += sum(count for _, count in clean)
        return tuple(text for text, _ in clean)


class Leaving:
    """One attempt on its way out; `answered` is for whoever sends it to set.

    `trace` hears from httpcore how far it is. It counts when its body is handed to the network: what finds
    nobody there has not left, and the CONNECT for a proxy holds no text.
    """

    def __init__(self, record: Record, host: str, purpose: Purpose, texts: Sequence[str]) -> None:
        self.answered = False
        self._record, self._host, self._purpose, self._texts = record, host, purpose.name, texts
        self._has_left = False

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        if event == _BODY_LEAVES and getattr(info.get("request"), "method", b"") == b"POST":
            self.left()

    def left(self) -> None:
        self._has_left = True
        texts, characters = len(self._texts), sum(map(len, self._texts))
        self._record(Departure(self._host, self._purpose, calls=1, texts=texts, characters=characters))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_left and not self.answered:
            self._record(Departure(self._host, self._purpose, failed=1))


def cleaned(text: str) -> str:
    """A text without private spans and secrets; of one that is nothing else a placeholder is left."""
    return _cleaned((text,))[0][0]


def _cleaned(texts: Sequence[str]) -> list[tuple[str, int]]:
    found = []
    for text in texts:
        clean = redact(without_private(text))
        blank = not clean.text.strip() and bool(text.strip())
        found.append((PLACEHOLDER if blank else clean.text, clean.count))
    return found


def _free(_: int) -> str:
    return ""


async def _open(_: tuple[str, ...]) -> str:
    return ""
