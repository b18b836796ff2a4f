"""`forgectl hook`, called by hand: piped it is answered by fast.py, and by the client without forgectl."""

from __future__ import annotations

import sys

import click


@click.command("hook")
@click.argument("harness")
def hook_command(harness: str) -> None:
    """Hand an event of a harness to the daemon, from standard input; print what the harness is to read.

    HARNESS is claude, codex, gemini, qwen, opencode, cursor or vscode.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("an event is read from standard input: forgectl hook HARNESS < payload.json")
    from forged_client import hook  # noqa: PLC0415 - ends the process

    hook.main([harness])
