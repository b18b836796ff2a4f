"""How each model fares that is asked at an endpoint, for `status`; and `try`, one real call to each."""

from __future__ import annotations

import asyncio
import time

from forged.daemon.handlers.context import Context, Daemon, Probe
from forged.errors import ProviderError
from forged_client import protocol as wire

_LONGEST_S = 30.0


def reports(daemon: Daemon) -> tuple[wire.EndpointReport, ...]:
    """One line for each model, in the order of what it is asked for."""
    return tuple(health.condition() for health in daemon.healths)


def is_failing(daemon: Daemon) -> bool:
    """Whether a model that is in use fails, or is skipped as it takes too long."""
    return any(health.condition().state in {"failing", "slow"} for health in daemon.healths)


async def try_all(context: Context, _: wire.Try) -> wire.Tried:
    """One call to each, side by side; it goes the way of all others, so it is counted and cleaned."""
    probes = context.daemon.probes
    return wire.Tried(trials=tuple(await asyncio.gather(*map(_trial, probes))))


async def _trial(probe: Probe) -> wire.Trial:
    health, started, failure = probe.health, time.monotonic(), None
    try:
        await probe.call(started + _LONGEST_S)
    except ProviderError as error:
        failure = error
    return wire.Trial(
        host=health.host,
        model=health.model,
        uses=health.uses,
        ok=failure is None,
        took_ms=round((time.monotonic() - started) * 1000, 1),
        reason=failure.reason if failure is not None else "",
        message=str(failure or ""),
    )
