"""`forgectl config`: show, locate, start or check the user's configuration. Asks no daemon."""

from __future__ import annotations

from pathlib import Path

import click

from forged import config
from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.exits import Stop
from forged.cli.program_classifier import classifier_command
from forged.cli.tables import columns
from forged.cli.template import template
from forged.cli.terminal import escape_line, tell
from forged.errors import ConfigError
from forged.importing import new_file


@click.group("config")
def config_command() -> None:
    """Show, locate, start or check the configuration."""


config_command.add_command(classifier_command)


@config_command.command("show", short_help="Print every key and its value.")
@click.option("--origin", is_flag=True, help="Also say where each value comes from.")
@reads
def show_command(call: Invocation, origin: bool) -> None:
    """Print every key with the value that holds. Keys of endpoints are masked."""
    loaded = _loaded(call)
    rows = [(s.key, f"= {escape_line(s.value)}", escape_line(s.origin)) for s in loaded.settings]
    lines = [
        line.rstrip() for line in columns((row if origin else row[:2] for row in rows), width=call.width)
    ]
    show(call, {"settings": loaded.settings, "warnings": loaded.warnings}, lines)
    _tell_warnings(call, loaded)


@config_command.command("path", short_help="Print where the file is.")
@reads
def path_command(call: Invocation) -> None:
    """Print where the configuration file is, whether or not there is one."""
    path = config.config_path(call.environ)
    show(call, {"path": str(path), "exists": path.exists()}, (escape_line(str(path)),))


@config_command.command("init", short_help="Write a commented configuration file, once.")
@reads
def init_command(call: Invocation) -> None:
    """Write a commented configuration file, once; an existing one is never touched."""
    path = config.config_path(call.environ)
    _write_new(path, template())
    show(call, {"path": str(path)}, (f"wrote {escape_line(str(path))}",))


@config_command.command("check", short_help="Say whether the configuration is valid.")
@reads
def check_command(call: Invocation) -> None:
    """Check the configuration: exit code 78 with key, value, range and origin when it is wrong."""
    loaded = _loaded(call)
    _tell_warnings(call, loaded)
    about = {"path": str(config.config_path(call.environ)), "warnings": loaded.warnings}
    show(call, about, ("the configuration is valid",))


def _loaded(call: Invocation) -> config.Loaded:
    try:
        return config.load(call.environ)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error


def _tell_warnings(call: Invocation, loaded: config.Loaded) -> None:
    for warning in () if call.as_json else loaded.warnings:
        tell(f"warning: {warning}")


def _write_new(path: Path, text: str) -> None:
    try:
        descriptor = new_file(str(path))
    except FileExistsError as error:
        raise Stop("conflict", f"{path} is there already and is left as it is") from error
    except OSError as error:
        raise Stop("unavailable", f"{path} cannot be written: {error.strerror}") from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
