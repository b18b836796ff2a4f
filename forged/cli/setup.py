"""`forgectl setup`: connect the agents of this machine, or disconnect them.

The plan is shown and needs one confirmation. `--yes` confirms only this plan: it trusts no repository and
makes no program the classifier. Steps for the person are printed as commands. An agent that cannot be
connected is named with the remedy; the others go on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import click
import msgspec

from forged import integrations
from forged.cli import setup_words as words
from forged.cli.call import Invocation, check_done, open_client, show
from forged.cli.commands import with_json_option
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import UNAVAILABLE, Stop
from forged.cli.service.installing import install, uninstall
from forged.cli.service.status import unit_files
from forged.cli.service.units import UnitFileState
from forged.cli.terminal import escape, escape_line, say, tell
from forged.cli.user_manager import UserManager
from forged.integrations import AgentState, IntegrationError, Machine
from forged_client import address
from forged_client import protocol as wire
from forged_client.errors import AddressError

_AGENTS = tuple(integrations.agent_rows())
_OWN_HOME = "run this as yourself, without sudo, or set HOME to your own home directory"


class SetupResult(msgspec.Struct, frozen=True):
    """Result of setup for one agent or part: the steps that were done, and why it failed, if so."""

    about: str
    done: tuple[str, ...] = ()
    failed: str = ""


class _ExtraSteps(msgspec.Struct, frozen=True):
    """Flags for steps of setup beyond agents: systemd's units, forged's lines in git's excludes."""

    service: bool
    git: bool


@click.command("setup", short_help="Connect your agents; --remove disconnects them.")
@click.argument("agents", nargs=-1, type=click.Choice(_AGENTS), metavar="[AGENT]...")
@click.option("--remove", "removes", is_flag=True, help="Remove forged's entries, also in info/exclude.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--no-service", is_flag=True, help="Leave systemd alone.")
@yes_option
@with_json_option
def setup_command(
    call: Invocation, agents: tuple[str, ...], *, removes: bool, dry_run: bool, no_service: bool, yes: bool
) -> None:
    """Find the agents of this machine, show what connecting them changes, ask once, and do it.

    AGENT: claude, codex, gemini, opencode, qwen, cursor, vscode; several are possible. Default: all found.
    """
    machine = machine_of(call)
    _check_home(machine)
    states = integrations.report(machine, agents)
    chosen = _connected_agents(machine, states) if removes else _agents_to_connect(states, named=bool(agents))
    owns_service = not agents and not no_service and _needs_service_step(call, machine, removes=removes)
    has_git = removes and not agents and _has_state(call)
    plan = tuple(words.plan(machine, chosen, removes=removes, service=owns_service, git=has_git))
    if dry_run or not (chosen or has_git):
        show(
            call,
            {"plan": plan, "done": (), "left": ()},
            (*plan, *_nothing_to_remove_note(plan, removes=removes)),
        )
        return
    _confirm_plan(call, plan, removes=removes, yes=yes)
    extras = _ExtraSteps(service=owns_service, git=has_git)
    outcomes = tuple(_run_plan(call, machine, chosen, removes=removes, extras=extras))
    left = words.AFTER_REMOVAL if removes else tuple(words.next_steps(machine, states, succeeded(outcomes)))
    if call.as_json:
        show(call, {"plan": plan, "done": outcomes, "left": left}, ())
    else:
        say("\n".join(("", *left)) if left else "")
    sys.exit(UNAVAILABLE if any(outcome.failed for outcome in outcomes) else 0)


def machine_of(call: Invocation) -> Machine:
    """Describe the machine of this call for `forged.integrations`. Raises Stop without a home directory."""
    try:
        return integrations.machine_of(call.environ, call.workspace)
    except AddressError as error:
        raise Stop("configuration", str(error)) from error


def _check_home(machine: Machine) -> None:
    """Raise Stop if HOME belongs to another user, as with `sudo`, where new files would be root's."""
    try:
        is_ours = os.stat(machine.home).st_uid == os.geteuid()
    except OSError as error:
        raise Stop(
            "configuration", f"HOME ({machine.home}) cannot be used: {error.strerror}; {_OWN_HOME}"
        ) from error
    if not is_ours:
        raise Stop("configuration", f"HOME ({machine.home}) belongs to another user; {_OWN_HOME}")


def succeeded(outcomes: Sequence[SetupResult]) -> frozenset[str]:
    """Return the names of agents and other parts of setup whose steps did not fail."""
    return frozenset(outcome.about for outcome in outcomes if not outcome.failed)


def _agents_to_connect(states: Sequence[AgentState], *, named: bool) -> tuple[AgentState, ...]:
    """Return the agents to connect: those found, or all that are named. Raises Stop if there are none."""
    found = tuple(state for state in states if named or state.is_installed)
    if not found:
        raise Stop("not_found", words.no_agent_error())
    return found


def _connected_agents(machine: Machine, states: Sequence[AgentState]) -> tuple[AgentState, ...]:
    """Return the agents that a removal disconnects: connected ones, and those in setup's record."""
    return tuple(
        state for state in states if state.connection or integrations.is_recorded(machine, state.agent)
    )


def _nothing_to_remove_note(plan: Sequence[str], *, removes: bool) -> tuple[str, ...]:
    """Return a line that no agent is connected, if a removal has an empty plan; else nothing."""
    return ("no agent is connected, nothing to remove",) if removes and not plan else ()


def _has_state(call: Invocation) -> bool:
    """Return True if a daemon has run here (its state file exists) and may have changed git's excludes."""
    return os.path.exists(os.path.join(address.state_dir(call.environ), "state.db"))


def _confirm_plan(call: Invocation, plan: Sequence[str], *, removes: bool, yes: bool) -> None:
    """Print the plan of setup and ask, or with `yes` only print it. Raises Stop if the answer is no."""
    if yes:
        for line in () if call.as_json else plan:
            click.echo(line, err=True)
        return
    require_answer(call, "setup")
    question = "Remove this?" if removes else "Do this?"
    confirm(plan, question, "nothing was changed")


def _needs_service_step(call: Invocation, machine: Machine, *, removes: bool) -> bool:
    """Return True if setup should install systemd's units or, for a removal, if it has installed them."""
    if removes:
        return integrations.owns_service(machine)
    if call.executable is None or all(file.state != UnitFileState.MISSING for file in unit_files(call)):
        return False
    manager = UserManager.find(call)
    return manager is not None and not manager.silence()


def _run_plan(
    call: Invocation, machine: Machine, chosen: Sequence[AgentState], *, removes: bool, extras: _ExtraSteps
) -> Iterator[SetupResult]:
    """Connect or disconnect agents, then change service, git, daemon or own files; yield each result."""
    rows = integrations.agent_rows()
    act = integrations.disconnect if removes else integrations.connect
    for state in chosen:
        if call.can_redraw(sys.stderr) and not call.as_json:  # an agent's own command may take many seconds
            tell(f"{'removing from' if removes else 'connecting'} {state.title} ...")
        yield _print_result(call, _run_steps(state.title, act(machine, rows[state.agent])))
    if extras.service:
        yield _print_result(call, _run_steps("service", _change_service(call, machine, removes=removes)))
    if extras.git:
        yield _print_result(call, _run_steps("git", _remove_git_lines(call)))
    if removes:
        yield _print_result(call, _run_steps("forged", integrations.remove_own_files(machine)))
    else:
        yield _print_result(call, _run_steps("daemon", _start_daemon(call)))


def _change_service(call: Invocation, machine: Machine, *, removes: bool) -> Iterator[str]:
    """Install or uninstall systemd's units and record it for a later removal; yield each step."""
    yield from uninstall(call) if removes else install(call)
    integrations.record_service(machine, installed=not removes)


def _remove_git_lines(call: Invocation) -> Iterator[str]:
    """Ask the daemon to remove its `info/exclude` lines; yield each. Raises Stop if some stay."""
    with open_client(call) as client:
        done = client.ask(wire.Trust(action="unexclude"))
    if done.status != "empty":  # no repository has the line
        check_done(done)
    yield from (f"removed forged's line from {root.root}/info/exclude" for root in done.roots)
    if done.reason:
        raise Stop("conflict", done.reason)


def _start_daemon(call: Invocation) -> Iterator[str]:
    """Start the daemon, so that hooks can start it later; yield a sentence with its version and pid."""
    with open_client(call) as client:
        client.ping()
        report = client.status()
    yield f"forged {report.version} is running, pid {report.pid}; hooks start it again when needed"


def _run_steps(about: str, steps: Iterator[str]) -> SetupResult:
    """Run the steps of one part of setup until an error; return those done, and the error."""
    done: list[str] = []
    try:
        done.extend(steps)
    except (IntegrationError, Stop) as error:
        return SetupResult(about, tuple(done), str(error))
    return SetupResult(about, tuple(done))


def _print_result(call: Invocation, outcome: SetupResult) -> SetupResult:
    """Print a result of setup, done steps and the failure, unless `--json` is given; return it."""
    if not call.as_json:
        for step in outcome.done:
            say(f"{call.paint('good', 'done')}  {outcome.about}: {escape_line(step)}")
        if outcome.failed:
            say(f"{call.paint('bad', 'NOT')}   {outcome.about}: {escape(outcome.failed)}")
    return outcome
