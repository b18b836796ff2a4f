"""Commands of forgectl: their groups, the options that they share, and the end of a call.

A module of this package holds the commands of one family and is imported when one of them is called.
To add a command: a row in GROUPS, and in its module a click command named `<name>_command`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import click
import msgspec

from forged import __version__
from forged.cli.call import Invocation, report
from forged.cli.exits import EXPLAINED, INTERRUPTED, Stop
from forged.cli.terminal import exit_for_output_error, redirect_to_null


class Verb(NamedTuple):
    """Row of the table of commands: module below `forged.cli`, one line for `--help`, and examples.

    `parts` are the examples of a group's own commands: arguments by name.
    """

    module: str
    about: str
    example: str
    parts: Mapping[str, str] = MappingProxyType({})


GROUPS: dict[str, dict[str, Verb]] = {
    "Start": {
        "setup": Verb("setup", "Connect your agents; --remove disconnects them.", "setup claude"),
        "status": Verb("status_verbs", "Show if forged works here, and what needs you.", "status --watch"),
        "doctor": Verb("doctor", "Check the installation and say how to fix it.", "doctor --try"),
        "demo": Verb("demo.steps", "Show forged at work in a scratch directory.", "demo"),
        "docs": Verb("docs", "Show the manual.", "docs privacy"),
    },
    "Your memories": {
        "remember": Verb("memories", "Write a memory.", "remember 'We deploy with make ship' --scope repo"),
        "search": Verb("search", "Find memories by text.", "search 'how do we deploy'"),
        "list": Verb("memories", "List memories, latest first.", "list --scope user --since 7d"),
        "show": Verb("memories", "Print memories whole, with their versions.", "show 6f0e5d"),
        "edit": Verb(
            "chains", "Write a new version of a memory.", "edit 6f0e5d 'We deploy with make release'"
        ),
        "forget": Verb("memories", "Remove memories with all their versions.", "forget 6f0e5d 0a1b2c"),
        "undo": Verb("capturing", "Remove the memories that were captured last.", "undo"),
        "restore": Verb("chains", "Bring back memories that were removed.", "restore 6f0e5d"),
    },
    "What happened": {
        "captured": Verb(
            "captured", "Show what was saved from sessions, and what was not.", "captured --today"
        ),
        "why": Verb("retrieval", "Explain which memories a message got.", "why 'how do we deploy'"),
        "review": Verb("reviewing", "Decide about proposals and unused memory files.", "review"),
        "trust": Verb("trusting", "Allow the memory files of a repository.", "trust ~/src/app"),
        "ui": Verb("ui.verb", "Open a page with memories, captures and injections.", "ui"),
        "usage": Verb("usage", "Show what left the machine, what it cost, and limits.", "usage --days 30"),
    },
    "Bring in, take out": {
        "import": Verb("importing", "Import memories from files of other programs.", "import CLAUDE.md"),
        "learn": Verb("learning", "Propose memories from past sessions of your agents.", "learn --since 30d"),
        "ingest": Verb("ingesting", "Make documents searchable; list or remove them.", "ingest docs/"),
        "export": Verb("exporting", "Copy memories out of forged.", "export --scope user --to memories"),
    },
    "Switches": {
        "pause": Verb("capturing", "Stop capture and injection, here or everywhere.", "pause"),
        "resume": Verb("capturing", "End a pause.", "resume --all"),
        "stop": Verb("stopping", "Stop the daemon until the next use.", "stop"),
        "restart": Verb("stopping", "Restart the daemon with the installed version.", "restart"),
        "logs": Verb("logs", "Show the daemon's log.", "logs --follow"),
        "service": Verb(
            "service",
            "Run the daemon as a service of systemd.",
            "service install",
            {"install": "--replace", "uninstall": "", "status": ""},
        ),
        "config": Verb(
            "configuration",
            "Show, create or check the configuration.",
            "config show",
            {"show": "--origin", "path": "", "init": "", "check": "", "classifier": "cli:claude"},
        ),
    },
}
PLUMBING: dict[str, Verb] = {
    "ping": Verb("status_verbs", "Ask if the daemon answers.", "ping"),
    "rebuild": Verb("rebuild", "Read the memory files of this workspace again.", "rebuild --wait"),
    "retrieve": Verb("retrieval", "Print what an agent gets for a message.", "retrieve 'how do we deploy'"),
    "move": Verb("chains", "Give a memory another scope.", "move 6f0e5d user"),
    "dead": Verb(
        "dead_events",
        "List, show, retry or drop capture events that failed.",
        "dead list",
        {"list": "", "show": "ev_1a2b", "retry": "--all", "drop": "ev_1a2b"},
    ),
    "hook": Verb("hooking", "Pass an event of an agent to the daemon.", "hook claude < event.json"),
    "mcp": Verb("bridge", "Serve memories over MCP on stdin and stdout.", "mcp claude"),
    "completion": Verb("completion", "Print the shell completion script.", "completion bash"),
    "shared": Verb(
        "shared",
        "Manage the PostgreSQL of a team.",
        "shared status",
        {
            "migrate": "",
            "status": "",
            "check": "",
            "doctor": "",
            "grant": "anna --documents",
            "revoke": "anna",
        },
    ),
    "integrations": Verb(
        "integrations", "Show how each agent is connected.", "integrations", {"status": "--all"}
    ),
}
_HELP = {"help": Verb("commands", "Show the help of forgectl or of a command.", "help search")}
VERBS = {name: verb for group in (*GROUPS.values(), PLUMBING, _HELP) for name, verb in group.items()}

_COLUMN = max(map(len, VERBS))
_ALL = "forged.cli.all"
_MORE = (
    "`forgectl help COMMAND` explains a command. `forgectl --help --all` also lists the commands for"
    " plug-ins, scripts and repair."
)


class SharedOption(click.Option):
    """Option of many commands that only the help of `forgectl` itself lists, not that of each command."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option's line of help on the page of `forgectl`; None on other pages."""
        return super().get_help_record(ctx) if ctx.parent is None else None


def _reject_nan(_context: click.Context, _option: click.Parameter, seconds: float | None) -> float | None:
    """Return the seconds of `--timeout`, None if not given. Raises click.BadParameter for NaN."""
    if seconds is not None and math.isnan(seconds):  # no range leaves it out
        raise click.BadParameter("give a number of seconds")
    return seconds


def _print_version_and_exit(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"forgectl, version {__version__}")
        context.exit()


def _print_help_and_exit(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(context.get_help())
        context.exit()


_PLACE = (
    click.option(
        "--no-autostart", is_flag=True, cls=SharedOption, help="Do not start a daemon that is not running."
    ),
    click.option(
        "--workspace",
        metavar="PATH",
        cls=SharedOption,
        help="Directory to work in (default: the current one).",
    ),
)
_TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.05),
    callback=_reject_nan,
    metavar="SECONDS",
    cls=SharedOption,
    help="Limit for the whole call (default: 10).",
)
_JSON = click.option(
    "--json", "as_json", is_flag=True, cls=SharedOption, help="Print one JSON object with schema_version."
)
_VERSION = SharedOption(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version_and_exit,
    help="Print the version.",
)
min_generation_option = click.option(
    "--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible."
)

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Commands(click.Group):
    """Root group of forgectl: imports only the command that is called, lists all in groups for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands of forgectl."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command of this name, with its example for help; None for an unknown name."""
        return _import_command(cmd_name) if cmd_name in VERBS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse forgectl's arguments, and note for `--help` if `--all` is among them."""
        ctx.meta[_ALL] = "--all" in args
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and its arguments; an unknown name ends the call with a suggestion."""
        _fail_if_unknown(ctx, args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write forgectl's help: commands by group (plumbing with `--all`), then shared options."""
        groups = GROUPS | ({"Plumbing": PLUMBING} if ctx.meta.get(_ALL) else {})
        for heading, verbs in groups.items():
            lines = [(name, verb.about) for name, verb in verbs.items()]
            with formatter.section(heading):
                formatter.write_dl(lines, col_spacing=_COLUMN + 2 - max(map(len, verbs)))
        formatter.write_paragraph()
        formatter.write_text(_MORE)
        records = [param.get_help_record(ctx) for param in self.get_params(ctx)]
        with formatter.section("Options, before or after a command that takes them"):
            formatter.write_dl([record for record in records if record is not None])


class DefaultGroup(click.Group):
    """A group of commands that runs its command `status` if the command line names none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `status` first if arguments are empty or begin with a foreign option; parse them."""
        own = {name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = ["status", *args]
        return super().parse_args(ctx, args)


@functools.cache
def _import_command(name: str) -> click.Command:
    """Import a command of forgectl once; add `--version` and an example to it and its subcommands."""
    verb = VERBS[name]
    module = importlib.import_module(f"forged.cli.{verb.module}")
    command: click.Command = getattr(module, f"{name}_command")
    _add_version_and_example(command, verb.example)
    if isinstance(command, click.Group):
        for part, arguments in verb.parts.items():
            _add_version_and_example(command.commands[part], f"{name} {part} {arguments}".rstrip())
    return command


def _add_version_and_example(command: click.Command, example: str) -> None:
    """Give a command `--version`, and an example and its shared options at the end of its help."""
    command.params.append(_VERSION)
    shared = ", ".join(param.opts[-1] for param in command.params if isinstance(param, SharedOption))
    command.epilog = f"\b\nExample:\n  forgectl {example}\n\nAlso {shared}: see `forgectl --help`."


def _fail_if_unknown(context: click.Context, name: str, names: Collection[str]) -> None:
    """End the call for a command name that is not in `names`, with the nearest one as a suggestion."""
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        context.fail(f"unknown command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def with_daemon_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: add `--workspace`, `--timeout` etc., pass its Invocation, report Stop."""
    return _wrap_command(verb, (*_PLACE, _TIMEOUT, _JSON))


def with_json_option(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: add only the option `--json`, pass the Invocation, report a Stop."""
    return _wrap_command(verb, (_JSON,))


def _wrap_command(verb: Callable[..., None], options: Sequence[_Decorator]) -> Callable[..., None]:
    """Wrap a command: add options, pass the Invocation; a Stop is printed and gives the exit code."""

    def with_invocation(
        surroundings: Invocation,
        *,
        as_json: bool,
        workspace: str | None = None,
        no_autostart: bool = False,
        timeout_s: float | None = None,
        **own: object,
    ) -> None:
        call = _adjusted_invocation(surroundings, workspace, no_autostart, timeout_s, as_json)
        try:
            verb(call, **own)
        except Stop as stop:
            sys.exit(report(stop, as_json=call.as_json))

    functools.update_wrapper(with_invocation, verb)
    command: Callable[..., None] = click.pass_obj(with_invocation)
    for option in options:
        command = option(command)
    return command


def _adjusted_invocation(
    call: Invocation, workspace: str | None, no_autostart: bool, timeout_s: float | None, as_json: bool
) -> Invocation:
    """Return the invocation with workspace, autostart, timeout and JSON of a command line's options."""
    return msgspec.structs.replace(
        call,
        workspace=os.path.join(call.workspace, workspace) if workspace else call.workspace,
        autostart=call.autostart and not no_autostart,
        timeout_s=timeout_s or call.timeout_s,
        as_json=call.as_json or as_json,
    )


_EXIT_CODES = "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXPLAINED)


@click.group(
    cls=Commands,
    name="forgectl",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="One long-term memory for every coding agent on this machine.",
    epilog=f"\b\nExit codes:\n{_EXIT_CODES}",
)
@_JSON
@_TIMEOUT
@_PLACE[0]
@_PLACE[1]
@click.option(
    "--all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_help_and_exit,
    help="With --help: list the commands for plug-ins, scripts and repair, too.",
)
@click.pass_context
def forgectl(
    context: click.Context,
    *,
    workspace: str | None,
    no_autostart: bool,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Store the invocation, changed by the options before a command, in the click context."""
    context.obj = _adjusted_invocation(context.obj, workspace, no_autostart, timeout_s, as_json)


forgectl.params.append(_VERSION)


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.option("--all", is_flag=True, expose_value=False, help="List the commands of --help --all.")
@click.pass_context
def help_command(context: click.Context, *, names: tuple[str, ...]) -> None:
    """Show the help of forgectl, or of the command that is named."""
    shown: click.Context = context.find_root()
    for name in names:
        group = shown.command
        if not isinstance(group, click.Group):
            context.fail(f"{shown.command_path} has no commands of its own")
        _fail_if_unknown(context, name, group.list_commands(shown))
        command = group.get_command(shown, name)
        assert command is not None, "it is known"
        shown = click.Context(command, info_name=name, parent=shown)
    click.echo(shown.get_help())


def run(arguments: Sequence[str], call: Invocation) -> int:
    """Run a command line by click, print errors as text or JSON, and return the exit code."""
    try:
        code = forgectl.main(list(arguments), prog_name="forgectl", standalone_mode=False, obj=call)
    except click.Abort:
        return INTERRUPTED
    except click.UsageError as error:
        if "--json" in arguments:
            return report(Stop("usage", error.format_message()), as_json=True)
        return _print_error(error)
    except click.ClickException as error:
        return _print_error(error)
    except OSError as error:
        if error.filename is not None:
            raise
        exit_for_output_error(error)  # click prints help by itself
    return code if isinstance(code, int) else 0


def _print_error(error: click.ClickException) -> int:
    """Print an error of click on stderr, if that is open; return its exit code."""
    try:
        error.show()
    except OSError:
        redirect_to_null(sys.stderr)
    return error.exit_code
