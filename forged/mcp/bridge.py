"""Program of the MCP server: `python -I -S .../forged/mcp/bridge.py [HARNESS] [--workspace DIR]`.

It runs isolated and without site-packages, because finding those takes longer than all answers before the
first call of a tool. This file is compiled at every start, so it is short.
"""

from __future__ import annotations

import sys

USAGE = "usage: bridge.py [HARNESS] [--workspace DIR]\n"


def main(arguments: list[str]) -> int:
    """Run the MCP server on stdin and stdout until the agent hangs up; return the exit code, 2 for misuse."""
    from forged.mcp import parse_arguments, serve  # noqa: PLC0415 - its path is known only now

    place = parse_arguments(arguments)
    if place is None:
        sys.stderr.write(USAGE)
        return 2
    try:
        serve(*place)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    # After the standard library, so that no module next to forged hides one of Python's.
    sys.path.append(__file__.rpartition("/forged/mcp/")[0])
    sys.exit(main(sys.argv[1:]))
