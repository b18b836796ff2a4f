"""Questions before a removal, on stderr, as data goes to stdout.

Any answer but yes raises `Stop`.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from forged.cli.call import Invocation
from forged.cli.exits import Stop

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask; required without a terminal.")


def require_answer(call: Invocation, verb: str) -> None:
    """Raise Stop, which names `--yes`, unless a person can answer; call it before any change."""
    if not call.interactive:
        raise Stop("usage", f"{verb} needs confirmation; pass --yes when not on a terminal")


def confirm(shown: Iterable[str], question: str, declined: str) -> None:
    """Print lines, escaped already, on stderr; ask yes or no. Raises Stop if the answer is no."""
    for line in shown:
        click.echo(line, err=True)
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C or the end of input leaves the cursor behind the question
        click.echo(err=True)
        raise
    if not agreed:
        raise Stop("declined", declined)
