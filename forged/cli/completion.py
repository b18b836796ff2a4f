"""`forgectl completion`: completion scripts of shells, for commands, options and values."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from forged.cli.call import Invocation, show
from forged.cli.commands import forgectl, with_json_option
from forged.cli.exits import Stop

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_FORGECTL_COMPLETE"


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@with_json_option
def completion_command(call: Invocation, *, shell: str | None) -> None:
    """Print the shell completion script; without SHELL, for the shell that $SHELL names."""
    chosen = shell or _own_shell(call)
    kind = get_completion_class(chosen)
    assert kind is not None, "click knows the shells that are offered"
    script = kind(forgectl, {}, "forgectl", _VARIABLE).source()
    show(call, {"shell": chosen, "script": script}, (script.strip("\n"),))


def _own_shell(call: Invocation) -> str:
    """Return the name of the user's shell by $SHELL. Raises Stop unless it is bash, zsh or fish."""
    name = os.path.basename(call.environ.get("SHELL", ""))
    if name not in SHELLS:
        raise Stop("usage", f"name the shell: {', '.join(SHELLS)}")
    return name
