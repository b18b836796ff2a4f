"""The door out: what every text passes on its way to an endpoint.

In go the texts of one request and their `Purpose`; out come the same texts without secrets and private spans,
of which the request's body is made, or ProviderError `paused` is raised and nothing leaves. An endpoint on
this machine is one like any other: what listens on a port may be anybody. Models that run in this process
have no door.

Whether text may leave at all is the daemon's to say (`guard`): somebody may have paused, for a repository or
everywhere. The capture worker has no such guard, as the daemon hands it nothing that is held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from forged.config import NetworkConfig, proxy_for
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.models import Purpose
from forged.text.private import without_private
from forged.text.redaction import INLINE_LENGTH, PLACEHOLDER, redact

Guard = Callable[[tuple[str, ...]], Awaitable[str]]
"""Why nothing that comes from roots at these tops may leave, or nothing; waits until that is known."""

_DIRECT = NetworkConfig()


class Door:
    """One for all endpoints of a process. `metrics` counts the secrets that were cut."""

    def __init__(self, network: NetworkConfig = _DIRECT) -> None:
        self._network = network
        self.metrics = Metrics()
        self._guard: Guard = _open

    def guard(self, guard: Guard, metrics: Metrics) -> None:
        """Ask `guard` before each request from now on, and count in `metrics`."""
        self._guard, self.metrics = guard, metrics

    async def refusal(self, tops: tuple[str, ...]) -> str:
        """Why nothing of these roots may leave now, or nothing."""
        return await self._guard(tops)

    def proxy_for(self, url: str, key: str) -> str:
        """The proxy by which this URL is called, "" for none. Raises ConfigError: a key would go in clear."""
        return proxy_for(url, key, self._network)

    async def cleared(self, purpose: Purpose, texts: Sequence[str]) -> tuple[str, ...]:
        """The texts as they may leave, in their order. Raises ProviderError, `paused`."""
        if reason := await self.refusal(purpose.tops):
            raise ProviderError(reason, reason="paused")
        if sum(map(len, texts)) < INLINE_LENGTH:
            clean = _cleaned(texts)
        else:
            clean = await asyncio.to_thread(_cleaned, texts)
        self.metrics.secrets_redacted += sum(count for _, count in clean)
        return tuple(text for text, _ in clean)


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


async def _open(_: tuple[str, ...]) -> str:
    return ""
