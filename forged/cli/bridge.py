"""`forgectl mcp`: the bridge for agents that speak MCP, as click knows it; `fast.py` starts it without."""

from __future__ import annotations

import click

from forged import mcp


@click.command("mcp")
@click.argument("harness", default="")
@click.option("--workspace", default="", metavar="PATH", help="Folder to work in, whatever the agent says.")
def mcp_command(*, harness: str, workspace: str) -> None:
    """Serve memories to an agent that speaks MCP on stdin and stdout, until it hangs up.

    HARNESS is the agent's program, such as claude; the log calls it so.
    """
    arguments = [harness] * bool(harness) + ["--workspace", workspace] * bool(workspace)
    if (place := mcp.parse_arguments(arguments)) is None:
        raise click.BadParameter("a harness is a word such as claude", param_hint="HARNESS")
    mcp.serve(*place)
