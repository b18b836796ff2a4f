"""The verbs of forgectl, the options they share, and how a call ends.

Verbs live in one module per family and are imported when they are called, so a new one costs the others
nothing; their one-line descriptions stand here, so that `--help` imports none. To add a verb: a line in
VERBS, and in its module a click command named `<verb>_command`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import math
import os
import sys
from collections.abc import Callable, Sequence

import click
import msgspec

from forged import __version__
from forged.cli.call import Invocation, report
from forged.cli.exits import EXPLAINED, INTERRUPTED, Stop
from forged.cli.terminal import let_go, not_written

VERBS = {
    "demo": ("demo.steps", "Show in a scratch directory what forged does, with a real daemon."),
    "setup": ("setup", "Connect your agents; --remove takes that away."),
    "integrations": ("integrations", "Show how each agent is connected."),
    "status": ("status_verbs", "Show what the daemon is doing: roots, problems, counters."),
    "ping": ("status_verbs", "Ask whether the daemon answers."),
    "rebuild": ("rebuild", "Rescan the memory files of this workspace."),
    "search": ("retrieval", "Find memories by text."),
    "retrieve": ("retrieval", "Print what an agent would get for a message."),
    "recall": ("recalling", "Find what sessions, you, an agent and documents remember, as one list."),
    "why": ("retrieval", "Explain the last injection of a session, or what a query would find."),
    "remember": ("memories", "Write one memory."),
    "edit": ("chains", "Write a new version of a memory."),
    "move": ("chains", "Give a memory another scope."),
    "restore": ("chains", "Take back what was forgotten or undone; list what can come back."),
    "forget": ("memories", "Take a memory and its older versions away."),
    "list": ("memories", "List memories, newest first."),
    "show": ("memories", "Print memories whole."),
    "history": ("memories", "Show the versions of a memory, oldest first."),
    "ui": ("ui.verb", "Look at memories, captures and injections in a page of the browser."),
    "learn": ("learning", "Propose memories from past sessions of your agents."),
    "import": ("importing", "Take over memories from other programs' files, or another root."),
    "export": ("exporting", "Copy memories out, to keep or to import elsewhere."),
    "trust": ("trusting", "Let the memories that lie in a repository be used."),
    "review": ("reviewing", "Decide about what is withheld or waits for you."),
    "captured": ("captured", "Show what was kept of conversations and what was refused."),
    "undo": ("capturing", "Take back what was captured last."),
    "pause": ("capturing", "Stop capture and injection, here or everywhere."),
    "resume": ("capturing", "End a pause."),
    "dead": ("dead_events", "List, show, retry or drop capture events that were given up."),
    "cost": ("costs", "Show what model calls have used, and the limits."),
    "outbound": ("costs", "Show what left for endpoints: hosts, purposes, counts."),
    "doctor": ("doctor", "Check the installation; say how to mend what is wrong."),
    "hook": ("hooking", "Hand an event of an agent to the daemon, as plug-ins do."),
    "mcp": ("bridge", "Serve memories to an agent that speaks MCP on stdin and stdout."),
    "stop": ("stopping", "End the daemon; the next request starts it again."),
    "restart": ("stopping", "Have the installed version take over."),
    "logs": ("logs", "Show the daemon's log, and follow it."),
    "service": ("service", "Have systemd run the daemon: install, uninstall, status."),
    "config": ("configuration", "Show, locate, start or check the configuration."),
    "docs": ("docs", "Show the manual."),
    "completion": ("completion", "Print what makes a shell complete forgectl's words."),
    "ingest": ("ingesting", "Let all agents search documents; list them, remove them."),
    "shared": ("shared", "Set up, check and open the PostgreSQL of a team."),
}

# Before the verb or after it; people write both.
_PLACE = (
    click.option("--no-autostart", is_flag=True, help="Do not start a daemon that is not running."),
    click.option("--workspace", metavar="PATH", help="Directory to work in (default: the current one)."),
)


def _number(_context: click.Context, _option: click.Parameter, seconds: float | None) -> float | None:
    if seconds is not None and math.isnan(seconds):  # no range leaves it out
        raise click.BadParameter("say a number of seconds")
    return seconds


_TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.05),
    callback=_number,
    metavar="SECONDS",
    help="For the whole call (default: 10).",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object with schema_version on stdout.")
min_generation_option = click.option(
    "--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible."
)

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"forged.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS:
            near = difflib.get_close_matches(args[0], VERBS, 1)
            ctx.fail(f"there is no verb {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("LazyGroup"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def asks(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that asks the daemon its Invocation and the shared options."""
    return _invoked(verb, (*_PLACE, _TIMEOUT, _JSON))


def reads(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that asks no daemon its Invocation, and `--json`."""
    return _invoked(verb, (_JSON,))


def _invoked(verb: Callable[..., None], options: Sequence[_Decorator]) -> Callable[..., None]:
    """Wrap a verb so that a Stop ends the process, in the form that was asked for."""

    def with_invocation(
        surroundings: Invocation,
        *,
        as_json: bool,
        workspace: str | None = None,
        no_autostart: bool = False,
        timeout_s: float | None = None,
        **own: object,
    ) -> None:
        call = _adjusted(surroundings, workspace, no_autostart, timeout_s, as_json)
        try:
            verb(call, **own)
        except Stop as stop:
            sys.exit(report(stop, as_json=as_json))

    functools.update_wrapper(with_invocation, verb)
    command: Callable[..., None] = click.pass_obj(with_invocation)
    for option in options:
        command = option(command)
    return command


def _adjusted(
    call: Invocation,
    workspace: str | None,
    no_autostart: bool,
    timeout_s: float | None = None,
    as_json: bool = False,
) -> Invocation:
    return msgspec.structs.replace(
        call,
        workspace=os.path.join(call.workspace, workspace) if workspace else call.workspace,
        autostart=call.autostart and not no_autostart,
        timeout_s=timeout_s or call.timeout_s,
        as_json=as_json,
    )


_EXIT_CODES = "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXPLAINED)


@click.group(
    cls=LazyGroup,
    name="forgectl",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{_EXIT_CODES}",
)
@click.version_option(__version__, prog_name="forgectl")
@_PLACE[0]
@_PLACE[1]
@click.pass_context
def forgectl(context: click.Context, workspace: str | None, no_autostart: bool) -> None:
    """One long-term memory for every coding agent on this machine."""
    context.obj = _adjusted(context.obj, workspace, no_autostart)


def run(arguments: Sequence[str], call: Invocation) -> int:
    """Run click on a command line; returns the exit code."""
    try:
        code = forgectl.main(list(arguments), prog_name="forgectl", standalone_mode=False, obj=call)
    except click.Abort:
        return INTERRUPTED
    except click.UsageError as error:
        if "--json" in arguments:
            return report(Stop("usage", error.format_message()), as_json=True)
        return _shown(error)
    except click.ClickException as error:
        return _shown(error)
    except OSError as error:
        if error.filename is not None:
            raise
        not_written(error)  # click prints help by itself
    return code if isinstance(code, int) else 0


def _shown(error: click.ClickException) -> int:
    try:
        error.show()
    except OSError:
        let_go(sys.stderr)
    return error.exit_code
