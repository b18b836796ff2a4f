"""Egress guard: redact texts that leave for an endpoint, refuse them in a pause, and count them.

Private spans and secrets are cut. Raises ProviderError (`held`, `limit`), and then nothing leaves. An
endpoint on this machine is treated like any other. Models in this process have no guard. The daemon
configures two refusals: memory is paused, and the tokens of the day are used. The capture worker has
neither, because the daemon gives it no text that is held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self

from forged.config import NetworkConfig, proxy_for
from forged.counters import EgressRecord, Metrics
from forged.errors import ProviderError
from forged.models import Purpose
from forged.text.redaction import INLINE_LENGTH, PLACEHOLDER, redact
from forged.text.tokens import estimate
from forged_client.private_spans import without_private

Record = Callable[[EgressRecord], None]
OverBudget = Callable[[int], str]
"""Reason that a call of about so many tokens exceeds the limit of today, or an empty string."""
Refuse = Callable[[tuple[str, ...]], Awaitable[str]]
"""Reason that no text of the roots with these top folders may leave, or an empty string."""

# Purposes whose caller asks the governor and counts the cost. A database has no cost.
GOVERNED = frozenset({"hyde", "capture", "doctor", "shared"})
_DIRECT = NetworkConfig()
_BODY_LEAVES = "http11.send_request_body.started"


def _record_nothing(_: EgressRecord) -> None:
    """Ignore an egress record, where nothing is counted."""


class EgressGuard:
    """Guard of texts that leave this process for endpoints: redacts, refuses and records them.

    `metrics` counts the secrets that were cut. `record` gets an `EgressRecord` when a request leaves and when
    it fails.
    """

    def __init__(self, network: NetworkConfig = _DIRECT, record: Record = _record_nothing) -> None:
        self.metrics = Metrics()
        self.record = record
        self._network = network
        self._refuse: Refuse = _never_refuse
        self._over_budget: OverBudget = _never_over_budget

    def configure(self, refuse: Refuse, over_budget: OverBudget, record: Record, metrics: Metrics) -> None:
        """Set the functions that may refuse a request or record it, and the counters of secrets."""
        self._refuse, self._over_budget, self.record, self.metrics = refuse, over_budget, record, metrics

    async def refusal(self, tops: tuple[str, ...]) -> str:
        """Return the reason that no text of these roots may leave now, or an empty string."""
        return await self._refuse(tops)

    def proxy_for(self, url: str, key: str) -> str:
        """Return the proxy for this URL, or "". Raises ConfigError if the key would go in clear text."""
        return proxy_for(url, key, self._network)

    async def check(self, purpose: Purpose, texts: Sequence[str]) -> None:
        """Raise ProviderError in a pause or, for ungoverned purposes, above today's token limit."""
        if reason := await self.refusal(purpose.tops):
            raise ProviderError(reason, reason="held")
        if purpose.name not in GOVERNED and (reason := self._over_budget(estimate(*texts))):
            raise ProviderError(reason, reason="limit")

    async def cleared(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the texts without private spans and secrets, in the same order; count the secrets."""
        if sum(map(len, texts)) < INLINE_LENGTH:
            clean = _clean_each(texts)
        else:
            clean = await asyncio.to_thread(_clean_each, texts)
        self.metrics.secrets_redacted += sum(count for _, count in clean)
        return tuple(text for text, _ in clean)


class EgressAttempt:
    """Context of one request: records that its texts left and, without `answered`, that it failed.

    `trace` is the callback of httpcore. An attempt counts when its body is handed to the network. A refused
    connection has sent nothing, and the CONNECT for a proxy holds no text.
    """

    def __init__(self, record: Record, host: str, purpose: Purpose, texts: Sequence[str]) -> None:
        self.answered = False
        self._record, self._host, self._purpose, self._texts = record, host, purpose.name, texts
        self._is_sent = False

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Record the texts as sent when httpcore hands the request's body to the network."""
        if event == _BODY_LEAVES and getattr(info.get("request"), "method", b"") == b"POST":
            self.mark_sent()

    def mark_sent(self) -> None:
        """Record that the request's texts have left: one call, with their number and length."""
        self._is_sent = True
        texts, characters = len(self._texts), sum(map(len, self._texts))
        self._record(EgressRecord(self._host, self._purpose, calls=1, texts=texts, characters=characters))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_sent and not self.answered:
            self._record(EgressRecord(self._host, self._purpose, failed=1))


def cleaned(text: str) -> str:
    """Return a text without private spans and secrets; a placeholder if nothing else was in it."""
    return _clean_each((text,))[0][0]


def _clean_each(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return each text without private spans and secrets, with the number of secrets."""
    found = []
    for text in texts:
        clean = redact(without_private(text))
        blank = not clean.text.strip() and bool(text.strip())
        found.append((PLACEHOLDER if blank else clean.text, clean.count))
    return found


def _never_over_budget(_: int) -> str:
    """Return no reason, for a guard without a token limit."""
    return ""


async def _never_refuse(_: tuple[str, ...]) -> str:
    """Return no reason, for a guard that is not configured."""
    return ""
