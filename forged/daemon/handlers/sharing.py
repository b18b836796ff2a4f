"""How the team's server fares, for `status`."""

from __future__ import annotations

import time
from collections.abc import Iterator

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
        in_step=tuple(_in_step(daemon)),
        not_in_step=daemon.machines.problem if daemon.machines is not None else "",
    )


def _in_step(daemon: Daemon) -> Iterator[wire.InStepReport]:
    found = daemon.machines.standing if daemon.machines is not None else {}
    for (scope, owner), standing in found.items():
        yield wire.InStepReport(
            scope=scope,
            owner=owner,
            behind=standing.behind,
            kept_here=standing.kept_here,
            refused=standing.refused,
            in_step_s=_rounded(time.time() - standing.at) if standing.at else None,
        )


def is_failing(daemon: Daemon) -> bool:
    """Whether it cannot be used, or refuses what was written."""
    told = report(daemon)
    return told is not None and bool(told.state == "failing" or told.problem or told.refused)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
