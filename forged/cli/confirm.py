"""The question before something is taken away: what would go is shown, and only a yes goes on.

It stands on stderr, because the verb's data is on stdout, and is never put where nobody can answer. Any
other answer than yes is raised as `Stop`.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from forged.cli.call import Invocation
from forged.cli.exits import Stop

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask. Needed where nobody can answer.")


def require_answer(call: Invocation, verb: str) -> None:
    """Raise Stop if a question would meet nobody; to be called before the daemon is."""
    if not call.interactive:
        raise Stop("usage", f"{verb} asks first; where nobody can answer it needs --yes")


def confirm(shown: Iterable[str], question: str, declined: str) -> None:
    """Show what it is about and ask. Raises Stop with `declined` unless the answer is yes.

    All of it is escaped already.
    """
    for line in shown:
        click.echo(line, err=True)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C or the end of input leaves the cursor behind the question
        click.echo(err=True)
        raise
    if not agreed:
        raise Stop("declined", declined)
