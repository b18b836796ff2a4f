"""`forgectl config classifier`: what makes the person's own agent the classifier. Asks no daemon.

In goes a name such as `cli:claude`, out come the lines for the configuration file. PATH is looked into here,
where a person sees what was found, and never later.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil

import click

from forged import config
from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.exits import Stop
from forged.cli.terminal import escape_line, tell


@click.command("classifier", short_help="Print what makes your own agent the classifier.")
@click.argument("name")
@click.option("--program", default="", metavar="PATH", help="Where it is, if not in PATH.")
@reads
def classifier_command(call: Invocation, name: str, program: str) -> None:
    """Print what to write into the configuration so that NAME decides what is kept, as in cli:claude.

    Nothing is written and nothing is called.
    """
    if not config.is_program(name):
        raise Stop("usage", f"{name} names no program, as cli:claude does")
    if reason := config.unusable("classifier", name):
        raise Stop("usage", f"{name}: {reason}")
    command = shlex.quote(_found(call, program or config.parts_of(name)[1]))
    path = str(config.config_path(call.environ))
    lines = ("[memory]", f"classifier_model = {_text(name)}", "", "[llm]", f"command = {_text(command)}")
    show(call, {"path": path, "classifier_model": name, "command": command}, map(escape_line, lines))
    for line in () if call.as_json else _meaning(name, path):
        tell(line)


def _found(call: Invocation, wanted: str) -> str:
    """The absolute path of a program; none of the repository in which the person stands."""
    found = shutil.which(wanted, path=call.environ.get("PATH", ""))
    if found is None or not os.path.isabs(found):
        raise Stop("not_found", f"there is no program {wanted}: say by --program where it is, from / on")
    here, home = (os.path.realpath(each) for each in (call.workspace, call.environ.get("HOME", "/")))
    lies_here = any(f"{each}/".startswith(f"{here}/") for each in (found, os.path.realpath(found)))
    if lies_here and here != home:
        raise Stop("declined", f"{found} lies where you stand, and no repository may bring the program")
    return found


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _meaning(name: str, path: str) -> tuple[str, ...]:
    agent = config.parts_of(name)[1]
    adds = config.AGENTS.get(agent)
    goes = "on its standard input" if adds is None else f"by your own login of {agent}"
    more = "its text" if adds is None else f"its text and about {adds:,} tokens"
    return (
        f"to be written into {path}; finished turns are then sent to it {goes},",
        f"and each call takes {more}: `forgectl doctor --try` makes one, `forgectl cost` counts them,",
        "`memory.daily_token_limit` limits them",
    )
