"""How the team's server fares, for `status`."""

from __future__ import annotations

from forged.daemon.handlers.context import Daemon
from forged_client import protocol as wire

_REFUSED_SHOWN = 10


def report(daemon: Daemon) -> wire.SharedReport | None:
    """What is told of it, None where there is none."""
    if daemon.shared is None:
        return None
    told = daemon.shared.condition()
    return wire.SharedReport(
        server=told.server,
        scopes=told.scopes,
        state=told.health.state,
        last_success_s=_rounded(told.health.last_success_s),
        failing_s=_rounded(told.health.failing_s),
        message=told.health.message,
        next_s=_rounded(told.health.next_s),
        problem=told.problem,
        waiting=told.waiting,
        without_vector=told.without_vector,
        refused=told.refused[:_REFUSED_SHOWN],
        replayed_s=_rounded(told.replayed_s),
        listening=told.is_listening,
        writers={name: round(age_s, 1) for name, age_s in told.writers.items()},
    )


def is_failing(daemon: Daemon) -> bool:
    """Whether it cannot be used, or refuses what was written."""
    told = report(daemon)
    return told is not None and bool(told.state == "failing" or told.problem or told.refused)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
