"""`forgectl setup`: connect the agents of this machine, or take that away again.

What it will do is shown and asked about once. `--yes` is the answer to that question and to no other: it
trusts no repository and makes no program the classifier; what remains for the person is printed as commands.
An agent that cannot be connected is named with what to do, and does not keep the others from it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import click
import msgspec

from forged import integrations
from forged.cli import setup_words as words
from forged.cli.call import Invocation, check_done, daemon, show
from forged.cli.commands import reads
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import UNAVAILABLE, Stop
from forged.cli.service.installing import install, uninstall
from forged.cli.service.looking import unit_files
from forged.cli.service.units import UnitFileState
from forged.cli.terminal import escape, escape_line, say
from forged.cli.user_manager import UserManager
from forged.integrations import AgentState, IntegrationError, Machine
from forged_client import address
from forged_client import protocol as wire
from forged_client.errors import AddressError

_AGENTS = tuple(integrations.agent_rows())
_OWN_HOME = "say this as yourself, without sudo, or set HOME to your own home directory"


class SetupResult(msgspec.Struct, frozen=True):
    """What came of one agent, or of the service: each step that was done, and why it went no further."""

    about: str
    done: tuple[str, ...] = ()
    failed: str = ""


class _Extras(msgspec.Struct, frozen=True):
    """Steps of setup that concern no agent: systemd's units, and forged's lines in repositories."""

    service: bool
    git: bool


@click.command("setup", short_help="Connect your agents; --remove takes that away.")
@click.argument("agents", nargs=-1, type=click.Choice(_AGENTS), metavar="[AGENT]...")
@click.option("--remove", "removes", is_flag=True, help="Take away what setup did, and nothing else.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--no-service", is_flag=True, help="Leave systemd alone.")
@yes_option
@reads
def setup_command(
    call: Invocation, agents: tuple[str, ...], *, removes: bool, dry_run: bool, no_service: bool, yes: bool
) -> None:
    """Find the agents of this machine, show what connecting them means, ask once, and do it.

    AGENT: claude, codex, gemini, opencode, qwen, cursor, vscode, also several; without it all there are.
    """
    machine = machine_of(call)
    _check_home(machine)
    states = integrations.report(machine, agents)
    chosen = _connected(machine, states) if removes else _present(states, named=bool(agents))
    owns_service = not agents and not no_service and _service_matters(call, machine, removes=removes)
    has_git = removes and not agents and _has_state(call)
    plan = tuple(words.plan(machine, chosen, removes=removes, service=owns_service, git=has_git))
    if dry_run or not (chosen or has_git):
        show(call, {"plan": plan, "done": (), "left": ()}, (*plan, *_nothing(plan, removes=removes)))
        return
    _agree(call, plan, removes=removes, yes=yes)
    extras = _Extras(service=owns_service, git=has_git)
    outcomes = tuple(_carried_out(call, machine, chosen, removes=removes, extras=extras))
    left = words.AFTER_REMOVAL if removes else tuple(words.left(machine, states, outcomes_of(outcomes)))
    if call.as_json:
        show(call, {"plan": plan, "done": outcomes, "left": left}, ())
    else:
        say("\n".join(("", *left)) if left else "")
    sys.exit(UNAVAILABLE if any(outcome.failed for outcome in outcomes) else 0)


def machine_of(call: Invocation) -> Machine:
    """This machine. Raises Stop where there is no home."""
    try:
        return integrations.machine_of(call.environ, call.workspace)
    except AddressError as error:
        raise Stop("configuration", str(error)) from error


def _check_home(machine: Machine) -> None:
    """With `sudo` HOME may still be that of the person, who could not change what root writes there."""
    try:
        is_ours = os.stat(machine.home).st_uid == os.geteuid()
    except OSError as error:
        raise Stop("configuration", f"HOME is {machine.home}: {error.strerror}; {_OWN_HOME}") from error
    if not is_ours:
        raise Stop("configuration", f"HOME is {machine.home}, which is another user's; {_OWN_HOME}")


def outcomes_of(outcomes: Sequence[SetupResult]) -> frozenset[str]:
    """Names of what was done without a failure."""
    return frozenset(outcome.about for outcome in outcomes if not outcome.failed)


def _present(states: Sequence[AgentState], *, named: bool) -> tuple[AgentState, ...]:
    """The agents to connect; those that were named also where they were not found, which is then said."""
    found = tuple(state for state in states if named or state.is_installed)
    if not found:
        raise Stop("not_found", words.no_agent())
    return found


def _connected(machine: Machine, states: Sequence[AgentState]) -> tuple[AgentState, ...]:
    return tuple(
        state for state in states if state.connection or integrations.is_recorded(machine, state.agent)
    )


def _nothing(plan: Sequence[str], *, removes: bool) -> tuple[str, ...]:
    return ("no agent is connected, nothing to take away",) if removes and not plan else ()


def _has_state(call: Invocation) -> bool:
    """Whether a daemon ever ran here, which may have had git ignore something."""
    return os.path.exists(os.path.join(address.state_dir(call.environ), "state.db"))


def _agree(call: Invocation, plan: Sequence[str], *, removes: bool, yes: bool) -> None:
    if yes:
        for line in () if call.as_json else plan:
            click.echo(line, err=True)
        return
    require_answer(call, "setup")
    question = "Take this away?" if removes else "Do this?"
    confirm(plan, question, "nothing was changed")


def _service_matters(call: Invocation, machine: Machine, *, removes: bool) -> bool:
    """Whether systemd is to be told: it answers and has not our units yet, or has them by setup."""
    if removes:
        return integrations.owns_service(machine)
    if call.executable is None or all(file.standing != UnitFileState.MISSING for file in unit_files(call)):
        return False
    manager = UserManager.find(call)
    return manager is not None and not manager.silence()


def _carried_out(
    call: Invocation, machine: Machine, chosen: Sequence[AgentState], *, removes: bool, extras: _Extras
) -> Iterator[SetupResult]:
    rows = integrations.agent_rows()
    act = integrations.disconnect if removes else integrations.connect
    for state in chosen:
        yield _told(call, _outcome(state.title, act(machine, rows[state.agent])))
    if extras.service:
        yield _told(call, _outcome("service", _service(call, machine, removes=removes)))
    if extras.git:
        yield _told(call, _outcome("git", _lines_taken_out(call)))
    if removes:
        yield _told(call, _outcome("forged", integrations.remove_own_files(machine)))
    else:
        yield _told(call, _outcome("daemon", _started(call)))


def _service(call: Invocation, machine: Machine, *, removes: bool) -> Iterator[str]:
    yield from uninstall(call) if removes else install(call)
    integrations.record_service(machine, installed=not removes)


def _lines_taken_out(call: Invocation) -> Iterator[str]:
    """Every repository as it was: git ignores nothing of forged's there. Raises Stop for what stays."""
    with daemon(call) as client:
        done = client.ask(wire.Trust(action="unexclude"))
    if done.status != "empty":  # no repository has the line
        check_done(done)
    yield from (f"took forged's line out of {root.root}/info/exclude" for root in done.roots)
    if done.reason:
        raise Stop("conflict", done.reason)


def _started(call: Invocation) -> Iterator[str]:
    """A daemon that answers. Its first start leaves on record which program a hook may start later."""
    with daemon(call) as client:
        client.ping()
        report = client.status()
    yield f"forged {report.version} answers, pid {report.pid}; hooks start it again when it has ended"


def _outcome(about: str, steps: Iterator[str]) -> SetupResult:
    done: list[str] = []
    try:
        done.extend(steps)
    except (IntegrationError, Stop) as error:
        return SetupResult(about, tuple(done), str(error))
    return SetupResult(about, tuple(done))


def _told(call: Invocation, outcome: SetupResult) -> SetupResult:
    if not call.as_json:
        for step in outcome.done:
            say(f"{call.paint('good', 'done')}  {outcome.about}: {escape_line(step)}")
        if outcome.failed:
            say(f"{call.paint('bad', 'NOT')}   {outcome.about}: {escape(outcome.failed)}")
    return outcome
