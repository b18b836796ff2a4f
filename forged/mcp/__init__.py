"""The MCP bridge: a loop over stdin and stdout for agents that ask for memories by themselves."""

from __future__ import annotations

__all__: list[str] = []
