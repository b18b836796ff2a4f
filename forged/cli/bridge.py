"""`forgectl mcp`: the bridge for agents that speak MCP; `fast.py` starts it without click."""

from __future__ import annotations

import click

from forged import mcp


@click.command("mcp")
@click.argument("agent", default="")
@click.option("--workspace", default="", metavar="PATH", help="Work in this folder, not in the agent's.")
def mcp_command(*, agent: str, workspace: str) -> None:
    """Serve memories to an agent that speaks MCP on stdin and stdout, until it closes them.

    AGENT is the agent's program, such as claude; the daemon's log names it.
    """
    arguments = [agent] * bool(agent) + ["--workspace", workspace] * bool(workspace)
    if (place := mcp.parse_arguments(arguments)) is None:
        raise click.BadParameter("AGENT is a word such as claude", param_hint="AGENT")
    mcp.serve(*place)
