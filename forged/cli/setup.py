"""`forgectl setup`: connect the agents of this machine, or take that away again. Asks no daemon.

What it will do is shown and asked about once. `--yes` is the answer to that question and to no other: it
trusts no repository and makes no program the classifier; what remains for the person is printed as commands.
An agent that cannot be connected is named with what to do, and does not keep the others from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click
import msgspec

from forged import integrations
from forged.cli import setup_words as words
from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import UNAVAILABLE, Stop
from forged.cli.service.installing import install, uninstall
from forged.cli.terminal import escape_line, say
from forged.cli.user_manager import UserManager
from forged.errors import ConfigError
from forged.integrations import AgentState, Machine, NotDone, Row
from forged_client.errors import AddressError

_AGENTS = tuple(integrations.rows())


class Outcome(msgspec.Struct, frozen=True):
    """What came of one agent, or of the service: each step that was done, and why it went no further."""

    about: str
    done: tuple[str, ...] = ()
    failed: str = ""


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

    AGENT is one or several of claude, codex, gemini, opencode, qwen, cursor, vscode; without it all that are here.
    """
    machine = machine_of(call)
    states = integrations.report(machine, agents)
    chosen = _connected(machine, states) if removes else _present(states, named=bool(agents))
    has_service = not agents and not no_service and _service_matters(call, machine, removes=removes)
    plan = tuple(words.plan(machine, chosen, removes=removes, service=has_service))
    if dry_run or not chosen:
        show(call, {"plan": plan, "done": (), "left": ()}, (*plan, *_nothing(chosen, removes=removes)))
        return
    _agree(call, plan, removes=removes, yes=yes)
    outcomes = tuple(_carried_out(call, machine, chosen, removes=removes, service=has_service))
    left = () if removes else tuple(words.left(machine, states, outcomes_of(outcomes)))
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


def outcomes_of(outcomes: Sequence[Outcome]) -> frozenset[str]:
    """Names of what was done without a failure."""
    return frozenset(outcome.about for outcome in outcomes if not outcome.failed)


def _present(states: Sequence[AgentState], *, named: bool) -> tuple[AgentState, ...]:
    """The agents to connect; those that were named also where they were not found, which is then said."""
    found = tuple(state for state in states if named or state.is_here)
    if not found:
        raise Stop("not_found", words.no_agent())
    return found


def _connected(machine: Machine, states: Sequence[AgentState]) -> tuple[AgentState, ...]:
    return tuple(state for state in states if state.connection or integrations.is_on_record(machine, state.agent))


def _nothing(chosen: Sequence[AgentState], *, removes: bool) -> tuple[str, ...]:
    return ("no agent is connected, nothing to take away",) if removes and not chosen else ()


def _agree(call: Invocation, plan: Sequence[str], *, removes: bool, yes: bool) -> None:
    if yes:
        return
    require_answer(call, "setup")
    question = "Take this away?" if removes else "Do this?"
    confirm(plan, question, "nothing was changed")
