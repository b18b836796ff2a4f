"""`forgectl hook` at a terminal; in a pipe `fast.py` answers it, and plug-ins do without forgectl."""

from __future__ import annotations

import sys

import click


@click.command("hook")
@click.argument("agent")
def hook_command(agent: str) -> None:
    """Pass an event of an agent from standard input to the daemon; print the answer for the agent.

    AGENT is claude, codex, gemini, qwen, opencode, cursor or vscode.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("no event on standard input; run forgectl hook AGENT < event.json")
    from forged_client import hook  # noqa: PLC0415 - ends the process

    hook.main([agent])
