"""`forgectl doctor`: check the installation, and print a fix for each problem.

A check is a generator of findings that changes nothing. `summary` groups similar findings; JSON has all of
them. Only `--try` calls a model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from forged.cli.call import Invocation, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.doctor import agents, checks, drift, endpoints, machine, service, summary
from forged.cli.doctor.checks import FAIL, WARN, Check
from forged.cli.exits import CONFIGURATION, UNAVAILABLE, Stop

_ABOUT_SETTINGS = {"configuration", "embedding key", "llm key", "socket"}


@click.command("doctor")
@click.option("--try", "tries", is_flag=True, help="Make one real call to each model at an endpoint.")
@click.option("--all", "each", is_flag=True, help="List each finding, also similar ones.")
@with_daemon_options
def doctor_command(call: Invocation, *, tries: bool, each: bool) -> None:
    """Check the installation, and print a fix for each problem.

    Exit code 0 if nothing failed, 78 for a wrong configuration, else 69.
    """
    found = _without_duplicates(examine(call, tries=tries))
    show(call, {"checks": found}, summary.lines(found, call.paint, each=each))
    sys.exit(verdict(found))


def examine(call: Invocation, *, tries: bool = False) -> Iterator[Check]:
    """Yield the findings of all checks of doctor; with `tries` call models at endpoints, too."""
    yield from checks.interpreter()
    yield from drift.configuration(call.environ)
    yield from checks.address(call.environ)
    yield from service.service(call)
    yield from _check_daemon(call, tries=tries)
    yield from machine.machine(call.environ)
    yield from checks.inotify()


def verdict(found: tuple[Check, ...]) -> int:
    """Return doctor's exit code: 0 without failure, 78 if settings, key or socket fail, else 69."""
    failed = {check.name for check in found if check.level == FAIL}
    if failed & _ABOUT_SETTINGS:
        return CONFIGURATION
    return UNAVAILABLE if failed else 0


def _check_daemon(call: Invocation, *, tries: bool) -> Iterator[Check]:
    """Ask the daemon for its status; yield findings on it and on agents, or why it is silent."""
    try:
        with open_client(call) as client:
            report = client.status(call.workspace)
            trials = client.try_endpoints().trials if tries else None
    except Stop as stop:
        fix = "run `forged serve` in the foreground to see its error"
        if stop.word == "not_running":
            fix = "`forgectl ping`"
        elif stop.word == "protocol_mismatch":
            fix = "`forgectl restart`"
        yield Check("daemon", FAIL, str(stop), fix)
        if tries:
            yield Check(
                "endpoint tried", WARN, "not tried: the daemon makes these calls, and it does not answer", fix
            )
        yield from agents.agents(call, ())
        return
    yield from checks.reached(report)
    yield from drift.in_use(report, call.environ)
    yield from checks.gate(report)
    yield from checks.scopes(report)
    yield from checks.roots(report)
    yield from checks.capture(report)
    yield from endpoints.reported(report)
    yield from endpoints.server(report)
    if trials is not None:
        yield from endpoints.tried(trials)
    yield from agents.agents(call, report.agents)


def _without_duplicates(found: Iterator[Check]) -> tuple[Check, ...]:
    """Return one finding of each level and text, as the daemon repeats some checks made here."""
    return tuple({(check.level, check.detail): check for check in reversed(tuple(found))}.values())[::-1]
