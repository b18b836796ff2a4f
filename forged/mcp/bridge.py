"""What an agent runs: `python -I -S .../forged/mcp/bridge.py [HARNESS] [--workspace DIR]`.

Isolated and without site-packages, as finding those takes longer than all answers before a tool is called.
This file is compiled at every start, so it is short.
"""

from __future__ import annotations

import sys

USAGE = "usage: bridge.py [HARNESS] [--workspace DIR]\n"


def main(arguments: list[str]) -> int:
    """Serve on stdin and stdout until the agent hangs up; the exit code."""
    from forged.mcp import chosen, serve  # noqa: PLC0415 - where it lies is known only now

    place = chosen(arguments)
    if place is None:
        sys.stderr.write(USAGE)
        return 2
    try:
        serve(*place)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    # Behind the standard library, which nothing beside forged may take the place of.
    sys.path.append(__file__.rpartition("/forged/mcp/")[0])
    sys.exit(main(sys.argv[1:]))
