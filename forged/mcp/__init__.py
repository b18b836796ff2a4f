"""MCP server on stdin and stdout, for agents that call memory as tools.

An agent starts it with every session and may call a tool in its first turn, so its start is fast. Until a
tool is called it imports Python's own `json` and nothing else; the first call imports the client of the
daemon. `bridge.py` is the program that agents run, and `forgectl mcp` is the same for a person.
"""

from __future__ import annotations

from forged.mcp.loop import parse_arguments, serve

__all__ = ["parse_arguments", "serve"]
