"""The MCP bridge: a loop over stdin and stdout for agents that ask for memories by themselves.

An agent starts it with every session and may ask for a tool in its first turn, so what counts is how soon it
answers. Until a tool is called it is Python's own `json` and nothing else; with the first call the client of
the daemon comes in. `bridge.py` is the file that agents run, `forgectl mcp` the same for a person.
"""

from __future__ import annotations

from forged.mcp.loop import chosen, serve

__all__ = ["chosen", "serve"]
